"""A folder to deploy: files that tile a range of sizes, how to run and to check them."""

"""The abstract machine below all kinds of files: acts, one run of them, their order, and what goes wrong."""

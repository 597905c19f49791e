"""One module for each format: `looks_like(text)` and `read(text, path)`."""

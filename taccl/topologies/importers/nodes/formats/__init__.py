"""One module for each format of dumps."""

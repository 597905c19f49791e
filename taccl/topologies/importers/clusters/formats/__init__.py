"""One module for each format that tells how nodes are joined."""

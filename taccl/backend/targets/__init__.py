"""Targets: each says what a kind of file can hold, and how a schedule becomes one. `registry` lists them."""

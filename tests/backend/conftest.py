"""Makes the modules next to it importable from the tests in the folders below."""

"""Makes the modules next to it (`strategies`) importable from the tests in the folders below."""

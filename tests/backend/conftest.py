"""Makes the modules beside it importable from the tests in the folders below."""

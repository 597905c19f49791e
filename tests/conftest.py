"""Makes the modules beside it (`strategies`) importable from the tests in the folders below."""

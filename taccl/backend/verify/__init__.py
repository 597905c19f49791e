"""Verification: each kind of file judged by what its runtimes do with it, over one machine."""

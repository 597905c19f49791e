"""Tuner files: which algorithm and protocol a stock library takes at which size, written and checked."""

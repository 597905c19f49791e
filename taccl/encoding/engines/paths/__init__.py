"""Paths: one for each chunk that goes from one rank to one, all in one pipeline, at any size."""

from taccl.encoding.engines.paths.engine import is_compiled, paths, paths_at_once, serves

__all__ = ["is_compiled", "paths", "paths_at_once", "serves"]

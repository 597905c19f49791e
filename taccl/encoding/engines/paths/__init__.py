"""Paths: one for each chunk that goes from one rank to one, all in one pipeline, at any size."""

from taccl.encoding.engines.paths.engine import paths, paths_at_once, serves

__all__ = ["paths", "paths_at_once", "serves"]

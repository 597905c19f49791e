"""Routes by several choosers, put in order by one scheduler."""

from taccl.encoding.engines.routes.engine import across_chunks, is_compiled, routes, routes_at_once, serves

__all__ = ["across_chunks", "is_compiled", "routes", "routes_at_once", "serves"]

"""Paths at the flow optimum, for large messages of which each chunk goes from one rank to one rank."""

from taccl.encoding.engines.flows.engine import flows, serves

__all__ = ["flows", "serves"]

"""Small messages: few sends that each carry in bulk whatever helps, found by searching their sequence."""

from taccl.encoding.bulk.engine import bulk, is_for_bulk

__all__ = ["bulk", "is_for_bulk"]

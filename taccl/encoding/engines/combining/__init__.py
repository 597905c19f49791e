"""Small messages: few sends that each carry in bulk whatever helps, found by searching their sequence."""

from taccl.encoding.engines.combining.engine import bulk, bulk_at_once, is_for_bulk, smallness
from taccl.encoding.engines.combining.roots import bulk_sums
from taccl.encoding.engines.combining.sums import bulk_exchange, is_for_exchange

__all__ = [
    "bulk",
    "bulk_at_once",
    "bulk_exchange",
    "bulk_sums",
    "is_for_bulk",
    "is_for_exchange",
    "smallness",
]

"""Small messages: few sends that each carry in bulk whatever helps, found by searching their sequence."""

from taccl.encoding.engines.combining.engine import bulk, bulk_at_once, serves
from taccl.encoding.engines.combining.roots import bulk_sums, serves_owners
from taccl.encoding.engines.combining.sums import bulk_exchange, serves_exchange

__all__ = [
    "bulk",
    "bulk_at_once",
    "bulk_exchange",
    "bulk_sums",
    "serves",
    "serves_exchange",
    "serves_owners",
]

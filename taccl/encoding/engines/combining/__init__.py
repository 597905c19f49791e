"""Small messages: few sends that each carry all chunks that help, found by searching their sequence."""

from taccl.encoding.engines.combining.engine import combine, combine_at_once, cuts, serves, tells_chunks
from taccl.encoding.engines.combining.hops import is_compiled
from taccl.encoding.engines.combining.owners import combine_at_owners, serves_owners
from taccl.encoding.engines.combining.sums import exchange_with, serves_exchange

__all__ = [
    "combine",
    "combine_at_once",
    "combine_at_owners",
    "cuts",
    "exchange_with",
    "is_compiled",
    "serves",
    "serves_exchange",
    "serves_owners",
    "tells_chunks",
]

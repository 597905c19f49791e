"""The words of a proof about a view that is read backwards, said of the problem in question.

There each transfer goes the other way and what comes last comes first, so `8 MB out of rank 0` are
`8 MB into rank 0`. Ports keep their names.
"""

from __future__ import annotations

import re

#: What witnesses say of one direction, with what they say of the other.
WORDS = {
    "into": "out of",
    "out of": "into",
    "beyond": "from beyond",
    "fed by": "taken by",
    "passed on to": "brought together from",
    "receives": "gives away",
    "growing": "shrinking",
    "spread of": "collection of",
    "collected first": "given away last",
    "the last gathered": "the first spread",
    "the last to leave": "the first to be complete at",
}
_SAID = re.compile(rf"\b({'|'.join(WORDS)})\b")
_PAIR = re.compile(r"\bfrom (rank \d+) to (rank \d+)")


def turned(witness: str) -> str:
    """A witness, or a remedy, with each direction turned round.

    >>> turned("3 chunks out of rank 0 through gpu0 -> switch, fed by rank 0 send by send")
    '3 chunks into rank 0 through gpu0 -> switch, taken by rank 0 send by send'
    """
    return _PAIR.sub(r"from \2 to \1", _SAID.sub(lambda found: WORDS[found[0]], witness))

"""Ranges of message sizes as users write them: `1KB..1GB`, or a list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taccl.errors import UnitError
from taccl.model import units
from taccl.support.arguments import shown

#: Of a range, the two ends are joined by this.
_TO = ".."
#: More sizes are no table that anybody reads.
_MOST = 256


def sizes_of(requested: str | Sequence[str | int]) -> tuple[int, ...]:
    """The sizes in bytes, ascending, each once.

    Parameters
    ----------
    requested : sizes such as `64KB`, and ranges such as `1KB..1GB`, which double from the first size on; in
        one text with commas between them, or as a sequence.

    Raises
    ------
    UnitError : a size that is none, a range that ends before it begins, none at all, or too many.

    Examples
    --------
    >>> sizes_of("1KB..4KB,1MB")
    (1024, 2048, 4096, 1048576)
    """
    parts = requested.split(",") if isinstance(requested, str) else requested
    if not isinstance(parts, Sequence):
        raise UnitError(f"sizes are a range or a list, not {shown(requested)}", hint="1KB..1GB")
    found = sorted({size for part in parts for size in _sizes(part)})
    if not found:
        raise UnitError("no size is given", hint="1KB..1GB")
    if len(found) > _MOST:
        raise UnitError(f"these are {len(found)} sizes, and at most {_MOST} make a table")
    return tuple(found)


def _sizes(part: str | int) -> Iterator[int]:
    if not isinstance(part, str) or _TO not in part:
        yield units.parse_size(part)
        return
    first, _, last = part.partition(_TO)
    size, most = units.parse_size(first.strip()), units.parse_size(last.strip())
    if size > most:
        raise UnitError(f"the range {shown(part)} ends before it begins", hint=f"{last}{_TO}{first}")
    while size <= most:
        yield size
        size *= 2

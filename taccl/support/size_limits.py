"""What is too large to build, reported before it is begun, with what would fit.

Sizes beyond these take more memory or time than any engine has for an answer: they are slips of the pen, or
requests that a coarser question answers.
"""

from __future__ import annotations

from collections.abc import Callable

from taccl.errors import CollectiveError, TooLargeError, TopologyError
from taccl.support.arguments import shown

#: The most rows of a placement: this many transfers at least are more than any engine orders.
MAX_PLACES = 2**22
#: The most chunks times ranks, which engines and bounds have tables of.
MAX_CELLS = 2**28
#: Collectives in which every chunk goes from one rank to one.
_PAIRWISE = ("alltoall", "gather", "scatter")
#: The most transfers of a schedule. Each takes some 50 bytes, and several times that while it is made.
MAX_TRANSFERS = 2**25
#: Of collectives with no more chunks, nobody counts the transfers.
MANY_CHUNKS = 2**16
#: The most ranks with data of which a network of all is built.
MAX_MEMBERS = 2**12
#: The most links between ranks, as among 512 that all reach each other.
MAX_LINKS = 2**18


def check_places(name: str, num_ranks: int, pieces: int) -> None:
    """Raise CollectiveError if a standard collective has too many places of chunks."""
    if has_too_many_places(name, num_ranks, pieces):
        raise _too_large(name, num_ranks, pieces)


def has_too_many_places(name: str, num_ranks: int, pieces: int) -> bool:
    """Whether a standard collective has more places of chunks than any engine orders."""
    return _places(name, num_ranks, pieces) > MAX_PLACES


def check_cells(name: str, num_ranks: int, pieces: int, num_chunks: int) -> None:
    """Raise CollectiveError if a collective, standard or not, has more than MAX_CELLS chunks times ranks.

    Chunks that go from one rank to one need no such tables.
    """
    if name in _PAIRWISE or num_chunks * num_ranks <= MAX_CELLS:
        return
    if num_chunks != _chunks(name, num_ranks, pieces):
        raise CollectiveError(
            f"{name} has {num_chunks} chunks for {num_ranks} ranks: that is too large to build"
        )
    raise _too_large(name, num_ranks, pieces)


def check_table(num_chunks: int, num_ranks: int) -> None:
    """Raise CollectiveError if a table of chunks times ranks has more than MAX_CELLS cells."""
    if num_chunks * num_ranks > MAX_CELLS:
        raise CollectiveError(
            f"a table of {shown(num_chunks)} chunks times {shown(num_ranks)} ranks is too large to build: "
            f"{MAX_CELLS} cells fit",
            hint="fewer ranks, or fewer --chunks",
        )


def check_transfers(name: str, least: int) -> None:
    """Raise CollectiveError if a collective takes more than MAX_TRANSFERS transfers: `least` or more."""
    if least > MAX_TRANSFERS:
        raise CollectiveError(
            f"{name} takes more than {MAX_TRANSFERS} transfers on this machine, which is too large to build",
            hint="fewer ranks, fewer --chunks, or a machine with shorter routes from rank to rank",
        )


def check_members(name: str, num_members: int) -> None:
    """Raise TopologyError for a machine with more than MAX_MEMBERS ranks with data."""
    if num_members > MAX_MEMBERS:
        raise TopologyError(
            f"{name} has {num_members} GPUs, and {MAX_MEMBERS} can be planned whole",
            hint="fewer nodes; allgather, reducescatter and allreduce are planned for one of equal nodes",
        )


def check_links(name: str, num_links: int) -> None:
    """Raise TopologyError for a machine with more than MAX_LINKS links between ranks."""
    if num_links > MAX_LINKS:
        raise TopologyError(
            f"{name} has {num_links} links from rank to rank, which is too large to build: {MAX_LINKS} fit",
            hint="fewer ranks (512 that all reach each other fit), or a sketch that uses fewer links",
        )


def _chunks(name: str, num_ranks: int, pieces: int) -> int:
    if name in ("broadcast", "reduce"):
        return pieces
    return num_ranks * pieces * (num_ranks if name == "alltoall" else 1)


def _places(name: str, num_ranks: int, pieces: int) -> int:
    """Rows of the longer placement."""
    return _chunks(name, num_ranks, pieces) * (1 if name in _PAIRWISE else num_ranks)


def _fits(name: str, num_ranks: int, pieces: int) -> bool:
    cells = 0 if name in _PAIRWISE else _chunks(name, num_ranks, pieces) * num_ranks
    return cells <= MAX_CELLS and _places(name, num_ranks, pieces) <= MAX_PLACES


def _too_large(name: str, num_ranks: int, pieces: int) -> TooLargeError:
    """The error for a collective that is too large, with the most ranks or chunks that would fit."""
    chunks = _most(lambda number: _fits(name, num_ranks, number))
    ranks = _most(lambda number: _fits(name, number, 1))
    cut = f"in {shown(pieces)} chunk{'s' if pieces > 1 else ''} per rank"
    return TooLargeError(
        f"{name} on {shown(num_ranks)} ranks {cut} is too large to build: "
        f"{shown(_chunks(name, num_ranks, pieces))} chunks",
        hint=f"--chunks {chunks} or fewer" if chunks else f"{ranks} ranks or fewer",
    )


def _most(fits: Callable[[int], bool]) -> int:
    """The largest number up to 2**30 that fits, where all smaller ones do; 0 if none does."""
    low, high = 0, 2**30
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low

"""A custom collective from YAML: for each chunk, where it starts and where it is wanted.

    collective: halo-exchange          # any name that is no standard collective's
    ranks: 4
    chunks:
      - {from: 0, to: 1}               # a copy of rank 0's chunk for rank 1
      - {from: 1, to: [0, 2]}
      - {from: 2, to: {3: 1}}          # at offset 1 of rank 3's output buffer
      - {sum: all, to: 0}              # the sum over all ranks, for rank 0

`from`, `sum` and `to` take a rank, a list of ranks, `all`, or a mapping from rank to the chunk's
offset in the rank's input (`from`, `sum`) or output buffer (`to`). Where no offset is given, chunks
take the lowest free offsets in the order of the file.

A chunk may have a `size` (`4MB`, or a number: how many times as large as a chunk of 1), a moment from
which it is `ready` and a `tail`, what still follows once it is there (microseconds, or a mapping from
rank to them).

Several collectives at once are `parts` in place of `chunks` (`collective_parts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from pathlib import Path

import numpy as np

from taccl.backend.machine.unequal import Requested, UnequalCollective, in_equal_chunks
from taccl.errors import CollectiveError
from taccl.model.collective import Collective, IntArray, Placement
from taccl.model.collectives import COLLECTIVES, plain_name
from taccl.model.demand import Demand, alltoallv, together
from taccl.model.network import FloatArray
from taccl.support.arguments import shown, whole_number
from taccl.support.size_limits import MAX_PLACES
from taccl.synthesis.collective_parts import RequestedPart, parts_alone, requested_parts
from taccl.synthesis.collective_places import MAX_OFFSET, Places, size_of, time_of
from taccl.synthesis.size_matrix import SUFFIXES_OF_SIZES, size_matrix
from taccl.topologies.strict_yaml import Node, load_yaml

#: More ranks are a slip of the pen; what a file for the ranks can hold, its target knows.
MAX_RANKS = 2**14
#: A size is that of the smallest chunk times a fraction of at most this denominator.
_MOST_PARTS = 10**6
#: More elements than any file has.
_MOST_ELEMENTS = 2**60

_SUFFIXES = (".yaml", ".yml")


def is_collective_file(name: str | Path) -> bool:
    """Whether `name` means a file, and not one of the standard collectives."""
    if isinstance(name, Path) or name.endswith(_SUFFIXES) or "/" in name:
        return True
    try:
        return plain_name(name) not in COLLECTIVES and Path(name).exists()  # a directory is reported as such
    except (OSError, ValueError):  # no name of a file at all
        return False


def load_collective(path: str | Path, num_ranks: int | None = None, pieces: int = 1) -> Collective:
    """The collective of `load_requested`, unequal chunks cut into equal ones, the largest that divide all.

    Raises
    ------
    FileError, CollectiveError : as `load_demand`; more of them than any file can be checked for.
    """
    return in_equal_chunks(load_requested(path, num_ranks, pieces))


def load_requested(path: str | Path, num_ranks: int | None = None, pieces: int = 1) -> Requested:
    """The collective of `load_demand`, or of a table of sizes (`.csv`, `.npy`), to check a file against.

    Raises
    ------
    FileError, CollectiveError : as `load_demand`; sizes that no number holds.
    """
    if str(path).endswith(SUFFIXES_OF_SIZES):
        demand = alltoallv(size_matrix(path, num_ranks), pieces)
    else:
        demand = load_demand(path, num_ranks, pieces)
    if demand.sizes is None:
        return demand.collective
    whole = _in_bytes(demand) or _in_parts(demand.sizes)
    elements = [each // gcd(*whole) for each in whole]
    if sum(elements) > _MOST_ELEMENTS:
        raise CollectiveError(
            f"the sizes in {path} are {sum(elements)} times what divides them all", hint="rounder sizes"
        )
    ratios = demand.sizes if demand.chunk_bytes is None else None
    return UnequalCollective(demand.collective, np.array(elements, dtype=np.int64), ratios)


def _in_bytes(demand: Demand) -> list[int]:
    """The bytes of all chunks, if the file gives them and they are whole; else none."""
    exact = np.asarray(demand.sizes) * (demand.chunk_bytes or 0.0)
    whole = np.rint(exact)
    is_whole = bool((whole >= 1).all()) and bool((np.abs(exact - whole) <= 1e-12 * exact).all())
    return [int(each) for each in whole.tolist()] if is_whole else []


def _in_parts(sizes: FloatArray) -> list[int]:
    """The sizes as multiples of the largest number that divides them all."""
    ratios = [Fraction(size).limit_denominator(_MOST_PARTS) for size in sizes.tolist()]
    return [int(ratio * lcm(*(each.denominator for each in ratios))) for ratio in ratios]


def load_demand(path: str | Path, num_ranks: int | None = None, pieces: int = 1) -> Demand:
    """What a file describes, each of its chunks cut into `pieces`.

    Parameters
    ----------
    num_ranks : of the topology; the file must be for as many. None: as many as the file says.
    pieces : piece p of the chunk at offset k lies at offset k * pieces + p.

    Raises
    ------
    FileError, CollectiveError : with the line that is wrong.
    """
    name, ranks, keys = _head(path, num_ranks)
    whole_number(pieces, "chunks", CollectiveError, least=1, most=MAX_PLACES, hint="--chunks 4")
    if "parts" in keys:
        return together(name, ranks, parts_alone(keys["parts"], ranks, pieces))
    return _of_chunks(name, ranks, pieces, keys)


def load_parts(
    path: str | Path, num_ranks: int | None = None, pieces: int = 1
) -> tuple[str, int, list[RequestedPart]]:
    """The name, the number of ranks and the collectives of a file that has several.

    Raises
    ------
    FileError, CollectiveError : as `load_demand`; a file of chunks.
    """
    name, ranks, keys = _head(path, num_ranks)
    whole_number(pieces, "chunks", CollectiveError, least=1, most=MAX_PLACES, hint="--chunks 4")
    if "parts" not in keys:
        raise keys["chunks"].error(f"{name} is one collective", hint="'parts' lists several")
    return name, ranks, requested_parts(keys["parts"], ranks, pieces)


def _head(path: str | Path, num_ranks: int | None) -> tuple[str, int, dict[str, Node]]:
    """The name of a file's collective, its number of ranks, and the keys, of which one says what is moved."""
    if plain_name(str(path)) in COLLECTIVES and not Path(path).exists():
        raise CollectiveError(
            f"{path} is a standard collective, and this is for the YAML file of a custom one",
            hint="leave --collective out: a file names its standard collective itself",
        )
    root = load_yaml(path, CollectiveError)
    keys = root.mapping(
        allowed=("collective", "ranks", "chunks", "parts", "chunks_in_size"),
        required=("collective", "ranks"),
    )
    name = keys["collective"].string()
    if plain_name(name) in COLLECTIVES:
        raise keys["collective"].error(f"{name!r} is a standard collective's name", hint="choose another")
    ranks = keys["ranks"].integer(minimum=1, maximum=MAX_RANKS)
    if num_ranks not in (None, ranks):
        raise keys["ranks"].error(
            f"{name} is for {ranks} ranks, and the topology has {shown(num_ranks)}",
            hint="--nodes or --topology for as many ranks",
        )
    if ("chunks" in keys) == ("parts" in keys):
        what = "has both 'chunks' and 'parts'" if "chunks" in keys else "lacks the key 'chunks' or 'parts'"
        raise root.error(f"{name} {what}", hint="'chunks' lists chunks, 'parts' standard collectives")
    if "parts" in keys and "chunks_in_size" in keys:
        raise keys["chunks_in_size"].error("each part has its own size", hint="leave chunks_in_size out")
    return name, ranks, keys


def _of_chunks(name: str, ranks: int, pieces: int, keys: Mapping[str, Node]) -> Demand:
    chunks: list[_Chunk] = []
    places = 0
    for node in keys["chunks"].elements():
        chunks.append(_Chunk.read(node, ranks))
        places += pieces * max(len(chunks[-1].starts.offsets), len(chunks[-1].wanted.offsets))
        if places > MAX_PLACES:
            raise node.error(
                f"{name} is too large to build: more than {MAX_PLACES} places of chunks up to here",
                hint="fewer --chunks" if pieces > 1 else "fewer chunks or ranks",
            )
    if not chunks:
        raise keys["chunks"].error("a collective has at least one chunk")
    inputs = _placed([chunk.starts for chunk in chunks], ranks, "input")
    outputs = _placed([chunk.wanted for chunk in chunks], ranks, "output")
    largest = int(max(inputs.buffer_size(ranks).max(), outputs.buffer_size(ranks).max()))
    in_size = keys["chunks_in_size"].integer(1, MAX_OFFSET) if "chunks_in_size" in keys else largest
    collective = Collective(
        name=name,
        num_ranks=ranks,
        chunks_per_rank=pieces,
        chunks_per_size=in_size * pieces,
        inputs=inputs.cut(pieces),
        outputs=outputs.cut(pieces),
        reduces=np.repeat([chunk.reduces for chunk in chunks], pieces),
        owner=np.repeat([chunk.owner for chunk in chunks], pieces),
        in_place_shift=np.zeros(ranks, dtype=np.int64),
    )
    sizes, chunk_bytes = _sizes(chunks, pieces)
    return Demand(
        collective,
        sizes,
        _moments([moment for chunk in chunks for moment in chunk.ready_us], pieces),
        _moments([moment for chunk in chunks for moment in chunk.tail_us], pieces),
        chunk_bytes,
    )


def _sizes(chunks: Sequence[_Chunk], pieces: int) -> tuple[FloatArray | None, float | None]:
    """The sizes of all pieces, in units of the second where the file gives bytes; None: all are equal."""
    in_bytes = [chunk.size_bytes for chunk in chunks]
    if any(in_bytes):
        for chunk in chunks:
            if not chunk.size_bytes:
                raise chunk.node.error(
                    f"{chunk.node.name} must say its size in bytes, as other chunks do", hint="size: 4MB"
                )
        smallest = min(in_bytes)
        return np.repeat(np.array(in_bytes) / smallest, pieces), smallest / pieces
    units_of = [chunk.units for chunk in chunks]
    if all(each == 1 for each in units_of):
        return None, None
    return np.repeat(np.array(units_of, dtype=np.float64), pieces), None


def _moments(times_us: Sequence[float], pieces: int) -> FloatArray | None:
    return np.repeat(np.array(times_us, dtype=np.float64), pieces) if any(times_us) else None


@dataclass(frozen=True)
class _Chunk:
    """One chunk: `units` is how large it is among others, or `size_bytes` is not 0.

    `ready_us`, `tail_us` : of each of its sources, and of each rank that wants it.
    """

    node: Node
    starts: Places
    wanted: Places
    reduces: bool
    units: float
    size_bytes: int
    ready_us: tuple[float, ...]
    tail_us: tuple[float, ...]

    @staticmethod
    def read(node: Node, num_ranks: int) -> _Chunk:
        keys = node.mapping(allowed=("from", "sum", "to", "size", "ready", "tail"), required=("to",))
        if ("from" in keys) == ("sum" in keys):
            raise node.error(
                f"{node.name} must have either 'from' or 'sum'",
                hint="'from: 0' copies rank 0's chunk, 'sum: all' adds up every rank's",
            )
        starts = Places.read(keys["sum"] if "sum" in keys else keys["from"], num_ranks)
        wanted = Places.read(keys["to"], num_ranks)
        size = keys.get("size")
        is_relative = size is not None and size.kind in ("integer", "number")
        return _Chunk(
            node,
            starts,
            wanted,
            "sum" in keys,
            size.number(above=0) if size is not None and is_relative else 1.0,
            size_of(size) if size is not None and not is_relative else 0,
            _times_us(keys.get("ready"), starts, num_ranks),
            _times_us(keys.get("tail"), wanted, num_ranks),
        )

    @property
    def owner(self) -> int:
        """The source of a copy; the rank that a sum is for."""
        return next(iter((self.wanted if self.reduces else self.starts).offsets))


def _times_us(node: Node | None, places: Places, num_ranks: int) -> tuple[float, ...]:
    """A moment for each of the ranks: one for all, or each its own."""
    if node is None:
        return (0.0,) * len(places.offsets)
    if node.kind != "mapping":
        return (time_of(node),) * len(places.offsets)
    given = {key.integer(0, num_ranks - 1): (key, value) for key, value in node.items()}
    for rank, (key, _) in given.items():
        if rank not in places.offsets:
            raise key.error(f"rank {rank} of {node.name} is not in {places.node.name}")
    return tuple(time_of(given[rank][1]) if rank in given else 0.0 for rank in places.offsets)


def _placed(places: list[Places], num_ranks: int, buffer: str) -> Placement:
    """Every chunk at the offset that the file gives, or else at the lowest one that is free."""
    taken: list[dict[int, int]] = [{} for _ in range(num_ranks)]  # per rank: offset -> chunk
    for chunk, place in enumerate(places):
        for rank, offset in place.offsets.items():
            if offset is None:
                continue
            other = taken[rank].setdefault(offset, chunk)
            if other != chunk:
                raise place.node.error(
                    f"chunks {other} and {chunk} are both at offset {offset} of rank {rank}'s {buffer} buffer"
                )
    lowest_free = [0] * num_ranks
    rows = []
    for chunk, place in enumerate(places):
        for rank, offset in place.offsets.items():
            if offset is None:
                while lowest_free[rank] in taken[rank]:
                    lowest_free[rank] += 1
                taken[rank][lowest_free[rank]] = chunk
            rows.append((chunk, rank, lowest_free[rank] if offset is None else offset))
    columns: IntArray = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return Placement(columns[:, 0], columns[:, 1], columns[:, 2])

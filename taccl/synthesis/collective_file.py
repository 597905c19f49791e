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
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from taccl.errors import CollectiveError
from taccl.model.collective import Collective, IntArray, Placement
from taccl.model.collectives import COLLECTIVES
from taccl.support.arguments import shown, whole_number
from taccl.support.size_limits import MAX_PLACES
from taccl.topologies.strict_yaml import Node, load_yaml

#: More ranks are a slip of the pen; what a file for the ranks can hold, its target knows.
MAX_RANKS = 2**14
#: No buffer is larger, in chunks.
_MAX_OFFSET = 2**31

_SUFFIXES = (".yaml", ".yml")


def is_collective_file(name: str | Path) -> bool:
    """Whether `name` means a file, and not one of the standard collectives."""
    return isinstance(name, Path) or name.endswith(_SUFFIXES) or "/" in name


def load_collective(path: str | Path, num_ranks: int | None = None, pieces: int = 1) -> Collective:
    """The collective that a file describes, each of its chunks cut into `pieces`.

    Parameters
    ----------
    num_ranks : of the topology; the file must be for as many. None: as many as the file says.
    pieces : piece p of the chunk at offset k lies at offset k * pieces + p.

    Raises
    ------
    FileError, CollectiveError : with the line that is wrong.
    """
    root = load_yaml(path, CollectiveError)
    keys = root.mapping(
        allowed=("collective", "ranks", "chunks", "chunks_in_size"),
        required=("collective", "ranks", "chunks"),
    )
    name = keys["collective"].string()
    if name.lower().replace("-", "").replace("_", "") in COLLECTIVES:
        raise keys["collective"].error(f"{name!r} is a standard collective's name", hint="choose another")
    ranks = keys["ranks"].integer(minimum=1, maximum=MAX_RANKS)
    if num_ranks not in (None, ranks):
        raise keys["ranks"].error(
            f"{name} is for {ranks} ranks, and the topology has {shown(num_ranks)}",
            hint="--nodes or --topology for as many ranks",
        )
    whole_number(pieces, "chunks", CollectiveError, least=1, most=MAX_PLACES, hint="--chunks 4")
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
    in_size = keys["chunks_in_size"].integer(1, _MAX_OFFSET) if "chunks_in_size" in keys else largest
    return Collective(
        name=name,
        num_ranks=ranks,
        chunks_per_rank=pieces,
        chunks_per_size=in_size * pieces,
        inputs=_cut(inputs, pieces),
        outputs=_cut(outputs, pieces),
        reduces=np.repeat([chunk.reduces for chunk in chunks], pieces),
        owner=np.repeat([chunk.owner for chunk in chunks], pieces),
        in_place_shift=np.zeros(ranks, dtype=np.int64),
    )


@dataclass(frozen=True)
class _Places:
    """The ranks of one `from`, `sum` or `to`, and their offsets where the file gives them."""

    node: Node
    offsets: dict[int, int | None]

    @staticmethod
    def read(node: Node, num_ranks: int) -> _Places:
        last = num_ranks - 1
        offsets: dict[int, int | None] = {}
        if node.kind == "text":
            node.choice(("all",))
            offsets = dict.fromkeys(range(num_ranks))
        elif node.kind == "mapping":
            offsets = {key.integer(0, last): value.integer(0, _MAX_OFFSET) for key, value in node.items()}
        else:
            for rank in node.elements() if node.kind == "list" else (node,):
                if rank.integer(0, last) in offsets:
                    raise rank.error(f"rank {rank.raw} is named twice in {node.name}")
                offsets[rank.integer(0, last)] = None
        if not offsets:
            raise node.error(f"{node.name} names no rank")
        return _Places(node, offsets)


@dataclass(frozen=True)
class _Chunk:
    starts: _Places
    wanted: _Places
    reduces: bool

    @staticmethod
    def read(node: Node, num_ranks: int) -> _Chunk:
        keys = node.mapping(allowed=("from", "sum", "to"), required=("to",))
        if ("from" in keys) == ("sum" in keys):
            raise node.error(
                f"{node.name} must have either 'from' or 'sum'",
                hint="'from: 0' copies rank 0's chunk, 'sum: all' adds up every rank's",
            )
        start = keys["sum"] if "sum" in keys else keys["from"]
        return _Chunk(_Places.read(start, num_ranks), _Places.read(keys["to"], num_ranks), "sum" in keys)

    @property
    def owner(self) -> int:
        """The source of a copy; the rank that a sum is for."""
        return next(iter((self.wanted if self.reduces else self.starts).offsets))


def _placed(places: list[_Places], num_ranks: int, buffer: str) -> Placement:
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


def _cut(placement: Placement, pieces: int) -> Placement:
    piece = np.tile(np.arange(pieces), len(placement))
    return Placement(
        np.repeat(placement.chunk, pieces) * pieces + piece,
        np.repeat(placement.rank, pieces),
        np.repeat(placement.offset, pieces) * pieces + piece,
    )

"""All that an engine needs, and nothing else: network, collective, sizes, moments, and what is ruled out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from taccl.errors import TopologyError
from taccl.model import units
from taccl.model.chunk_maps import ChunkClasses
from taccl.model.collective import BoolArray, Collective, IntArray, Placement
from taccl.model.network import FloatArray, LogicalTopology
from taccl.support.arguments import column, number, whole_number

#: What a problem may use beyond copies of equal chunks among members, all there at 0 and done on arrival:
#: sums; helpers, or ranks that may not sum or not copy; chunks of unequal sizes; inputs that are there later;
#: outputs after which something follows; work on sums before they are copied on.
Feature = Literal["reductions", "helpers", "sizes", "ready_times", "tails", "sum_work"]
FEATURES: frozenset[Feature] = frozenset(get_args(Feature))
#: Those that say when computing has a part in it.
COMPUTING: frozenset[Feature] = frozenset({"ready_times", "tails", "sum_work"})


#: As `max_group`: a send takes any number of chunks.
NO_LIMIT = 2**31

_MAX_CHUNK_MB = 2.0**40
#: No chunk is this many times as large, or small, as `chunk_mb`.
_MOST_UNITS = 2.0**30
#: A moment sooner than this is 0: a millionth of what a byte takes, and less than what clocks are forgiven.
_NO_TIME_US = 1e-12


@dataclass(frozen=True, eq=False)
class RoutingLimits:
    """What the designer rules out or prefers, by the rank whose part a chunk is (its *owner*).

    Parameters
    ----------
    may_use : shape (num_ranks, num_links) or None for everything; whether chunks of an owner may
        travel over a link.
    own_first : shape (num_links,) or None; on these links the source rank's own chunks leave
        before those that it carries for others.
    link_preference : shape (num_links,) or None; among equally fast routings, how dear it is to
        use a link at all (positive: prefer few connections; negative: prefer many).
    spread_load : among equally fast routings, prefer the least loaded busiest link.
    """

    may_use: BoolArray | None = None
    own_first: BoolArray | None = None
    link_preference: FloatArray | None = None
    spread_load: bool = False


@dataclass(frozen=True)
class Statement:
    """Something that a user requested, in the words in which it was requested, and where."""

    text: str
    path: str | None = None
    line: int | None = None

    @property
    def place(self) -> str:
        """`file:line`, as far as it is known; empty for what no file says."""
        if self.path is None or self.line is None:
            return self.path or ("" if self.line is None else f"line {self.line}")
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, eq=False)
class Rule:
    """One reason for `RoutingLimits.may_use`, or for a link that is not there.

    Of the links in `scope`, chunks of `owners` may use those in `allows` and no others. The links are those
    of the topology that there would be without any rule.

    Parameters
    ----------
    said : the rule in the designer's words.
    owners : shape (num_ranks,).
    scope, allows : shape (num_links,).
    """

    said: Statement
    owners: BoolArray
    scope: BoolArray
    allows: BoolArray

    @property
    def forbids(self) -> BoolArray:
        """The links that chunks of `owners` may not use, shape (num_links,)."""
        return np.asarray(self.scope & ~self.allows)


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """Find the fastest schedule of `collective` on `topology` with chunks of `chunk_mb` MB.

    Parameters
    ----------
    symmetry : permutations of the ranks, each an automorphism of the topology, the limits and the
        collective (checked where they are made). Engines look for schedules that they leave unchanged, so
        there is less to decide. They are no demand: a small AllReduce that is faster with its sums
        made elsewhere has only those that leave these places alone, and bounds hold without any.
    limits : what is ruled out.
    max_group : the most chunks that may travel as one contiguous send. What a file can hold is known to its
        target, which `api.make_problem` asks; a problem that is for no target has no such limit.
    sizes : shape (num_chunks,) or None for equal chunks; each chunk's size in units of `chunk_mb`.
    ready_us : shape (len(inputs),) or None for 0; the moment from which each row of the collective's
        `inputs` is there, so that nothing can be done with it before.
    tail_us : shape (len(outputs),) or None for 0; what still follows once each row of the collective's
        `outputs` is there. A schedule ends when all that follows has ended.
    sum_work_us : shape (num_chunks,) or None for 0; the work on each finished sum where it is made, which has
        to be over before the sum is copied on or there. Such sums are made once (the compact form).

    Raises
    ------
    TopologyError : a number or column of the wrong kind, length or range; helpers of the topology that are
        not those of the collective.
    """

    topology: LogicalTopology
    collective: Collective
    chunk_mb: float
    symmetry: tuple[IntArray, ...] = ()
    limits: RoutingLimits = field(default_factory=RoutingLimits)
    max_group: int = NO_LIMIT
    sizes: FloatArray | None = None
    ready_us: FloatArray | None = None
    tail_us: FloatArray | None = None
    sum_work_us: FloatArray | None = None

    def __post_init__(self) -> None:
        number(self.chunk_mb, "chunk_mb", TopologyError, most=_MAX_CHUNK_MB)
        whole_number(self.max_group, "max_group", TopologyError, least=1, most=NO_LIMIT)
        for name, rows, of, usual in (
            ("sizes", self.num_chunks, "chunk", 1.0),
            ("ready_us", len(self.collective.inputs), "row of the inputs", 0.0),
            ("tail_us", len(self.collective.outputs), "row of the outputs", 0.0),
            ("sum_work_us", self.num_chunks, "chunk", 0.0),
        ):
            if getattr(self, name) is not None:
                self._check_column(name, rows, of, usual)
        if self.sum_work_us is not None and (self.sum_work_us * ~self.collective.reduces).any():
            raise TopologyError("sum_work_us is work on sums, and some chunk that has any is none")
        if self.topology.num_helpers != self.collective.num_helpers:
            raise TopologyError(
                f"{self.topology.name!r} has {self.topology.num_helpers} helpers, "
                f"and {self.collective.name} has {self.collective.num_helpers}",
                hint="Collective.with_helpers() widens a collective by helpers",
            )

    def _check_column(self, name: str, rows: int, of: str, usual: float) -> None:
        values = column(getattr(self, name), name, TopologyError, kinds="fiu")
        if len(values) != rows:
            raise TopologyError(f"{name} must have a number for each {of}: {rows}, not {len(values)}")
        most = _MOST_UNITS if name == "sizes" else units.MAX_TIME_US
        least = 1 / _MOST_UNITS if name == "sizes" else 0.0
        bad = np.flatnonzero(~((values >= least) & (values <= most)))
        if len(bad):
            raise TopologyError(
                f"{name} must be from {least:g} to {most:g}, and number {bad[0]} is {values[bad[0]]:g}"
            )
        if name != "sizes":
            values = np.where(values < _NO_TIME_US, 0.0, values)
        object.__setattr__(self, name, None if (values == usual).all() else values)

    def __repr__(self) -> str:
        return f"Problem({self.collective!r} on {self.topology!r}, chunks of {self.chunk_mb:g} MB)"

    @property
    def num_ranks(self) -> int:
        return self.topology.num_ranks

    @property
    def num_chunks(self) -> int:
        return self.collective.num_chunks

    @property
    def size_bytes(self) -> int:
        """What nccl-tests prints as `size`; of unequal chunks, as if all were of their mean size."""
        mean = 1.0 if self.sizes is None else float(self.sizes.mean())
        return round(self.chunk_mb * mean * 2**20 * self.collective.chunks_per_size)

    @property
    def size_and_chunks(self) -> tuple[str, str]:
        """`16MB` and `chunks of 1MB`; of unequal chunks all bytes, `5MB` and `2 chunks of 1MB to 4MB`."""
        size_mb = self.size_mb
        chunks = f"chunks of {units.format_sizes(float(size_mb.min()), float(size_mb.max()))}"
        if self.sizes is None:
            return units.format_size(self.size_bytes), chunks
        return units.format_size(round(float(size_mb.sum()) * units.MB)), f"{self.num_chunks} {chunks}"

    @property
    def size_of_algbw(self) -> str:
        """What follows an algbw of unequal chunks, which is not of all their bytes; else nothing."""
        if self.sizes is None:
            return ""
        size = units.format_size(self.size_bytes)
        return f"  (of {size}: the largest buffer, if all chunks were of mean size)"

    @cached_property
    def features(self) -> frozenset[Feature]:
        """What this problem uses of `FEATURES`. An engine or bound that lacks one does not serve it."""
        topology = self.topology
        uses: dict[Feature, bool] = {
            "reductions": self.collective.is_reduction,
            "helpers": any(
                each is not None for each in (topology.is_helper, topology.may_sum, topology.may_copy)
            ),
            "sizes": self.sizes is not None,
            "ready_times": self.ready_us is not None,
            "tails": self.tail_us is not None,
            "sum_work": self.sum_work_us is not None,
        }
        return frozenset(name for name, is_used in uses.items() if is_used)

    @cached_property
    def size_mb(self) -> FloatArray:
        """The size of each chunk, MB, shape (num_chunks,)."""
        return np.full(self.num_chunks, self.chunk_mb) if self.sizes is None else self.sizes * self.chunk_mb

    def chunk_map(self, rank_map: IntArray) -> IntArray | None:
        """`Collective.chunk_map`, where chunks also keep their sizes, inputs and outputs their moments."""
        chunks = self._chunk_classes.image(rank_map)
        if chunks is None or not (
            _moved_equally(self.ready_us, self.collective.inputs, chunks, rank_map)
            and _moved_equally(self.tail_us, self.collective.outputs, chunks, rank_map)
        ):
            return None
        return chunks

    @cached_property
    def _chunk_classes(self) -> ChunkClasses:
        usual = ((self.sizes, 1.0), (self.sum_work_us, 0.0))
        columns = [np.full(self.num_chunks, value) if given is None else given for given, value in usual]
        return self.collective.chunk_classes(np.unique(columns, axis=1, return_inverse=True)[1].ravel())

    def units(self, chunks: Sequence[int]) -> float:
        """The size of a group of chunks, in units of `chunk_mb`: their number, where all are equal."""
        return len(chunks) if self.sizes is None else float(self.sizes[list(chunks)].sum())

    def duration_us(self, link: IntArray, chunk: IntArray) -> FloatArray:
        """How long chunk i alone takes over link i, from start to end; columns of equal length."""
        return self.topology.duration_us(link, self.size_mb[chunk])

    def busy_us(self, pair: IntArray, chunk: IntArray) -> FloatArray:
        """How long chunk i alone keeps a port busy, for pair i (link, port) of the topology's `incidence`."""
        return self.topology.port_busy_us(pair, self.size_mb[chunk])

    @cached_property
    def ready_at(self) -> dict[tuple[int, int], float]:
        """(chunk, rank) -> the moment from which the input is there, for those that are not there at 0."""
        return _moments(self.ready_us, self.collective.inputs)

    @cached_property
    def tail_at(self) -> dict[tuple[int, int], float]:
        """(chunk, rank) -> what follows the output, for those that something follows."""
        return _moments(self.tail_us, self.collective.outputs)

    def usable(self, chunk: int) -> BoolArray:
        """The links that a chunk may travel over, shape (num_links,)."""
        if self.limits.may_use is None:
            return np.ones(self.topology.num_links, dtype=np.bool_)
        return np.asarray(self.limits.may_use[self.collective.owner[chunk]])

    def reversed(self) -> Problem:
        """The same problem backwards in time: links turned round, sums turned into copies.

        A schedule of one, read backwards, is a schedule of the other (COST_MODEL: reductions). What was ready
        late has a tail, and the other way round; who may sum may copy. "Own chunks first" is about leaving,
        so it says nothing of the reversed problem.
        """
        return replace(
            self,
            topology=self.topology.reversed(),
            collective=self.collective.reversed(),
            limits=replace(self.limits, own_first=None),
            ready_us=self.tail_us,
            tail_us=self.ready_us,
        )


def _moments(times_us: FloatArray | None, placement: Placement) -> dict[tuple[int, int], float]:
    if times_us is None:
        return {}
    rows = np.flatnonzero(times_us)
    columns: list[list[Any]] = [each[rows].tolist() for each in (placement.chunk, placement.rank, times_us)]
    return {(chunk, rank): time_us for chunk, rank, time_us in zip(*columns, strict=True)}


def _moved_equally(
    times_us: FloatArray | None, placement: Placement, chunks: IntArray, rank_map: IntArray
) -> bool:
    """Whether each row of a placement has the moment of the row that it goes to."""
    if times_us is None:
        return True
    here = np.lexsort((placement.rank, placement.chunk))
    there = np.lexsort((rank_map[placement.rank], chunks[placement.chunk]))
    return bool((times_us[here] == times_us[there]).all())

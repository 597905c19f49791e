"""The network that engines see: ranks, directed links between them, and ports.

A *port* is anything that serves one transfer at a time. A plain link is its own port; links that
share a GPU's way into a switch, a NIC or a PCIe bridge share that port. A port may be faster than the
links that use it: a trunk between switches has room for several GPUs. So how long a transfer keeps a
port busy belongs to the pair (link, port). No engine, bound or check knows any other kind of hardware.

A switch that sums or copies, or a server that adds for others, is a rank, too: a *helper*, without own data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from numbers import Integral
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from taccl.errors import TopologyError
from taccl.model.collective import BoolArray, IntArray
from taccl.model.executor import Executor
from taccl.model.units import MAX_ALPHA_US, MAX_BETA_US_PER_MB, MIN_BETA_US_PER_MB
from taccl.support.arguments import column, has_repeats, shown, text, tuple_of
from taccl.support.deriving import Deriving

FloatArray = NDArray[np.floating]
Occupancy = Literal["serial", "pipelined"]
OCCUPANCIES: tuple[Occupancy, ...] = get_args(Occupancy)


def check_occupancy(occupancy: object) -> None:
    """Raise TopologyError for a word that is no occupancy."""
    if not isinstance(occupancy, str) or occupancy not in OCCUPANCIES:
        raise TopologyError(f"occupancy must be serial or pipelined, not {shown(occupancy)}")


#: Columns of a topology, and which kinds of numbers NumPy must call them.
_COLUMNS = {"node_of": "iu", "src": "iu", "dst": "iu", "alpha_us": "fiu", "beta_us_per_mb": "fiu"}


@dataclass(frozen=True, eq=False, repr=False)
class LogicalTopology(Deriving):
    """Ranks, the directed links between them, and the ports that the links use.

    Parameters
    ----------
    name : for messages.
    node_of : shape (num_ranks,); the node of each rank.
    src, dst : shape (num_links,); at most one link from one rank to another.
    alpha_us, beta_us_per_mb : shape (num_links,); cost of a transfer of s MB: alpha + s * beta.
    ports : per link, the ports it uses, at least one each.
    port_names : shape (num_ports,); for messages.
    occupancy : `serial`: a transfer keeps a port busy for alpha + s * b, b being the beta at which the
        port serves its link; `pipelined`: for s * b only, alpha being pure latency.
    port_betas : per link, the b of each of its ports, in the order of `ports`, us per MB. A transfer
        lasts as long as its slowest port, so the largest is the link's beta. None: all are, as on a
        machine whose ports are no faster than their links; what says so number by number becomes None.
    is_helper : shape (num_ranks,) or None for no rank; the ranks that hold no data, after all others.
    helper_names : what each helper is called in messages; empty where nobody says.
    memory_mb : shape (num_ranks,) or None for no limit; how much a helper can hold at once.
    may_sum : shape (num_ranks,) or None for all; whether a rank can make one of several parts of a sum: its
        own contribution and those that come. One that cannot passes a part on as it is.
    may_copy : shape (num_ranks,) or None for all; whether a rank can make several of one chunk: keep it and
        pass it on, or pass it on to several. One that cannot does one of these, once.
    domain_of : shape (num_ranks,) or None for `node_of`; ranks of one number reach each other's memory,
        without a NIC, although they may be of several nodes. Engines know nothing of it.
    executor : what executing costs next to the links, where the machine says so. Engines and the cost model's
        bounds know nothing of it.

    Raises
    ------
    TopologyError : columns of unequal length, a rank, port or cost out of range, a double link or
        port, an unknown occupancy, a link whose beta is not that of its slowest port, a helper that
        stands before a member.
    """

    name: str
    node_of: IntArray
    src: IntArray
    dst: IntArray
    alpha_us: FloatArray
    beta_us_per_mb: FloatArray
    ports: tuple[tuple[int, ...], ...]
    port_names: tuple[str, ...]
    occupancy: Occupancy = "serial"
    port_betas: tuple[tuple[float, ...], ...] | None = None
    is_helper: BoolArray | None = None
    may_sum: BoolArray | None = None
    may_copy: BoolArray | None = None
    domain_of: IntArray | None = None
    executor: Executor | None = None
    helper_names: tuple[str, ...] = ()
    memory_mb: FloatArray | None = None

    def __post_init__(self) -> None:
        text(self.name, "the name of a topology", TopologyError)
        tuple_of(self.port_names, str, "port_names", TopologyError)
        tuple_of(self.ports, Sequence, "the ports of a link", TopologyError)
        for kind in {type(port) for ports in self.ports for port in ports}:
            if not issubclass(kind, Integral):
                raise TopologyError(f"a port of {self.name!r} is no number but of kind {kind.__name__}")
        for name, kinds in _COLUMNS.items():
            object.__setattr__(self, name, column(getattr(self, name), name, TopologyError, kinds=kinds))
        columns = (self.src, self.dst, self.alpha_us, self.beta_us_per_mb, self.ports)
        if len({len(values) for values in columns}) > 1:
            raise TopologyError(f"the link columns of {self.name!r} differ in length")
        self._check_ends()
        self._check_costs()
        self._check_ports()
        check_occupancy(self.occupancy)
        if self.domain_of is not None:
            domain_of = column(self.domain_of, "domain_of", TopologyError, kinds="iu")
            if len(domain_of) != self.num_ranks:
                raise TopologyError(f"domain_of of {self.name!r} has not one entry for each rank")
            object.__setattr__(self, "domain_of", domain_of)
        if self.port_betas is not None:
            self._check_port_betas(self.port_betas)
            if (self.pair_betas == self.beta_us_per_mb[self.incidence[0]]).all():
                object.__setattr__(self, "port_betas", None)
        self._check_helpers()

    def _check_ends(self) -> None:
        ends = np.concatenate([self.src, self.dst])
        if len(ends) and not (0 <= ends.min() and ends.max() < self.num_ranks):
            raise TopologyError(f"a link of {self.name!r} ends at a rank outside 0 .. {self.num_ranks - 1}")
        if (self.src == self.dst).any():
            raise TopologyError(f"a link of {self.name!r} leads from a rank to itself")
        if has_repeats(self.src * self.num_ranks + self.dst):
            raise TopologyError(f"{self.name!r} has two links between the same ranks")

    def _check_costs(self) -> None:
        for cost in (self.alpha_us, self.beta_us_per_mb):
            if not (np.isfinite(cost).all() and (cost >= 0).all()):
                raise TopologyError(f"a cost of {self.name!r} is negative or not finite")
        if (self.alpha_us > MAX_ALPHA_US).any():
            raise TopologyError(f"an alpha of {self.name!r} is more than {MAX_ALPHA_US:g} us")
        beta = self.beta_us_per_mb[self.beta_us_per_mb > 0]
        if len(beta) and not (MIN_BETA_US_PER_MB <= beta.min() and beta.max() <= MAX_BETA_US_PER_MB):
            raise TopologyError(
                f"a beta of {self.name!r} is neither 0 nor "
                f"{MIN_BETA_US_PER_MB:g} .. {MAX_BETA_US_PER_MB:g} us per MB"
            )

    def _check_ports(self) -> None:
        ports = list(chain.from_iterable(self.ports))
        if not all(self.ports) or (ports and not (0 <= min(ports) and max(ports) < self.num_ports)):
            raise TopologyError(f"a link of {self.name!r} has no port, or one that does not exist")
        link, port = self.incidence
        if has_repeats(link * self.num_ports + port):
            raise TopologyError(f"a link of {self.name!r} uses a port twice")

    def _check_helpers(self) -> None:
        for name, usual in (("is_helper", False), ("may_sum", True), ("may_copy", True)):
            given = getattr(self, name)
            if given is None:
                continue
            values = np.asarray(given)
            if values.shape != (self.num_ranks,) or values.dtype.kind != "b":
                raise TopologyError(f"{name} of {self.name!r} must be true or false for each rank")
            object.__setattr__(self, name, None if (values == usual).all() else values)
        if self.is_helper is not None and not self.is_helper[self.num_members :].all():
            raise TopologyError(
                f"a helper of {self.name!r} has a lower number than a rank that holds data",
                hint="give the helpers the last numbers",
            )
        if self.num_ranks and not self.num_members:
            raise TopologyError(f"all ranks of {self.name!r} are helpers")
        tuple_of(self.helper_names, str, "helper_names", TopologyError)
        named, many = len(self.helper_names), self.num_helpers
        if named not in (0, many):
            raise TopologyError(f"helper_names of {self.name!r} has {named} names for {many} helpers")
        if self.memory_mb is not None:
            memory_mb = np.asarray(self.memory_mb)
            is_column = memory_mb.shape == (self.num_ranks,) and memory_mb.dtype.kind == "f"
            if not (is_column and (memory_mb > 0).all()):
                raise TopologyError(f"memory_mb of {self.name!r} must be a positive number for each rank")
            object.__setattr__(self, "memory_mb", memory_mb)

    def _check_port_betas(self, port_betas: tuple[tuple[float, ...], ...]) -> None:
        rows = tuple_of(port_betas, Sequence, "the port betas of a link", TopologyError)
        if {type(beta) for betas in rows for beta in betas} - {float}:
            for betas in rows:
                column(betas, "the port betas of a link", TopologyError, kinds="fiu")
        if len(port_betas) != self.num_links or any(
            len(betas) != len(ports) for betas, ports in zip(port_betas, self.ports, strict=True)
        ):
            raise TopologyError(f"the port betas of {self.name!r} are not one for each port of each link")
        pairs = self.pair_betas
        if not (np.isfinite(pairs).all() and (pairs >= 0).all()):
            raise TopologyError(f"a port beta of {self.name!r} is negative or not finite")
        if not self.num_links:
            return
        slowest = np.maximum.reduceat(pairs, self.first_pair[:-1])
        wrong = np.flatnonzero(slowest != self.beta_us_per_mb)
        if len(wrong):
            link = int(wrong[0])
            raise TopologyError(
                f"the link {self.describe_link(link)} of {self.name!r} has beta "
                f"{self.beta_us_per_mb[link]:g} us/MB, but its slowest port has {slowest[link]:g}",
                hint="a transfer lasts as long as its slowest port",
            )

    def __repr__(self) -> str:
        size = f"{self.num_ranks} ranks, {self.num_links} links, {self.num_ports} ports"
        return f"LogicalTopology({self.name}, {size}, {self.occupancy})"

    @property
    def num_ranks(self) -> int:
        return len(self.node_of)

    @property
    def num_helpers(self) -> int:
        """Ranks that hold no data: the last ones."""
        return 0 if self.is_helper is None else int(self.is_helper.sum())

    @property
    def num_members(self) -> int:
        """Ranks that hold data: the first ones."""
        return self.num_ranks - self.num_helpers

    def rank_name(self, rank: int) -> str:
        """`rank 2`, or `nvswitch.sum (rank 8)` for a helper that has a name."""
        helper = rank - self.num_members
        named = helper >= 0 and self.helper_names
        return f"{self.helper_names[helper]} (rank {rank})" if named else f"rank {rank}"

    @property
    def num_links(self) -> int:
        return len(self.src)

    @property
    def num_ports(self) -> int:
        return len(self.port_names)

    @property
    def num_nodes(self) -> int:
        """Nodes with ranks that hold data."""
        return len(np.unique(self.node_of[: self.num_members]))

    @cached_property
    def equal_nodes(self) -> IntArray | None:
        """The ranks of each node, shape (num_nodes, size); None for one node, or nodes of different sizes."""
        counts = np.unique(self.node_of, return_counts=True)[1]
        if len(counts) < 2 or (counts != counts[0]).any():
            return None
        return np.argsort(self.node_of, kind="stable").reshape(len(counts), -1)

    @cached_property
    def link_index(self) -> dict[tuple[int, int], int]:
        """(source rank, destination rank) -> link."""
        return {(int(s), int(d)): l for l, (s, d) in enumerate(zip(self.src, self.dst, strict=True))}

    def link_map(self, rank_map: IntArray) -> IntArray:
        """Where a permutation of the ranks takes each link, shape (num_links,); -1 where there is no link."""
        ends, order = self._links_by_ends
        image = rank_map[self.src] * self.num_ranks + rank_map[self.dst]
        place = np.minimum(np.searchsorted(ends, image), max(len(ends) - 1, 0))
        return np.where(ends[place] == image, order[place], -1)

    @cached_property
    def _links_by_ends(self) -> tuple[IntArray, IntArray]:
        """Source and destination of all links as one number, ascending, and whose they are."""
        ends = self.src * self.num_ranks + self.dst
        order = np.argsort(ends)
        return ends[order], order

    @cached_property
    def links_from(self) -> tuple[tuple[int, ...], ...]:
        """Links leaving each rank."""
        return self._by(self.src)

    @cached_property
    def links_into(self) -> tuple[tuple[int, ...], ...]:
        """Links entering each rank."""
        return self._by(self.dst)

    def _by(self, end: IntArray) -> tuple[tuple[int, ...], ...]:
        links: list[list[int]] = [[] for _ in range(self.num_ranks)]
        for link, rank in enumerate(end):
            links[rank].append(link)
        return tuple(map(tuple, links))

    @cached_property
    def port_links(self) -> tuple[tuple[int, ...], ...]:
        """Links that use each port."""
        links: list[list[int]] = [[] for _ in range(self.num_ports)]
        for link, ports in enumerate(self.ports):
            for port in ports:
                links[port].append(link)
        return tuple(map(tuple, links))

    @property
    def num_pairs(self) -> int:
        """How many pairs (link, port) there are."""
        return int(self.first_pair[-1])

    @cached_property
    def incidence(self) -> tuple[IntArray, IntArray]:
        """The pairs (link, port) as two columns, each in one piece: loops are compiled for strides, too."""
        link = np.repeat(np.arange(self.num_links), [len(ports) for ports in self.ports])
        port = np.array([port for ports in self.ports for port in ports], dtype=np.int64)
        return link, port

    @cached_property
    def first_pair(self) -> IntArray:
        """Where the pairs of each link begin in `incidence`, and their number, shape (num_links + 1,)."""
        return np.concatenate([[0], np.cumsum([len(ports) for ports in self.ports], dtype=np.int64)])

    @cached_property
    def pair_betas(self) -> FloatArray:
        """The beta of each pair (link, port) in `incidence`, us per MB."""
        if self.port_betas is None:
            return np.asarray(self.beta_us_per_mb[self.incidence[0]], dtype=np.float64)
        return np.array([beta for betas in self.port_betas for beta in betas], dtype=np.float64)

    @cached_property
    def port_pairs(self) -> tuple[IntArray, ...]:
        """The pairs of each port in `incidence`, in the order of `port_links`."""
        port = self.incidence[1]
        many = np.bincount(port, minlength=self.num_ports)
        return tuple(np.split(np.argsort(port, kind="stable"), np.cumsum(many)[:-1]))

    def pairs_of(self, link: IntArray) -> tuple[IntArray, IntArray]:
        """All pairs of each of `link`, one after another: a position in `link`, a pair in `incidence`."""
        if self.num_pairs == self.num_links:  # each link has one port
            return np.arange(len(link)), link
        first = self.first_pair[link]
        many = self.first_pair[link + 1] - first
        position = np.repeat(np.arange(len(many)), many)
        within = np.arange(len(position)) - np.repeat(np.cumsum(many) - many, many)
        return position, first[position] + within

    @property
    def memory_of(self) -> IntArray:
        """Shape (num_ranks,); ranks of one number reach each other's memory."""
        return self.node_of if self.domain_of is None else self.domain_of

    @cached_property
    def internode(self) -> BoolArray:
        """Whether each link joins two nodes, shape (num_links,)."""
        return np.asarray(self.node_of[self.src] != self.node_of[self.dst])

    def duration_us(self, link: IntArray, size_mb: FloatArray | float) -> FloatArray:
        """How long a group of `size_mb` takes from start to end on each link."""
        return np.asarray(self.alpha_us[link] + size_mb * self.beta_us_per_mb[link])

    def port_busy_us(self, pair: IntArray, size_mb: FloatArray | float) -> FloatArray:
        """How long such a group keeps a port busy, for pairs (link, port) of `incidence`."""
        busy = size_mb * self.pair_betas[pair]
        return np.asarray(busy + self.alpha_us[self.incidence[0][pair]] if self.is_serial else busy)

    def slowest_busy_us(self, link: IntArray, size_mb: FloatArray | float) -> FloatArray:
        """How long such a group keeps the slowest port of its link busy: another over it waits so long."""
        busy = size_mb * self.beta_us_per_mb[link]
        return np.asarray(busy + self.alpha_us[link] if self.is_serial else busy)

    @property
    def is_serial(self) -> bool:
        """Whether ports are busy during alpha, too."""
        return self.occupancy == "serial"

    @cached_property
    def reads_backwards(self) -> bool:
        """Whether a schedule read backwards in time is one on `reversed()`, port by port.

        A port is busy from the start of a transfer on. Read backwards it is busy up to the end, which
        is the same but for a shift if on each port every transfer lasts equally long beyond its busy time.
        That is so unless a port is faster than a link, or links of different alphas share a
        port with `pipelined` occupancy. Total loads, distances and cuts do not ask when in a
        transfer its ports are busy: what is proved from these alone holds backwards all the same.
        """
        if self.port_betas is not None:
            return False
        alphas = (self.alpha_us[list(links)] for links in self.port_links if links)
        return self.is_serial or all(bool((alpha == alpha[0]).all()) for alpha in alphas)

    def with_equal_ranks(self) -> LogicalTopology:
        """The same with no helpers: ranks that can all hold data, sum and copy, as much as they like."""
        return self.once(_with_equal_ranks)

    def reversed(self) -> LogicalTopology:
        """Every link turned round, with its number, costs and ports as they were; who sums now copies."""
        return self.once(_reversed)

    def describe_link(self, link: int) -> str:
        return f"{self.src[link]} -> {self.dst[link]}"


def _with_equal_ranks(topology: LogicalTopology) -> LogicalTopology:
    return replace(topology, is_helper=None, helper_names=(), memory_mb=None, may_sum=None, may_copy=None)


def _reversed(topology: LogicalTopology) -> LogicalTopology:
    may_sum, may_copy = topology.may_copy, topology.may_sum
    return replace(topology, src=topology.dst, dst=topology.src, may_sum=may_sum, may_copy=may_copy)

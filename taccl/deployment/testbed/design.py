"""What a machine becomes: a namespace for each device, a wire for each pair that is linked, and routes.

    rank 0 ── l0 ──┐                        every link of the machine is one direction of a wire, shaped to
    rank 1 ── l1 ──┤ switch ── l3 ── ..     the link's rate; a switch or a NIC forwards, so what shares it
    rank 2 ── l2 ──┘                        takes turns there as it does in the machine

A rank has one address, on an interface of its own, so libraries that bind to one interface use all its links;
traffic to a peer leaves by the links of `PhysicalTopology.path`. Ranks without a path reach each other
through other ranks, by the fewest of these. At a device in between, a route is by destination; where two
sources need different paths to one destination there, by both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from taccl.errors import TopologyError
from taccl.model.units import MB
from taccl.topologies.model import PhysicalTopology

#: More are not built: each has a namespace, and each wire two queues.
MOST_DEVICES = 200
#: The interface of a rank that has its address.
ME = "me"
#: Addresses: of ranks, of the ends of wires, and of the unshaped network for rendezvous.
_RANK, _WIRE, _CONTROL = "10.250", "10.251", "10.252"
#: Slower links say nothing, since a packet takes longer than a message should.
_LEAST_BITS = 100_000


@dataclass(frozen=True, slots=True)
class End:
    """One end of a wire: where it is, its address, and what leaves by it, bits per second; 0: not shaped."""

    device: str
    address: str
    rate_bits: int


@dataclass(frozen=True, slots=True)
class Wire:
    """Two devices that are linked; `name` : of the interface at both ends."""

    name: str
    ends: tuple[End, End]


@dataclass(frozen=True, slots=True)
class Route:
    """At a device, what goes to a rank leaves by a wire to `via`; of a source, only what it sent."""

    device: str
    target: int
    wire: str
    via: str
    source: int | None = None


@dataclass(frozen=True, eq=False)
class Design:
    """All that is to be built.

    Parameters
    ----------
    devices : names; the ranks are the first, in order. scale : by which rates are multiplied.
    """

    name: str
    devices: tuple[str, ...]
    num_ranks: int
    wires: tuple[Wire, ...]
    routes: tuple[Route, ...]
    scale: float


def rank_address(rank: int) -> str:
    """The address of a rank."""
    return f"{_RANK}.{(rank + 1) >> 8}.{(rank + 1) & 255}"


def control_address(rank: int) -> str:
    """Its address on the network for rendezvous."""
    return f"{_CONTROL}.{(rank + 1) >> 8}.{(rank + 1) & 255}"


def design_of(machine: PhysicalTopology, scale: float) -> Design:
    """Lay out a machine.

    Raises
    ------
    TopologyError : it has too many devices or helpers, or links that would be too slow at this scale.
    """
    if machine.num_helpers:
        raise TopologyError(
            f"{machine.name} has helpers, which no testbed builds", hint="--without leaves them out"
        )
    if len(machine.devices) > MOST_DEVICES:
        raise TopologyError(
            f"{machine.name} has {len(machine.devices)} devices; a testbed has {MOST_DEVICES} at most"
        )
    ranks = [gpu.name for gpu in machine.gpus]
    others = [device.name for device in machine.devices if device.name not in machine.rank_of]
    wires = tuple(_wires(machine, scale))
    return Design(machine.name, (*ranks, *others), len(ranks), wires, tuple(_routes(machine, wires)), scale)


def _wires(machine: PhysicalTopology, scale: float) -> Iterator[Wire]:
    rates: dict[tuple[str, str], int] = {}
    for link in machine.links:
        bits = round(8 * MB / link.beta_us_per_mb * 1e6 * scale) if link.beta_us_per_mb else 0
        if 0 < bits < _LEAST_BITS:
            raise TopologyError(
                f"{link.src} -> {link.dst} would have {bits} bits per second, of {_LEAST_BITS} at least",
                hint="a larger --scale",
            )
        rates[link.src, link.dst] = bits
    pairs = dict.fromkeys(tuple(sorted(pair)) for pair in rates)
    for number, (a, b) in enumerate(pairs):
        first, second = (f"{_WIRE}.{number >> 7}.{2 * (number & 127) + end}" for end in (0, 1))
        yield Wire(f"l{number}", (End(a, first, rates.get((a, b), 0)), End(b, second, rates.get((b, a), 0))))


def _routes(machine: PhysicalTopology, wires: tuple[Wire, ...]) -> Iterator[Route]:
    ends = {}
    for wire in wires:
        a, b = wire.ends
        ends[a.device, b.device] = wire.name, b.address
        ends[b.device, a.device] = wire.name, a.address
    towards: dict[tuple[str, int], tuple[str, str]] = {}
    exceptions: dict[tuple[str, int, int], tuple[str, str]] = {}
    for source, target, hops in _ways(machine):
        for device, following in hops:
            leaves = ends[device, following]
            if towards.setdefault((device, target), leaves) != leaves:
                exceptions[device, target, source] = leaves
    for (device, target), leaves in towards.items():
        yield Route(device, target, *leaves)
    for (device, target, source), leaves in exceptions.items():
        yield Route(device, target, *leaves, source)


def _ways(machine: PhysicalTopology) -> Iterator[tuple[int, int, list[tuple[str, str]]]]:
    """For each two ranks the hops from the first, up to the next rank on the way to the second."""
    following = [_next_ranks(machine, target) for target in range(machine.num_ranks)]
    for source in range(machine.num_ranks):
        for target in range(machine.num_ranks):
            if source == target:
                continue
            path = machine.path(source, following[target][source])
            assert path is not None
            links = [machine.links[link] for link in path.links]
            yield source, target, [(link.src, link.dst) for link in links]


def _next_ranks(machine: PhysicalTopology, target: int) -> list[int]:
    """Of each rank the next one on a way of the fewest ranks to the target."""
    sources = [
        [rank for rank in range(machine.num_ranks) if rank != end and machine.path(rank, end) is not None]
        for end in range(machine.num_ranks)
    ]
    following, ahead = {target: target}, deque([target])
    while ahead:
        here = ahead.popleft()
        for rank in sources[here]:
            if rank not in following:
                following[rank] = here
                ahead.append(rank)
    lost = [rank for rank in range(machine.num_ranks) if rank not in following]
    if lost:
        raise TopologyError(f"rank {lost[0]} of {machine.name} reaches rank {target} over no links")
    return [following[rank] for rank in range(machine.num_ranks)]

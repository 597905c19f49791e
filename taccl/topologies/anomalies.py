"""What is odd about a machine: links, GPUs, NICs and nodes that are not like their siblings.

What most of them are is taken for right; where there is no most, that is all that is said.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from taccl.model.units import MB, bandwidth_gbps
from taccl.support.size_limits import MAX_LINKS
from taccl.topologies.devices import NO_NODE, Device, DeviceKind, Link
from taccl.topologies.model import PhysicalTopology

OddityKind = Literal[
    "one-way link",
    "unequal directions",
    "slow link",
    "uneven GPUs",
    "uneven nodes",
    "no NIC next to",
    "idle NIC",
    "no way",
]

#: A link is slow below this part of what most of its class have: losses of a percent or ten are no fault.
SLOW = 0.8
#: What does not differ by more than this is the same speed.
_SAME = 1e-6
#: This many devices are named in a sentence.
_NAMED = 4
#: What a GPU reaches a NIC through.
_TO_NIC: frozenset[DeviceKind] = frozenset(("switch", "pcie"))

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)
_End = tuple[str, str]
#: Of a GPU: kind of the other end and GB/s of each link, sorted.
_Profile = tuple[tuple[str, float], ...]
#: What fast links of a GPU lead to, in its node or, of a switch, beyond.
_FAST = ("gpu", "switch")


@dataclass(frozen=True)
class Anomaly:
    """Something that is not as its siblings are.

    Parameters
    ----------
    kind : what sort of thing.
    devices : the devices that it is about.
    message : what it is, in a sentence, with figures.
    hint : what it may mean, or what to look at.
    """

    kind: OddityKind
    devices: tuple[str, ...]
    message: str
    hint: str


def anomalies(topology: PhysicalTopology) -> tuple[Anomaly, ...]:
    """All that is odd about a machine, faults of links first; none of a regular machine.

    Whether all ranks reach each other is not requested here.
    """
    machine = _Machine(topology)
    return (
        *_one_way(machine),
        *_unequal_directions(machine),
        *_slow_links(machine),
        *_uneven_gpus(machine),
        *_uneven_nodes(machine),
        *_without_nic(machine),
        *_far_nics(machine),
        *_untaken_nics(machine),
    )


def named(names: Sequence[str], most: int = _NAMED) -> str:
    """`a, b and 5 more`."""
    if len(names) > most + 1:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


class _Machine:
    """A machine with its devices and links by name."""

    def __init__(self, topology: PhysicalTopology) -> None:
        self.topology = topology
        #: The members: a helper has no links where it is part of a switch, and needs no NIC.
        self.gpus = topology.gpus[: topology.num_members]
        self.device = {device.name: device for device in topology.devices}
        self.link: dict[_End, Link] = {(link.src, link.dst): link for link in topology.links}
        self.leaving: dict[str, list[Link]] = defaultdict(list)
        for link in topology.links:
            self.leaving[link.src].append(link)
        #: Whether GPUs have links to GPUs or switches of their node, and not PCIe alone.
        self.has_fast_links = any(self._is_fast(link) for link in topology.links)
        #: Of each link that is slow, the speed that most like it have.
        self.usual_of_slow: dict[_End, float] = {}
        for links in _grouped(topology.links, self.kinds).values():
            usual = _most([_gbps(link) for link in links])
            if usual is not None:
                slow = [link for link in links if _gbps(link) < SLOW * usual]
                self.usual_of_slow |= {(link.src, link.dst): usual for link in slow}
        self.nics = [device.name for device in topology.devices if device.kind == "nic"]
        #: Of each GPU, the NICs of its node that it reaches past switches and PCIe bridges.
        self.nics_near = {gpu.name: self._nics_near(gpu) for gpu in self.gpus}
        self.near_nics = {nic for near in self.nics_near.values() for nic in near}

    def _is_fast(self, link: Link) -> bool:
        src, dst = self.device[link.src], self.device[link.dst]
        return src.kind == "gpu" and dst.kind in _FAST and dst.node in (src.node, NO_NODE)

    def _nics_near(self, gpu: Device) -> set[str]:
        seen, queue, nics = {gpu.name}, deque([gpu.name]), set[str]()
        while queue:
            for link in self.leaving[queue.popleft()]:
                end = self.device[link.dst]
                if end.node != gpu.node or end.name in seen:
                    continue
                seen.add(end.name)
                if end.kind == "nic":
                    nics.add(end.name)
                elif end.kind in _TO_NIC:
                    queue.append(end.name)
        return nics

    def kinds(self, link: Link) -> tuple[str, str, bool]:
        """The class of a link: what its ends are, in the order of the words, and whether it joins nodes.

        Bridges and switches are distinguished by their names without digits, as cpu and bridge, leaf and
        spine.
        """
        src, dst = self.device[link.src], self.device[link.dst]
        one, other = sorted(_what(device) for device in (src, dst))
        return one, other, src.node != dst.node


def _one_way(machine: _Machine) -> Iterator[Anomaly]:
    """Links without one back, where most links between such devices have one."""
    for links in _grouped(machine.topology.links, machine.kinds).values():
        alone = [link for link in links if (link.dst, link.src) not in machine.link]
        if alone and len(alone) < len(links) / 2:
            yield Anomaly(
                "one-way link",
                _devices(alone),
                f"{_lead(alone)} with none back, where {len(links) - len(alone)} like it have one",
                "a broken link, or a line that is missing",
            )


def _unequal_directions(machine: _Machine) -> Iterator[Anomaly]:
    """Pairs of links there and back at different costs, where most such pairs are equal."""
    for links in _grouped(machine.topology.links, machine.kinds).values():
        both = [link for link in links if (link.dst, link.src) in machine.link and link.src < link.dst]
        unequal = [link for link in both if not _equivalent(link, machine.link[link.dst, link.src])]
        if unequal and len(unequal) <= len(both) / 2:
            first = unequal[0]
            back = machine.link[first.dst, first.src]
            more = f", and {len(unequal) - 1} more like it" if len(unequal) > 1 else ""
            yield Anomaly(
                "unequal directions",
                _devices(unequal),
                f"{first.src} -> {first.dst} has {_cost(first)}, and back {_cost(back)}{more}",
                "measured one way only, or degraded in one direction",
            )


def _slow_links(machine: _Machine) -> Iterator[Anomaly]:
    """Links below SLOW of the speed that more than half of their class have."""
    usual_of = machine.usual_of_slow
    slow = [machine.link[end] for end in usual_of]
    groups = _grouped(slow, lambda link: (machine.kinds(link), _gbps(link)))
    for (_, gbps), some in sorted(groups.items()):
        usual = usual_of[some[0].src, some[0].dst]
        yield Anomaly(
            "slow link",
            _devices(some),
            f"{_lead(some)} at {gbps:g} GB/s, {gbps / usual:.0%} of the {usual:g} that most like it have",
            "a degraded link, a card in a narrow slot, or really another kind of link",
        )


def _uneven_gpus(machine: _Machine) -> Iterator[Anomaly]:
    """GPUs with other numbers of links to GPUs and switches than most, or with other speeds.

    Links that are slow, which is reported already, count as if they were not.
    """
    profiles = {gpu.name: _profile(machine, gpu) for gpu in machine.gpus}
    usual = _most(list(profiles.values()))
    groups = _grouped(list(profiles), profiles.__getitem__)
    if usual is None:
        yield _kinds_of_gpus(groups)
        return
    for profile, names in groups.items():
        if profile == usual:
            continue
        yield Anomaly(
            "uneven GPUs",
            tuple(names),
            f"{named(names)} {'has' if len(names) == 1 else 'have'} {_reported(profile)}, where "
            f"{len(groups[usual])} others have {_reported(usual)}{_culprits(machine, names, profile, usual)}",
            "a link that is down, or a machine that is not regular",
        )


def _kinds_of_gpus(groups: Mapping[_Profile, Sequence[str]]) -> Anomaly:
    first = sorted(groups.items(), key=lambda each: -len(each[1]))[:_NAMED]
    reported = "; ".join(
        f"{len(names)} such as {names[0]} have {_reported(profile)}" for profile, names in first
    )
    return Anomaly(
        "uneven GPUs",
        tuple(name for names in groups.values() for name in names),
        f"the GPUs are of {len(groups)} kinds by their links, none of them most: {reported}",
        "a machine that is not regular, such as a mesh with borders or MI250X",
    )


def _profile(machine: _Machine, gpu: Device) -> _Profile:
    """The links of a GPU inside its node: kind of the other end and GB/s, sorted.

    Those to PCIe bridges count only where no GPU has other links: else they lead to NICs.
    """
    kinds = _FAST if machine.has_fast_links else ("pcie",)
    ends = [
        (machine.device[link.dst], machine.usual_of_slow.get((link.src, link.dst), _gbps(link)))
        for link in machine.leaving[gpu.name]
    ]
    here = (gpu.node, NO_NODE)
    return tuple(sorted((end.kind, gbps) for end, gbps in ends if end.kind in kinds and end.node in here))


def _reported(profile: _Profile) -> str:
    """`7 links, together 336 GB/s`."""
    total = sum(gbps for _, gbps in profile)
    count = f"{len(profile)} link" + ("s" if len(profile) != 1 else "")
    return f"{count}, together {total:g} GB/s" if profile else "no link out"


def _culprits(
    machine: _Machine,
    names: Sequence[str],
    profile: _Profile,
    usual: _Profile,
) -> str:
    """The links between the odd GPUs that the others have not, or the one link that is not there."""
    extra = Counter(profile) - Counter(usual)
    links = [
        link
        for link in machine.topology.links
        if link.src in names and link.dst in names and ("gpu", _gbps(link)) in extra
    ]
    if links:
        return f": {_lead(links)} at {_gbps(links[0]):g} GB/s"
    if len(names) == 2 and len(profile) < len(usual) and (names[0], names[1]) not in machine.link:
        return f": no link joins {names[0]} and {names[1]}"
    return ""


def _uneven_nodes(machine: _Machine) -> Iterator[Anomaly]:
    """Nodes with other numbers of devices than most."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for device in machine.topology.devices:
        if device.kind in ("gpu", "nic"):
            counts[device.node][device.kind] += 1
    profiles = {node: (count["gpu"], count["nic"]) for node, count in counts.items()}
    usual = _most(list(profiles.values()))
    for node, profile in sorted(profiles.items()):
        if usual is not None and profile != usual:
            yield Anomaly(
                "uneven nodes",
                tuple(
                    d.name for d in machine.topology.devices if d.node == node and d.kind in ("gpu", "nic")
                ),
                f"node {node} has {profile[0]} GPUs and {profile[1]} NICs, where most have {usual[0]} and "
                f"{usual[1]}",
                "a GPU that fell off the bus, or a NIC that was filtered out",
            )


def _without_nic(machine: _Machine) -> Iterator[Anomaly]:
    """GPUs with no way to a NIC of their node past no other GPU."""
    if not machine.nics:
        return
    without = [gpu.name for gpu in machine.gpus if not machine.nics_near[gpu.name]]
    if without:
        yield Anomaly(
            "no NIC next to",
            tuple(without),
            f"{named(without)} ({len(without)} of {machine.topology.num_members} GPUs) have no NIC near them",
            "what they send to other nodes passes another GPU or their host",
        )


def _far_nics(machine: _Machine) -> Iterator[Anomaly]:
    """NICs that no GPU is near."""
    far = [name for name in machine.nics if name not in machine.near_nics]
    if far:
        yield Anomaly(
            "idle NIC",
            tuple(far),
            f"no GPU is near {named(far)}",
            "a NIC for storage or management: leave it out, or link GPUs to it",
        )


def _untaken_nics(machine: _Machine) -> Iterator[Anomaly]:
    """In a machine of several nodes, NICs that GPUs are near and that no GPU's own way takes.

    This is not requested of machines that have too many routes to be built.
    """
    topology = machine.topology
    if topology.num_nodes == 1 or not machine.near_nics or topology.num_ranks**2 > MAX_LINKS:
        return
    taken = _nics_taken(machine)
    idle = [name for name in machine.nics if name in machine.near_nics and name not in taken]
    if idle:
        yield Anomaly(
            "idle NIC",
            tuple(idle),
            f"no GPU's way to another node takes {named(idle)}, though GPUs are near",
            "a way takes one NIC: of equally near ones the GPU's own place in the order decides",
        )


def _nics_taken(machine: _Machine) -> set[str]:
    """The NICs on the routes of all GPUs to a GPU of another node, and of that GPU back."""
    topology = machine.topology
    first = {gpu.node: rank for rank, gpu in reversed(list(enumerate(machine.gpus)))}
    taken: set[str] = set()
    for rank, gpu in enumerate(machine.gpus):
        other = next(there for node, there in sorted(first.items()) if node != gpu.node)
        path = topology.path(rank, other)
        for index in () if path is None else path.links:
            taken |= {topology.links[index].src, topology.links[index].dst}
    return taken


def _grouped(items: Sequence[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _most(values: Sequence[_Key]) -> _Key | None:
    """The value that more than half of them have."""
    if not values:
        return None
    value, count = Counter(values).most_common(1)[0]
    return value if count > len(values) / 2 else None


def _what(device: Device) -> str:
    """`gpu`, `nic`, or what a bridge or a switch is called without the numbers: `cpu`, `leaf.rail`."""
    if device.kind in ("gpu", "nic"):
        return device.kind
    return device.kind + " " + re.sub(r"\d+", "", device.name)


def _equivalent(link: Link, back: Link) -> bool:
    return all(
        abs(a - b) <= _SAME * max(a, b)
        for a, b in ((link.alpha_us, back.alpha_us), (link.beta_us_per_mb, back.beta_us_per_mb))
    )


def _gbps(link: Link) -> float:
    return round(bandwidth_gbps(MB, link.beta_us_per_mb), 3)


def _cost(link: Link) -> str:
    return f"{link.alpha_us:g} us and {_gbps(link):g} GB/s"


def _lead(links: Sequence[Link]) -> str:
    """`links a - b, c -> d`: both directions where both are among them."""
    ends = {(link.src, link.dst) for link in links}
    routes = dict.fromkeys(
        f"{min(end)} - {max(end)}" if end[::-1] in ends else f"{end[0]} -> {end[1]}"
        for end in ((link.src, link.dst) for link in links)
    )
    return f"link{'s' if len(routes) > 1 else ''} {named(list(routes))}"


def _devices(links: Sequence[Link]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for link in links for name in (link.src, link.dst)))

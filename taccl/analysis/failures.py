"""What each link, NIC and switch of a machine is worth: how much slower a collective is without it.

A part that fails is taken away with its links. The schedule of the whole machine is mended and then improved,
with as much work for each part; parts whose links are the same at every distance are looked at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from taccl.analysis.repair import first_of
from taccl.api import make_problem
from taccl.encoding.core.options import SearchOptions
from taccl.errors import TacclError
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.synthesis.searcher import found_from
from taccl.topologies import PhysicalTopology
from taccl.topologies.automorphisms import kinds_of_devices

#: Devices that fail with all their links; a GPU that fails leaves another collective.
_FAIL = ("switch", "nic", "pcie", "fabric")


@dataclass(frozen=True)
class MachinePart:
    """A device, or a link with the one back. `alike` : the names of others of its kind."""

    name: str
    links: frozenset[tuple[str, str]]
    alike: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failure:
    """A collective without one part of its machine; times by links alone.

    Parameters
    ----------
    mended_us : of the schedule for the whole machine with other routes; None: it could not be mended.
    time_us, bound_us : of the best schedule found; None: `why` there is none.
    """

    part: str
    alike: int
    mended_us: float | None
    time_us: float | None
    bound_us: float | None
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "part": self.part,
            "alike": self.alike,
            "mended_us": self.mended_us,
            "time_us": self.time_us,
            "lower_bound_us": self.bound_us,
            "why": self.why or None,
        }


@dataclass(frozen=True)
class Failures:
    """A collective on a machine, whole and without each of its parts, the worst first."""

    collective: str
    size_bytes: int
    time_us: float
    bound_us: float
    parts: tuple[Failure, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "collective": self.collective,
            "size_bytes": self.size_bytes,
            "time_us": self.time_us,
            "lower_bound_us": self.bound_us,
            "parts": [each.to_dict() for each in self.parts],
        }


def failures(
    machine: PhysicalTopology, collective: str, size: str | int, *, effort: int, seed: int = 0
) -> Failures:
    """A collective on a machine, whole and without each of its parts.

    Parameters
    ----------
    effort : units of work for the whole machine, and for each kind of part.

    Raises
    ------
    TacclError : the machine cannot do the collective while it is whole.
    """
    options = SearchOptions(effort=effort, seed=seed)
    whole = found_from(_problem(machine, collective, size), options, None)
    rows = [_without(machine, part, whole.schedule, collective, size, options) for part in parts_of(machine)]
    rows.sort(key=lambda row: -(float("inf") if row.time_us is None else row.time_us))
    problem = whole.schedule.problem
    return Failures(
        collective, problem.size_bytes, whole.schedule.makespan_us, whole.lower_bound_us, tuple(rows)
    )


def parts_of(machine: PhysicalTopology) -> Iterator[MachinePart]:
    """One part of each kind: links with those back, then devices."""
    colour = kinds_of_devices(machine)
    kinds: dict[object, list[MachinePart]] = {}
    costs: dict[frozenset[str], list[tuple[object, ...]]] = {}
    for link in machine.links:
        cost = (colour[link.src], colour[link.dst], link.alpha_us, link.beta_us_per_mb)
        costs.setdefault(frozenset((link.src, link.dst)), []).append(cost)
    is_gpu = {device.name: device.kind == "gpu" for device in machine.devices}
    for ends, there_and_back in costs.items():
        a, b = sorted(ends, key=lambda name: (not is_gpu[name], name))
        kind = ("link", tuple(sorted(map(repr, there_and_back))))
        kinds.setdefault(kind, []).append(MachinePart(f"{a}-{b}", frozenset(((a, b), (b, a)))))
    for device in machine.devices:
        if device.kind in _FAIL:
            links = frozenset(
                (link.src, link.dst) for link in machine.links if device.name in (link.src, link.dst)
            )
            kinds.setdefault(("device", colour[device.name]), []).append(MachinePart(device.name, links))
    for first, *others in kinds.values():
        yield replace(first, alike=tuple(each.name for each in others))


def without_part(machine: PhysicalTopology, part: MachinePart) -> PhysicalTopology:
    """The machine without the links of a part, and without what a switch did for its GPUs."""
    gone = {device.name for device in machine.devices if device.at == part.name}
    return replace(
        machine,
        name=f"{machine.name} without {part.name}",
        devices=tuple(device for device in machine.devices if device.name not in gone),
        links=tuple(link for link in machine.links if (link.src, link.dst) not in part.links),
    )


def _problem(machine: PhysicalTopology, collective: str, size: str | int) -> Problem:
    return make_problem(collective, topology=machine, size=size, chunks=1, executor=False).problem


def _without(
    machine: PhysicalTopology,
    part: MachinePart,
    whole: Schedule,
    collective: str,
    size: str | int,
    options: SearchOptions,
) -> Failure:
    alike = 1 + len(part.alike)
    try:
        problem = _problem(without_part(machine, part), collective, size)
        first, _ = first_of(whole, problem)
        found = found_from(problem, options, first)
    except TacclError as fault:
        return Failure(part.name, alike, None, None, None, fault.message)
    time_us = found.schedule.makespan_us
    return Failure(
        part.name, alike, None if first is None else first.makespan_us, time_us, found.lower_bound_us
    )

"""Several collectives at once: one after another, their own plans overlaid, and planned as one.

    file of parts ──► each part alone ──► one after another ──► overlaid on shared ports ──► joint search

Each of the three is a checked schedule, and the joint search begins with the overlaid one, so none is slower
than the one before it. A part may wait for the end of others: then it is ready when they have ended in the
overlaid schedule, and the joint search must not end them later. Tails say so: they leave each of these parts
no more time than it has there, in a schedule that is no longer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taccl.analysis.overlaid import Parts, in_this_order, one_after_another, overlaid
from taccl.encoding.bounds import Proof
from taccl.encoding.bounds.stream import lower_bound
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.timing import decisions_of
from taccl.model import units
from taccl.model.demand import Demand, together
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.tolerance import OPTIMAL_GAP
from taccl.support.schemas import stamped
from taccl.synthesis.collective_file import load_parts
from taccl.synthesis.job import formulate
from taccl.synthesis.output_options import OutputOptions
from taccl.synthesis.request import MachineKeywords, Request
from taccl.synthesis.search import Found, Observer, Status, relative_gap, search
from taccl.synthesis.searcher import found_from

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Of everything together, where nothing else is said.
TIME_LIMIT_S = 30.0
#: The part of the time that is for the parts alone.
_ALONE = 0.5
#: The part of the time that is left for the bound of all, where some wait for others.
_BOUND = 0.1
#: How they are planned, the fastest last.
WAYS = ("one after another", "overlaid", "joint")


@dataclass(frozen=True, eq=False)
class Several:
    """What became of several collectives.

    Parameters
    ----------
    topology : the machine's name.
    parts : the collectives.
    alone : what was found for each, as if it had the machine for itself.
    plans : a schedule for each of `WAYS`, the last the fastest; each is of all parts.
    bound : no schedule of all parts ends sooner. status : why the joint search ended.
    """

    topology: str
    parts: Parts
    alone: tuple[Found, ...]
    plans: Mapping[str, Schedule]
    bound: Proof
    status: Status
    seconds: float

    @property
    def schedule(self) -> Schedule:
        """The fastest of all."""
        return self.plans[WAYS[-1]]

    @property
    def gap(self) -> float:
        """(time - bound) / time of the fastest."""
        return relative_gap(self.schedule.makespan_us, self.bound.value_us)

    def mean_end_us(self, way: str) -> float:
        """When parts end in the mean, each as often as it counts."""
        weights = [part.weight for part in self.parts.requested]
        ends = self.parts.ends_us(self.plans[way])
        return sum(weight * end for weight, end in zip(weights, ends, strict=True)) / sum(weights)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        ends = {way: self.parts.ends_us(plan) for way, plan in self.plans.items()}
        rows = [
            {
                "name": part.name,
                "collective": part.collective,
                "groups": [group.members.tolist() for group in part.groups],
                "size_bytes": part.size_bytes,
                "ready_us": part.ready_us,
                "after": [self.parts.requested[each].name for each in part.after],
                "weight": part.weight,
                "alone_us": found.schedule.makespan_us,
            }
            | {f"{way.replace(' ', '_')}_us": ends[way][place] for way in WAYS}
            for place, (part, found) in enumerate(zip(self.parts.requested, self.alone, strict=True))
        ]
        values = {
            "collective": self.parts.problem.collective.name,
            "topology": self.topology,
            "ranks": self.parts.problem.collective.num_members,
            "requests": rows,
            "plans": {
                way.replace(" ", "_"): {
                    "time_us": plan.makespan_us,
                    "mean_end_us": self.mean_end_us(way),
                    "transfers": len(plan),
                }
                for way, plan in self.plans.items()
            },
            "time_us": self.schedule.makespan_us,
            "lower_bound_us": self.bound.value_us,
            "bound_source": self.bound.witness,
            "gap": self.gap,
            "status": self.status,
            "solve_s": round(self.seconds, 3),
        }
        return stamped("taccl.requests/1", values)


def several(
    path: str | Path,
    *,
    chunks: int = 1,
    time_limit: float | None = None,
    effort: int | None = None,
    gap: float = 0.0,
    seed: int = 0,
    on_progress: Observer | None = None,
    **machine: Unpack[MachineKeywords],
) -> Several:
    """Plan the `parts` of a file one after another, overlaid and as one; none is slower than the one before.

    Parameters
    ----------
    path : a file of parts (`taccl.synthesis.collective_parts`).
    chunks : pieces that each chunk of the file is cut into.
    time_limit, effort, gap, seed, on_progress : as in `taccl.synthesize`, for everything together; default:
        `TIME_LIMIT_S`.
    machine : topology, nodes, without and so on, as in `taccl.Request`. Links alone count.

    Raises
    ------
    TacclError : the file or the machine is wrong, they are for different numbers of ranks, or nothing leads
        to where a part has to go.
    KeyboardInterrupt : the user stopped it before all parts had a schedule; later, the best is kept.
    """
    if time_limit is None and effort is None:
        time_limit = TIME_LIMIT_S
    options = SearchOptions(time_limit_s=time_limit, gap=gap, seed=seed, effort=effort)
    began_s = time.monotonic()
    parts, topology = _parts(path, chunks, machine)
    many = len(parts.requested)
    each = replace(
        options,
        time_limit_s=None if time_limit is None else _ALONE * time_limit / many,
        effort=None if effort is None else max(1, int(_ALONE * effort / many)),
    )
    alone = _alone(parts, each)
    schedules = [found.schedule for found in alone]
    plans = {WAYS[0]: one_after_another(parts, schedules), WAYS[1]: overlaid(parts, schedules)}
    if effort is not None:
        options = replace(options, effort=max(1, int((1 - _ALONE) * effort)))
    elif parts.waits and time_limit is not None:
        options = replace(options, time_limit_s=(1 - _BOUND) * time_limit)
    known = plans[WAYS[1]]
    found, plans[WAYS[2]] = Found(known, 0.0, "", "interrupted", 0.0), known
    if alone[-1].status != "interrupted":
        found, plans[WAYS[2]] = _joint(parts, known, options.since(began_s), on_progress)
    for plan in plans.values():
        plan.check()
    bound = _bound(parts, alone, found, replace(options, time_limit_s=time_limit).since(began_s))
    left = relative_gap(plans[WAYS[2]].makespan_us, bound.value_us)
    status = _status(parts, found, left, gap)
    return Several(topology, parts, alone, plans, bound, status, time.monotonic() - began_s)


def _parts(path: str | Path, chunks: int, machine: MachineKeywords) -> tuple[Parts, str]:
    """The parts of a file on a machine, and its name."""
    name, ranks, requested = load_parts(path, None, chunks)
    demand = together(name, ranks, [group for part in requested for group in part.groups])
    words: dict[str, Any] = {"executor": False, **machine}
    size_bytes = demand.collective.chunks_per_size * units.MB
    request = Request(collective=demand.collective, size=size_bytes, **words)
    job = formulate(request, OutputOptions(file=False))
    load_parts(path, job.inputs.topology.num_members, chunks)  # says which line is for another machine
    stated = job.problem(job.configurations[0]).problem
    return Parts(_of_demand(stated, demand), tuple(requested)), job.inputs.topology.name


def _of_demand(problem: Problem, demand: Demand) -> Problem:
    assert demand.chunk_bytes is not None  # each part has a size
    sized = replace(problem, chunk_mb=demand.chunk_bytes / units.MB, symmetry=())
    return demand.stated(sized)


def _alone(parts: Parts, options: SearchOptions) -> tuple[Found, ...]:
    """What is found for each part; who stops before the last has any waits for no other."""
    found: list[Found] = []
    for part in range(len(parts.requested)):
        if found and found[-1].status == "interrupted":
            raise KeyboardInterrupt
        found.append(search(parts.alone(part), options))
    return tuple(found)


def _joint(
    parts: Parts, known: Schedule, options: SearchOptions, on_progress: Observer | None
) -> tuple[Found, Schedule]:
    """What a search of all parts finds that begins with a schedule, and that as a schedule of the parts."""
    problem = known.problem
    if parts.waits:
        waited = {each for part in parts.requested for each in part.after}
        ends = parts.ends_us(known)
        by_us = [end if part in waited else known.makespan_us for part, end in enumerate(ends)]
        problem = parts.with_ends_by(problem, by_us, known.makespan_us)
    found = found_from(problem, options, replace(known, problem=problem), on_progress)
    best = [replace(found.schedule, problem=known.problem), known]
    if parts.waits:  # what is waited for may have ended sooner
        best.append(in_this_order(parts, decisions_of(found.schedule)))
    return found, min(best, key=lambda each: each.makespan_us)


def _status(parts: Parts, found: Found, gap: float, wanted_gap: float) -> Status:
    """Why the joint search ended; where parts wait, what it proved is of schedules that end them as soon."""
    is_proved = found.status in ("optimal", "gap reached")
    return "finished" if parts.waits and is_proved and gap > max(wanted_gap, OPTIMAL_GAP) else found.status


def _bound(parts: Parts, alone: tuple[Found, ...], found: Found, options: SearchOptions) -> Proof:
    """What no schedule of the parts beats; a part that waits is ready no sooner than bounds of others say."""
    least = [each.lower_bound_us for each in alone]
    for _ in parts.requested:  # a part that is ready later by some time ends later by as much
        moments = parts.moments_us(least)
        least = [each.lower_bound_us + later for each, later in zip(alone, moments, strict=True)]
    last = max(range(len(least)), key=least.__getitem__)
    chain = Proof(least[last], f"{parts.requested[last].name} and what it waits for", "parts")
    if not parts.waits:
        ports = Proof(found.lower_bound_us, found.bound_source, "search")
    elif found.status == "interrupted":  # the user waits
        return chain
    else:
        ports = lower_bound(parts.ready(parts.moments_us(least)), options.budget())
    return max(chain, ports, key=lambda proof: proof.value_us)

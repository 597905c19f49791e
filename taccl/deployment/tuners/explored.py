"""Which of a stock library's algorithms to take on a machine, size by size, as rules.

A library's own model knows latencies and protocols, but of a machine's links a few numbers; the schedules of
its algorithms know each link, and nothing else. So an algorithm is expected to take what the library expects,
and no less than its schedule takes over the links.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from taccl.analysis.baseline import Library as LibraryName
from taccl.analysis.baselines import rccl
from taccl.analysis.baselines.nccl import communicator_of, estimates, release_named
from taccl.analysis.baselines.nccl.model import COLLECTIVES
from taccl.analysis.exploration.explored import Explored
from taccl.analysis.exploration.library import Library
from taccl.analysis.exploration.question import Question
from taccl.deployment.tuners.rules import TunerRule, Tuning
from taccl.deployment.tuners.tuning import EFFORT, FASTER
from taccl.errors import CollectiveError, TacclError
from taccl.support.budget import Budget
from taccl.topologies import PhysicalTopology

#: The algorithms that schedules and tuners both know, by the names of schedules.
_NAMED = {
    "ring": "Ring",
    "double binary tree": "Tree",
    "double binary tree of nodes, chains inside": "Tree",
    "PAT": "PAT",
    "NVLS": "NVLS",
    "CollNet direct": "CollNetDirect",
    "CollNet chain": "CollNetChain",
}


@dataclass(frozen=True, slots=True)
class _Pair:
    """An algorithm, a protocol, and what the library expects of them, microseconds; 0: it does not say."""

    algorithm: str
    protocol: str
    time_us: float


#: For a collective and a size, the pairs that can run, the library's own choice first.
_Pairs = Callable[[str, int], Sequence[_Pair]]


def tuning_of_explored(explored: Explored, library: LibraryName = "nccl", release: str = "2.30") -> Tuning:
    """Rules for the sizes of an exploration; other sizes are left to the library.

    Parameters
    ----------
    release : of NCCL, whose model has the protocols.

    Raises
    ------
    TacclError : several machines.
    TopologyError : GPUs that are not known, or not the library's.
    CollectiveError : no collective has a rule.
    """
    machines = {envelope.question.machine.name: envelope.question for envelope in explored.envelopes}
    if len(machines) != 1:
        raise TacclError("a tuner file is for one machine", hint="one --topology for each file")
    (question,) = machines.values()
    if library == "rccl":
        pairs, says = _of_rccl(question.machine), "RCCL's own choice"
    else:
        pairs, says = _of_nccl(question.machine, release), f"NCCL {release}'s own model"
    rules = [
        rule
        for envelope in explored.envelopes
        if envelope.question.collective in COLLECTIVES
        for rule in _rules(envelope.question, pairs)
    ]
    if not rules:
        raise CollectiveError(
            "no tuner file has a rule for this: libraries ask for none",
            hint=f"--collective of {', '.join(COLLECTIVES)}",
        )
    return Tuning(
        question.machine.num_nodes,
        question.machine.num_members,
        tuple(rules),
        f"{says} on {question.machine.name}, no faster than its links",
    )


def _of_nccl(machine: PhysicalTopology, release: str) -> _Pairs:
    numbers, comm = release_named(release), communicator_of(machine)

    def pairs(collective: str, size: int) -> Sequence[_Pair]:
        found = estimates(numbers, comm, collective, size)
        return [_Pair(each.algorithm, each.protocol, each.time_us) for each in found]

    return pairs


def _of_rccl(machine: PhysicalTopology) -> _Pairs:
    """RCCL's numbers choose and are no times; for large messages, by Simple, links tell what is faster."""

    def pairs(collective: str, size: int) -> Sequence[_Pair]:
        *own, protocol = rccl.choice(machine, collective, size).split()
        if not own:
            return []
        others = ("Ring", "Tree") if collective == "allreduce" and protocol == "Simple" else ()
        return [_Pair(name, protocol, 0.0) for name in (*own, *others)]

    return pairs


def _rules(question: Question, pairs: _Pairs) -> Iterator[TunerRule]:
    """Neighbours that agree are one rule; two that differ meet at the geometric mean of their sizes."""
    times = _times(question)
    sizes = question.sizes
    picks = [
        _pick(pairs(question.collective, size), {name: row[place] for name, row in times.items()})
        for place, size in enumerate(sizes)
    ]
    for pick, same in groupby(range(len(sizes)), key=picks.__getitem__):
        places = list(same)
        if pick is not None:
            least, beyond = _begin(sizes, places[0]), _begin(sizes, places[-1] + 1)
            yield TunerRule(question.collective, least, beyond - 1, *pick)


def _begin(sizes: tuple[int, ...], place: int) -> int:
    """The first size that is nearer to the one at a place than to the one before."""
    if place == 0:
        return sizes[0]
    return sizes[-1] + 1 if place == len(sizes) else math.isqrt(sizes[place - 1] * sizes[place]) + 1


def _times(question: Question) -> dict[str, list[float]]:
    """By algorithm as tuners call it, the least time at each size over the machine's links, microseconds."""
    times: dict[str, list[float]] = {}
    for curve in Library(question.of_links, Budget.of_work(EFFORT)):
        name = _NAMED.get(curve.kind)
        if name is not None:
            known = times.get(name, [math.inf] * len(question.sizes))
            times[name] = [min(pair) for pair in zip(known, curve.times_us, strict=True)]
    return times


def _pick(pairs: Sequence[_Pair], times: Mapping[str, float]) -> tuple[str, str] | None:
    """The algorithm and the protocol of a rule; None: the library's own choice is not known."""
    if not pairs:
        return None

    def expected_us(pair: _Pair) -> float:
        by_links = times.get(pair.algorithm, 0.0)
        return max(pair.time_us, by_links if math.isfinite(by_links) else 0.0)

    own, best = pairs[0], min(pairs, key=expected_us)
    taken = best if expected_us(best) < expected_us(own) * (1 - FASTER) else own
    return taken.algorithm, taken.protocol

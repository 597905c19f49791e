"""Programs that the exhaustive search finds, and their replay, rule by rule.

It shares no code with the search.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_sends


@dataclass(frozen=True)
class Step:
    """One send: what it carries of each chunk, as the ranks whose contributions are summed.

    A chunk that is copied is named with no ranks.
    """

    link: int
    start_us: float
    end_us: float
    rows: tuple[tuple[int, frozenset[int]], ...]


@dataclass(frozen=True)
class Program:
    """Sends in the order of their starts, and when the last output is complete."""

    problem: Problem
    steps: tuple[Step, ...]
    makespan_us: float

    def schedule(self) -> Schedule:
        """The same as a schedule, for a problem that only copies."""
        assert not self.problem.collective.is_reduction
        sends = [Send(tuple(c for c, _ in step.rows), step.link, step.start_us) for step in self.steps]
        return schedule_from_sends(self.problem, sends)

    def check(self) -> None:
        """Replay it, rule by rule: ports, presence of what is sent, each contribution once at each output."""
        topology, collective = self.problem.topology, self.problem.collective
        wholes = [frozenset(contributors(self.problem, chunk)) for chunk in range(collective.num_chunks)]
        held: dict[tuple[int, int], list[tuple[frozenset[int], float]]] = {}
        for chunk, rank in zip(*collective.pre.nonzero(), strict=True):
            own = frozenset({int(rank)}) if collective.reduces[chunk] else frozenset()
            held[int(chunk), int(rank)] = [(own, self.problem.ready_at.get((int(chunk), int(rank)), 0.0))]
        served: dict[int, list[tuple[float, float]]] = {}
        for step in sorted(self.steps, key=lambda each: each.end_us):
            src, dst = int(topology.src[step.link]), int(topology.dst[step.link])
            alpha, body = topology.alpha_us[step.link], _body_mb(self.problem, step)
            assert 1 <= len(step.rows) <= self.problem.max_group
            assert len({chunk for chunk, _ in step.rows}) == len(step.rows)
            assert abs(step.start_us + alpha + body * topology.beta_us_per_mb[step.link] - step.end_us) < 1e-6
            for port, busy_us in _busy_us(self.problem, step).items():
                served.setdefault(port, []).append((step.start_us, busy_us))
            for chunk, ranks in step.rows:
                assert self.problem.usable(chunk)[step.link]
                there = [one for one, since in held.get((chunk, src), []) if since <= step.start_us + 1e-6]
                can = _is_sum_of(ranks, there) if may_sum(topology)[src] else ranks in there
                assert can, f"rank {src} lacks {set(ranks)} of chunk {chunk}"
                held.setdefault((chunk, dst), []).append((ranks, step.end_us))
        for port in served.values():
            takes_time = sorted(busy for busy in port if busy[1] > 1e-6)
            for (start, length), (then, _) in itertools.pairwise(takes_time):
                assert then >= start + length - 1e-6, "a port serves two sends at once"
        self._check_copies()
        for chunk, rank in zip(*collective.post.nonzero(), strict=True):
            by_us = self.makespan_us - self.problem.tail_at.get((int(chunk), int(rank)), 0.0)
            there = [one for one, since in held.get((chunk, rank), []) if since <= by_us + 1e-6]
            can = _is_sum_of(wholes[chunk], there) if may_sum(topology)[rank] else wholes[chunk] in there
            assert can, f"rank {rank} never has chunk {chunk}"

    def _check_copies(self) -> None:
        """A rank that may not copy uses once each part that it holds of a chunk: it keeps it, or sends it."""
        topology, collective = self.problem.topology, self.problem.collective
        unable = [rank for rank, may in enumerate(may_copy(topology)) if not may]
        for chunk, rank in itertools.product(range(collective.num_chunks), unable):
            sends = [
                (step.start_us, ranks)
                for step in self.steps
                for moved, ranks in step.rows
                if (moved, topology.src[step.link]) == (chunk, rank)
            ]
            keeps = [(self.makespan_us, frozenset(contributors(self.problem, chunk)))]
            uses = sends + keeps * bool(collective.post[chunk][rank])
            came = [
                (step.end_us, ranks)
                for step in self.steps
                for moved, ranks in step.rows
                if (moved, topology.dst[step.link]) == (chunk, rank)
            ]
            own = frozenset({rank}) if collective.reduces[chunk] else frozenset()
            held = [(0.0, own)] * bool(collective.pre[chunk][rank]) + came
            assert len(held) == len({ranks for _, ranks in held}), "a part comes twice"
            assert _can_use(held, uses, may_sum(topology)[rank]), f"rank {rank} makes copies"


def _can_use(
    held: list[tuple[float, frozenset[int]]], uses: list[tuple[float, frozenset[int]]], may_sum: bool
) -> bool:
    """Whether parts that are held from some moment make up what is used at others, each part at most once."""
    if not uses:
        return True
    (at, ranks), *others = uses
    ready = [part for part in held if part[0] <= at + 1e-6]
    for many in range(1, (len(ready) if may_sum else 1) + 1):
        for some in itertools.combinations(ready, many):
            is_sum = (
                sum(len(part) for _, part in some) == len(ranks)
                and frozenset().union(*(p for _, p in some)) == ranks
            )
            if is_sum and _can_use([part for part in held if part not in some], others, may_sum):
                return True
    return False


def _body_mb(problem: Problem, step: Step) -> float:
    """The size of what a send carries."""
    if problem.sizes is None:
        return len(step.rows) * problem.chunk_mb
    return sum(float(problem.sizes[chunk]) for chunk, _ in step.rows) * problem.chunk_mb


def may_sum(topology: LogicalTopology) -> list[bool]:
    return [True] * topology.num_ranks if topology.may_sum is None else topology.may_sum.tolist()


def may_copy(topology: LogicalTopology) -> list[bool]:
    return [True] * topology.num_ranks if topology.may_copy is None else topology.may_copy.tolist()


def _busy_us(problem: Problem, step: Step) -> dict[int, float]:
    """How long a send keeps each of its link's ports busy."""
    topology, link = problem.topology, step.link
    alpha = float(topology.alpha_us[link]) if topology.occupancy == "serial" else 0.0
    body = _body_mb(problem, step)
    betas = port_betas(topology)[link]
    return {port: alpha + body * beta for port, beta in zip(topology.ports[link], betas, strict=True)}


def port_betas(topology: LogicalTopology) -> Sequence[Sequence[float]]:
    """For each link the time per MB that it keeps each of its ports busy: its own, if nothing is said."""
    if topology.port_betas is not None:
        return topology.port_betas
    return [[float(beta)] * len(p) for beta, p in zip(topology.beta_us_per_mb, topology.ports, strict=True)]


def contributors(problem: Problem, chunk: int) -> list[int]:
    """Whose contributions a chunk is the sum of; nobody's if it is copied."""
    collective = problem.collective
    return [int(r) for r in collective.pre[chunk].nonzero()[0]] if collective.reduces[chunk] else []


def _is_sum_of(ranks: frozenset[int], parts: Sequence[frozenset[int]]) -> bool:
    """Whether some disjoint parts add up to all of `ranks`; a copy is the part without any ranks."""
    if not ranks:
        return frozenset() in parts
    first = min(ranks)
    return any(
        part == ranks or (part < ranks and _is_sum_of(ranks - part, parts)) for part in parts if first in part
    )

"""Sequences that are changed hop by hop, by machine code (`hop_loop`).

A gene carries all that helps; here each hop is in the send where it does best, so that links need not take
turns. Runs begin from different sequences, one after another, and from the best so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from taccl.encoding.engines.combining.decode import MEAN_WEIGHT, Decoded
from taccl.encoding.engines.combining.hop_loop import Net, Scratch, State, annealed, put
from taccl.encoding.engines.combining.orbit_instance import OrbitInstance, SendGene
from taccl.encoding.engines.combining.tuning import (
    HOPS_BEGINNINGS,
    HOPS_COLD,
    HOPS_LEAST_TRIALS,
    HOPS_MOST_STALE,
    HOPS_MOST_TRIALS,
    HOPS_OF_PORTS,
    HOPS_ROOM,
    HOPS_RUNS,
    HOPS_SLICE_S,
    HOPS_UNITS_PER_HOP,
    HOPS_UNITS_PER_TRIAL,
    HOPS_WARM,
)
from taccl.model.schedule import TOLERANCE_US
from taccl.support.budget import UNITS_PER_S, Budget
from taccl.support.interrupts import heard_after
from taccl.support.jit import is_at_hand

#: Chunks that go one by one wait for no alpha but their own.
_ANY_NUMBER = 1 << 40


def is_compiled() -> bool:
    """Whether its loops are machine code already, here or on disk."""
    return is_at_hand(annealed)


def knows(orbits: OrbitInstance) -> bool:
    """Whether hops may go in any order: not where a sender's own chunks leave first."""
    return all(own is None for own in orbits.own)


def by_hops(found: Sequence[Decoded], budget: Budget, random: np.random.Generator) -> Iterator[Decoded]:
    """Better and better sequences than the fastest of some that meet every demand."""
    best = min(found, key=lambda decoded: decoded.makespan_us)
    begin = sorted({round(each.score, 6): each for each in found}.values(), key=lambda each: each.score)
    runs, stale, begin = _Runs(best.decoder.orbits), 0, begin[:HOPS_BEGINNINGS]
    part_s = budget.remaining_s() / HOPS_RUNS
    while stale < HOPS_MOST_STALE:
        before = best
        for number in range(len(begin) + 1):
            last = runs.run(begin[number] if number < len(begin) else best, part_s, budget, random)
            if last is None:
                return
            if last.makespan_us < best.makespan_us - TOLERANCE_US:
                best = last
                yield best
        stale = 0 if best is not before else stale + 1


class _Runs:
    """Runs of annealing on one network, and how long a trial takes by the last one."""

    def __init__(self, orbits: OrbitInstance) -> None:
        self._net, self._longer = net_of(orbits), 1.0

    def run(
        self, begin: Decoded, part_s: float, budget: Budget, random: np.random.Generator
    ) -> Decoded | None:
        """The best of as many trials as take so long; None: there is no time for a few."""
        state = begun(self._net, begin)
        hops, sends = int(state.numbers[0]), len(state.order)
        units = HOPS_UNITS_PER_TRIAL + HOPS_UNITS_PER_HOP * (hops + sends)
        per_s = UNITS_PER_S / (units * self._longer)
        left = budget.remaining_s() * per_s
        if not hops or left < HOPS_LEAST_TRIALS:
            return None
        trials = int(min(left, max(HOPS_LEAST_TRIALS, min(part_s * per_s, HOPS_MOST_TRIALS))))
        slices = 1 + int(trials * units / UNITS_PER_S / HOPS_SLICE_S)
        cells, ports = len(self._net.wanted), 1 + int(self._net.port.max(initial=0))
        cell, link, send = np.zeros((3, 2 * cells + 2), np.int64)
        scratch = Scratch(np.zeros(cells), np.zeros(ports), cell, link, send, np.zeros(sends, np.int64))
        best = State(*(column.copy() for column in state))
        warm, cold = HOPS_WARM * begin.makespan_us, HOPS_COLD * begin.makespan_us
        last_us, before_s, tried = begin.makespan_us, budget.remaining_s(), 0
        for number in range(slices):
            if tried and not budget.remaining_s():
                break
            # Machine code hears no signal, so a run is one of slices.
            ends = (warm * (cold / warm) ** (part / slices) for part in (number, number + 1))
            last_us = heard_after(
                annealed,
                net=self._net,
                state=state,
                scratch=scratch,
                best=best,
                seed=int(random.integers(1 << 31)),
                trials=trials // slices,
                warm_us=next(ends),
                cold_us=next(ends),
            )
            tried += trials // slices
            budget.spend(units * (trials // slices))
        took = (before_s - budget.remaining_s()) * UNITS_PER_S
        self._longer = max(0.1, took / (units * tried))
        return _decoded(begin, best, float(last_us))


def net_of(orbits: OrbitInstance) -> Net:
    """The links, their ports and what has to go where."""
    problem, (kinds, images) = orbits.problem, orbits.links.shape
    ranks, chunks = problem.num_ranks, len(orbits.chunks)
    dst = orbits.dst.ravel()
    ports = np.concatenate([np.array(each, np.int64) for each in orbits.ports])
    at_ports = orbits.at_ports or [
        [(sharing, body_us)] * len(each)
        for sharing, body_us, each in zip(orbits.sharing, orbits.chunk_us, orbits.ports, strict=True)
    ]
    uses, port_us = np.array([pair for each in at_ports for pair in each]).reshape(-1, 2).T
    return Net(
        src=orbits.src.ravel().astype(np.int64),
        dst=dst.astype(np.int64),
        orbit=np.repeat(np.arange(kinds), images),
        into_first=np.concatenate([[0], np.cumsum(np.bincount(dst, minlength=ranks))]).astype(np.int64),
        into=np.argsort(dst, kind="stable").astype(np.int64),
        usable=orbits.usable.reshape(kinds * images, chunks).copy(),
        alpha_us=np.array(orbits.alpha_us),
        body_us=np.array(orbits.chunk_us),
        most=np.where(orbits.one_by_one, _ANY_NUMBER, problem.max_group).astype(np.int64),
        port_first=np.concatenate([[0], np.cumsum([len(each) for each in orbits.ports])]).astype(np.int64),
        port=np.unique(ports, return_inverse=True)[1].astype(np.int64),
        port_uses=uses.astype(np.int64),
        port_us=np.ascontiguousarray(port_us),
        serial=bool(problem.topology.is_serial),
        root=np.arange(chunks) * ranks + orbits.held.argmax(axis=0),
        wanted=orbits.wanted.T.ravel().copy(),
        weight=MEAN_WEIGHT,
        of_ports=HOPS_OF_PORTS,
    )


def begun(net: Net, decoded: Decoded) -> State:
    """The hops of a sequence, with room for some sends more."""
    images, ranks = decoded.decoder.orbits.links.shape[1], len(net.into_first) - 1
    cells, sends = len(net.wanted), int(HOPS_ROOM * len(decoded.genes)) + len(net.alpha_us)
    state = State(
        link=np.full(cells, -1),
        send=np.full(cells, -1),
        after=np.full(cells, -1),
        before=np.full(cells, -1),
        children=np.zeros(cells, np.int64),
        head=np.full(sends, -1),
        count=np.zeros(sends, np.int64),
        of=np.zeros(sends, np.int64),
        order=np.arange(sends),
        place=np.arange(sends),
        cells=np.zeros(cells, np.int64),
        at_cell=np.zeros(cells, np.int64),
        numbers=np.zeros(2, np.int64),
    )
    for number, (gene, transfers) in enumerate(zip(decoded.genes, decoded.transfers, strict=True)):
        for image, chunk in np.argwhere(transfers).tolist():
            link = gene.orbit * images + image
            put(chunk * ranks + int(net.dst[link]), link, number, net, state)
    return state


def _decoded(begin: Decoded, state: State, last_us: float) -> Decoded:
    """The sequence that hops are."""
    orbits = begin.decoder.orbits
    images, ranks, chunks = orbits.links.shape[1], orbits.problem.num_ranks, len(orbits.chunks)
    carried = np.zeros((len(state.order), images, chunks), np.bool_)
    cells = np.flatnonzero(state.send >= 0)
    carried[state.send[cells], state.link[cells] % images, cells // ranks] = True
    used = [send for send in state.order.tolist() if state.count[send]]
    genes = [SendGene(int(state.of[send])) for send in used]
    return Decoded(begin.decoder, last_us, last_us, 0, genes, [carried[send] for send in used], [])

r"""The synchronous encoding as pure Boolean logic with cardinalities (Cai et al., PPoPP 2021, section 3).

For S steps of r_1 .. r_S rounds, chunk c, rank n, link l = (n -> m), step s:

    held(c, n, s)   n holds c when step s is over         (s = 0: at the start)
    sent(c, l, s)   c travels over l in step s

    1. held(c, n, 0) exactly where the collective starts; held(c, n, S) wherever it wants c.
    2. sent(c, l, s) implies held(c, n, s - 1): a sender holds what it sends.
    3. held(c, m, s) implies held(c, m, s - 1) or some sent(c, l, s) into m: what is held was received.
    4. At most one sent(c, l, s) into m over all l and s: each rank receives once.
    5. For each port p and step s: sum over its links of w_l * sent(c, l, s) <= L * r_s (see `rounds`).
    6. r_1 + ... + r_S = R with r_s >= 1.

SCCL has one integer time(c, n) in place of held; the Booleans are its order encoding. Rounds are either
given, or chosen by the solver in unary: extra(s, k) says that step s has more than k + 1 rounds.
A sent that cannot matter, because the chunk cannot be there yet or nobody could be served in time after
it, is not made. Chunks that start and are wanted at the same ranks are interchangeable, so they reach one
rank in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import z3

from taccl.encoding.core.timing import Decision
from taccl.encoding.frontier.rounds import hops, network_of
from taccl.encoding.instance import Instance

#: z3 has no types of its own.
_Bool = Any


class StepsModel:
    """The variables of one instance and the solver that holds its constraints.

    Parameters
    ----------
    steps, rounds : S and R.
    rounds_of : the rounds of each step, or None to leave them to the solver.
    """

    def __init__(
        self,
        instance: Instance,
        steps: int,
        rounds: int,
        rounds_of: Sequence[int] | None = None,
    ) -> None:
        self.problem, self.network = instance.problem, instance.once(network_of)
        self.steps, self.rounds, self.rounds_of = steps, rounds, rounds_of
        self.from_start, self.to_wanting = instance.once(hops)
        self.solver: Any = z3.SolverFor("QF_FD")
        self.sent = _sent_variables(self)
        self.held = _held_variables(self)
        self.extra = {} if rounds_of else _extra_variables(self)
        for family in (
            senders_hold_what_they_send,
            what_is_held_was_received,
            each_rank_receives_once,
            ports_have_room_in_each_step,
            ports_have_room_in_all,
            steps_share_the_rounds,
            interchangeable_chunks_come_in_order,
        ):
            for constraint in family(self):
                self.solver.add(constraint)

    def decisions(self) -> list[Decision]:
        """The sends of the model that the solver found, in the order of their steps."""
        values = self.solver.model()
        made = [key for key, variable in self.sent.items() if z3.is_true(values[variable])]
        return [Decision((chunk,), link) for _, chunk, link in sorted((s, c, l) for c, l, s in made)]

    def into(self, chunk: int, rank: int, steps: Sequence[int]) -> list[_Bool]:
        """The sends of a chunk into a rank in any of these steps."""
        links = self.problem.topology.links_into[rank]
        return [self.sent[chunk, l, s] for l in links for s in steps if (chunk, l, s) in self.sent]

    def cells(self) -> Iterator[tuple[int, int]]:
        """Each chunk with each rank that does not have it at the start."""
        pre = self.problem.collective.pre
        for chunk in range(self.problem.num_chunks):
            for rank in range(self.problem.num_ranks):
                if not pre[chunk, rank]:
                    yield chunk, rank


def _sent_variables(model: StepsModel) -> dict[tuple[int, int, int], _Bool]:
    problem, topology = model.problem, model.problem.topology
    sent = {}
    for chunk in range(problem.num_chunks):
        usable = problem.usable(chunk)
        for link in range(topology.num_links):
            source, target = int(topology.src[link]), int(topology.dst[link])
            if not usable[link] or problem.collective.pre[chunk, target]:
                continue
            for step in range(1, model.steps + 1):
                is_there = model.from_start[chunk, source] <= step - 1
                serves = model.to_wanting[chunk, target] <= model.steps - step
                if is_there and serves:
                    sent[chunk, link, step] = z3.Bool(f"sent {chunk} {link} {step}")
    return sent


def _held_variables(model: StepsModel) -> dict[tuple[int, int, int], _Bool]:
    """Rule 1 is in here: what is known is a constant."""
    collective, steps = model.problem.collective, model.steps
    held = {}
    for chunk in range(model.problem.num_chunks):
        for rank in range(model.problem.num_ranks):
            for step in range(steps + 1):
                value: _Bool = z3.Bool(f"held {chunk} {rank} {step}")
                wanted_now = step == steps and collective.post[chunk, rank]
                if collective.pre[chunk, rank] or wanted_now:
                    value = z3.BoolVal(True)
                elif model.from_start[chunk, rank] > step:
                    value = z3.BoolVal(False)
                held[chunk, rank, step] = value
    return held


def _extra_variables(model: StepsModel) -> dict[tuple[int, int], _Bool]:
    more = range(model.rounds - model.steps)
    return {(s, k): z3.Bool(f"extra {s} {k}") for s in range(1, model.steps + 1) for k in more}


def senders_hold_what_they_send(model: StepsModel) -> Iterator[_Bool]:
    """Rule 2; and the receiver does not hold it before, and does after."""
    topology = model.problem.topology
    for (chunk, link, step), sent in model.sent.items():
        source, target = int(topology.src[link]), int(topology.dst[link])
        yield z3.Implies(sent, model.held[chunk, source, step - 1])
        yield z3.Implies(sent, z3.Not(model.held[chunk, target, step - 1]))
        yield z3.Implies(sent, model.held[chunk, target, step])


def what_is_held_was_received(model: StepsModel) -> Iterator[_Bool]:
    """Rule 3; and what is held stays."""
    for chunk, rank in model.cells():
        for step in range(1, model.steps + 1):
            before, now = model.held[chunk, rank, step - 1], model.held[chunk, rank, step]
            yield z3.Implies(before, now)
            yield z3.Implies(now, z3.Or(before, *model.into(chunk, rank, [step])))


def each_rank_receives_once(model: StepsModel) -> Iterator[_Bool]:
    """Rule 4."""
    every_step = range(1, model.steps + 1)
    for chunk, rank in model.cells():
        into = model.into(chunk, rank, every_step)
        if len(into) > 1:
            yield z3.AtMost(*into, 1)


def ports_have_room_in_each_step(model: StepsModel) -> Iterator[_Bool]:
    """Rule 5. With unary rounds, units that a step does not have are taken by its missing rounds."""
    units = model.network.units
    more = range(model.rounds - model.steps)
    for step in range(1, model.steps + 1):
        for port in range(model.problem.topology.num_ports):
            load = _load(model, port, [step])
            if model.rounds_of:
                room = units * model.rounds_of[step - 1]
                missing = []
            else:
                room = units * (1 + len(more))
                missing = [(z3.Not(model.extra[step, k]), units) for k in more]
            if sum(weight for _, weight in load) > units:
                yield z3.PbLe(load + missing, room)


def ports_have_room_in_all(model: StepsModel) -> Iterator[_Bool]:
    """The sum of rule 5 over all steps: implied, and what proofs about bandwidth need."""
    room = model.network.units * model.rounds
    for port in range(model.problem.topology.num_ports):
        load = _load(model, port, range(1, model.steps + 1))
        if sum(weight for _, weight in load) > room:
            yield z3.PbLe(load, room)


def _load(model: StepsModel, port: int, steps: Sequence[int]) -> list[tuple[_Bool, int]]:
    """Every send through a port in these steps, with what it takes of the port."""
    chunks, topology = range(model.problem.num_chunks), model.problem.topology
    weights = model.network.weight[topology.port_pairs[port]].tolist()
    return [
        (model.sent[chunk, link, step], int(weight))
        for link, weight in zip(topology.port_links[port], weights, strict=True)
        for chunk in chunks
        for step in steps
        if (chunk, link, step) in model.sent
    ]


def steps_share_the_rounds(model: StepsModel) -> Iterator[_Bool]:
    """Rule 6."""
    more = model.rounds - model.steps
    if model.rounds_of or not more:
        return
    for step in range(1, model.steps + 1):
        for k in range(1, more):
            yield z3.Implies(model.extra[step, k], model.extra[step, k - 1])
    yield z3.PbEq([(extra, 1) for extra in model.extra.values()], more)


def interchangeable_chunks_come_in_order(model: StepsModel) -> Iterator[_Bool]:
    """Of chunks that start and are wanted at the same ranks, the first reaches the farthest one first."""
    collective = model.problem.collective
    classes: dict[tuple[int, bytes, bytes], list[int]] = {}
    for chunk in range(model.problem.num_chunks):
        key = (
            int(collective.owner[chunk]),
            collective.pre[chunk].tobytes(),
            collective.post[chunk].tobytes(),
        )
        classes.setdefault(key, []).append(chunk)
    for chunks in classes.values():
        wanted = collective.post[chunks[0]] & ~collective.pre[chunks[0]]
        if not wanted.any():
            continue
        farthest = int(np.where(wanted, model.from_start[chunks[0]], -1.0).argmax())
        for first, second in pairwise(chunks):
            for step in range(1, model.steps):
                yield z3.Implies(model.held[second, farthest, step], model.held[first, farthest, step])

"""Messages that wait for what they need alone: the same results in any order, and nobody waits for ever."""

import random
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import examples

from taccl import synthesize
from taccl.deployment.jobs.plans import read_plans
from taccl.deployment.jobs.steps import run_steps, steps_of

RANKS = 4
NAMES = ("allgather", "reducescatter", "allreduce", "alltoall")


class Post:
    """A network on which a message ends once both ends are posted: at once, or as late as somebody waits."""

    def __init__(self, seed):
        self.lots, self.changed = random.Random(seed), threading.Condition()
        self.sends, self.receives, self.done = {}, {}, set()

    def exchange(self, rank):
        sent, received = [0] * RANKS, [0] * RANKS

        def posted(each, view, under_way):
            for peer, place in each.receives:
                memory = view(place)
                under_way.before(memory, writes=True)
                key = (peer, rank, received[peer])
                received[peer] += 1
                under_way.add(memory, self.post(self.receives, key, memory), writes=True)
            for peer, place in each.sends:
                memory = view(place)
                under_way.before(memory, writes=False)
                key = (rank, peer, sent[peer])
                sent[peer] += 1
                under_way.add(memory, self.post(self.sends, key, memory), writes=False)

        return posted

    def post(self, side, key, memory):
        with self.changed:
            side[key] = memory
            if self.lots.random() < 0.5:
                self.carry(key)
            self.changed.notify_all()

        def wait():
            with self.changed:
                met = self.changed.wait_for(lambda: key in self.sends and key in self.receives, timeout=20)
                assert met, "ranks wait for each other"
                self.carry(key)

        return wait

    def carry(self, key):
        if key in self.sends and key in self.receives and key not in self.done:
            self.receives[key][:] = self.sends[key]
            self.done.add(key)


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """Each collective on a ring, in a mesh and with several chunks."""
    folder, found = tmp_path_factory.mktemp("plans"), []
    for name in NAMES:
        for machine, chunks in (("ring:4", 2), ("full:4", 1)):
            result = synthesize(
                name, topology=machine, size="64KB", chunks=chunks, effort=30, executor=False, target="rccl"
            )
            result.write(folder / f"{name}-{machine[:4]}.xml")
            found.append(folder / f"{name}-{machine[:4]}.xml")
    return {pipelined: read_plans(found, pipelined=pipelined).plans for pipelined in (False, True)}


def results(plan, in_place, as_needed, seed):
    """What all ranks have at the end, each rank a thread."""
    rounds, post = plan.rounds(in_place=in_place), Post(seed)
    numbers = np.random.default_rng(3)
    kept, failed = [], []

    def work(rank, buffers):
        try:
            exchange = post.exchange(rank)
            run_steps(steps_of(rounds, rank), buffers, 2, np.add, exchange, as_needed=as_needed)
        except AssertionError as error:
            failed.append(error)

    ranks = []
    for rank in range(RANKS):
        inputs, outputs, scratch = (2 * size for size in rounds.sizes[rank])
        whole = numbers.integers(0, 99, max(inputs, outputs))
        shift = 2 * rounds.in_place_shift[rank] if in_place else 0
        first, then = (max(0, shift), max(0, -shift)) if in_place else (0, 0)
        output = whole if in_place else np.zeros(outputs, dtype=np.int64)
        buffers = (
            whole[first : first + inputs],
            output[then : then + outputs],
            np.zeros(scratch, dtype=np.int64),
        )
        kept.append(buffers[1])
        ranks.append(threading.Thread(target=work, args=(rank, buffers)))
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
    assert not failed
    return np.concatenate(kept)


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 7), st.booleans(), st.booleans(), st.integers(0, 10**6))
def test_whatever_arrives_first_the_results_are_those_of_rounds_that_end(
    plans, number, pipelined, in_place, seed
):
    plan = plans[pipelined][number]
    wanted = results(plan, in_place, as_needed=False, seed=0)
    assert (results(plan, in_place, as_needed=True, seed=seed) == wanted).all()

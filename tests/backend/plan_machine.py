"""Runs the steps of a plan in random orders that a GPU could choose, thousands of times in a second.

Agents are the threads of all blocks, the ports and the hosts; every write is visible at once. Hosts wait for
nothing but their own blocks, save that a port that is still to read a user's buffer gets what is there
before the host rewrites it (the verifier only warns of those). Orders are unfair on purpose: some agents are
slow all the time, some freeze at one step until nobody else can go on. Between two calls a host's buffers are
its own: whoever writes there then is wrong, whatever comes of it.
"""

from dataclasses import dataclass

import numpy as np
from plan_steps import (
    ACQUIRE,
    ADD,
    ADD_PACKET,
    BARRIER,
    BARRIERS,
    FLUSH,
    LOAD,
    LOAD_PACKET,
    MEET,
    PUSH,
    PUSH_SIGNAL,
    RELEASE,
    SIGNAL,
    STORE,
    STORE_PACKET,
    WAIT,
    Steps,
    steps_of,
)

from taccl.backend.plan import ExecutionPlan
from taccl.compiled import compiled

CALLS = 3
RIGHT, WRONG, HANGS = range(3)
_WORDS = ("right", "wrong", "hangs")


@dataclass(frozen=True)
class Machine:
    """A plan at one size of call, with inputs drawn at random, and what its outputs must hold.

    `wanted` : shape (alternatives, calls, words of all outputs); `known` : whether that is told at all.
    """

    steps: Steps
    given: np.ndarray
    wanted: np.ndarray
    most_pushes: int

    @staticmethod
    def of(plan: ExecutionPlan, units: int, calls: int = CALLS) -> "Machine":
        """Raises `CannotRun` where the runtime would refuse the plan or touch memory that is not meant."""
        steps = steps_of(plan, units)
        dice = np.random.default_rng(7)
        ranks = plan.num_ranks
        given = dice.integers(-(2**60), 2**60, (calls, ranks, int(steps.inputs[0, 1])))
        wanted = np.array([_wanted(plan, given, root) for root in _roots(plan)])
        pushes = np.zeros(max(1, len(steps.port_rank)), dtype=np.int64)
        rows = steps.steps[(steps.steps[:, 0] == PUSH) | (steps.steps[:, 0] == PUSH_SIGNAL)]
        np.add.at(pushes, rows[:, 1], 1)
        return Machine(steps, given.reshape(calls, -1), wanted, int(pushes.max()) * calls)

    def runs(self, number: int, seed: int, run=None) -> tuple[str, int]:
        """The first outcome of so many runs that is not right, and which run that was; else `right`, -1."""
        s = self.steps
        outcome, which = (run or run_many)(
            s.steps,
            s.starts,
            s.block,
            s.rank_threads,
            s.block_rank,
            s.block_threads,
            s.transfers,
            s.port_rank,
            s.inputs,
            s.outputs,
            s.words,
            s.ends,
            s.semaphores,
            s.in_place,
            self.given,
            self.wanted,
            max(1, self.most_pushes),
            number,
            seed,
        )
        return _WORDS[outcome], which


def _roots(plan: ExecutionPlan) -> range:
    return range(plan.num_ranks if plan.collective == "broadcast" else 1)


def _wanted(plan: ExecutionPlan, given: np.ndarray, root: int) -> np.ndarray:
    """What all outputs hold after each call, rank by rank."""
    calls, ranks, _ = given.shape
    name = plan.collective
    if name == "allreduce":
        rows = [given.sum(axis=1)] * ranks
    elif name == "reducescatter":
        rows = list(given.sum(axis=1).reshape(calls, ranks, -1).transpose(1, 0, 2))
    elif name == "allgather":
        rows = [given.reshape(calls, -1)] * ranks
    elif name == "alltoall":
        rows = list(given.reshape(calls, ranks, ranks, -1).transpose(2, 0, 1, 3).reshape(ranks, calls, -1))
    elif name == "broadcast":
        rows = [given[:, root]] * ranks
    elif name == "sendrecv":
        rows = [given[:, (r - 1) % ranks] for r in range(ranks)]
    else:
        raise ValueError(f"nothing is known of {name}")
    return np.concatenate(rows, axis=1)


@compiled
def run_many(
    steps,
    starts,
    block_of,
    rank_threads,
    block_rank,
    block_threads,
    transfers,
    port_rank,
    inputs,
    outputs,
    words,
    num_ends,
    semaphores_at_first,
    in_place,
    given,
    wanted,
    most_pushes,
    number,
    seed,
):
    """Some runs, until one is not right: its outcome, and which it was."""
    np.random.seed(seed)
    ranks, ports, threads = len(inputs), len(port_rank), len(starts) - 1
    first_port, first_thread = ranks, ranks + ports
    agents = first_thread + threads
    calls = len(given)
    longest = 1
    for k in range(len(transfers)):
        longest = max(longest, transfers[k, 4])
    memory = np.zeros(words + 1, dtype=np.int64)
    owned = np.zeros(words + 1, dtype=np.int64)
    counter = np.zeros(num_ends + 1, dtype=np.int64)
    awaited = np.zeros(num_ends + 1, dtype=np.int64)
    semaphores = np.zeros(len(semaphores_at_first) + 1, dtype=np.int64)
    arrived = np.zeros(ranks * BARRIERS, dtype=np.int64)
    left = np.zeros(ranks * BARRIERS, dtype=np.int64)
    at = np.zeros(threads, dtype=np.int64)
    inside = np.zeros(threads, dtype=np.int64)  # whether a step that waits has begun
    noted = np.zeros(threads, dtype=np.int64)  # what it waits for
    held = np.zeros((threads, 2), dtype=np.int64)
    is_running = np.zeros(threads, dtype=np.bool_)
    blocks = len(block_rank)
    met = np.zeros(blocks, dtype=np.int64)
    meeting = np.zeros(blocks, dtype=np.int64)
    call_of = np.zeros(ranks, dtype=np.int64)
    phase = np.zeros(ranks, dtype=np.int64)
    ended = np.zeros(ranks, dtype=np.int64)
    queue = np.zeros((ports, most_pushes, 2), dtype=np.int64)
    stage = np.zeros((ports, most_pushes, longest), dtype=np.int64)
    queued = np.zeros(ports, dtype=np.int64)
    done = np.zeros(ports, dtype=np.int64)
    read = np.zeros((ports, most_pushes), dtype=np.int64)
    written = np.zeros(ports, dtype=np.int64)
    pace = np.ones(agents)
    stops = np.zeros(agents, dtype=np.int64)
    acted = np.zeros(agents, dtype=np.int64)
    of_rank = np.ones(ranks)
    of_block = np.ones(blocks)
    ready = np.zeros(agents, dtype=np.int64)
    asleep = np.zeros(agents, dtype=np.int64)
    alternatives = len(wanted)
    bad = np.zeros(alternatives, dtype=np.bool_)
    for run in range(number):
        memory[:] = 0
        counter[:] = 0
        awaited[:] = 0
        semaphores[: len(semaphores_at_first)] = semaphores_at_first
        arrived[:] = 0
        left[:] = 0
        inside[:] = 0
        is_running[:] = False
        met[:] = 0
        meeting[:] = 0
        call_of[:] = 0
        phase[:] = 0
        ended[:] = 0
        queued[:] = 0
        done[:] = 0
        read[:] = 0
        written[:] = 0
        acted[:] = 0
        stops[:] = 2**60
        asleep[:] = -1
        wakes = 0
        bad[:] = False
        # How unfair this order is.
        kind = np.random.randint(0, 5)
        for rank in range(ranks):
            of_rank[rank] = 0.03 if kind < 3 and np.random.random() < 0.25 else 1.0
        for block in range(blocks):
            of_block[block] = of_rank[block_rank[block]] * (
                0.03 if kind < 3 and np.random.random() < 0.25 else 1.0
            )
        for agent in range(agents):
            if agent < first_port:
                pace[agent] = of_rank[agent]
            elif agent < first_thread:
                pace[agent] = of_rank[port_rank[agent - first_port]]
            else:
                pace[agent] = of_block[block_of[agent - first_thread]]
            if kind < 3 and np.random.random() < 0.25:
                pace[agent] *= 0.03
            if kind == 3:
                pace[agent] = 10.0 ** (-6.0 * np.random.random())
        for _ in range(np.random.randint(0, 4)):
            agent = np.random.randint(0, agents)
            if agent < first_port:
                stops[agent] = np.random.randint(0, 2 * calls)
            elif agent < first_thread:
                stops[agent] = np.random.randint(0, 4 * most_pushes + 1)
            else:
                thread = agent - first_thread
                length = starts[thread + 1] - starts[thread]
                stops[agent] = np.random.randint(0, calls * length + 1)
        outcome = -1
        while outcome < 0:
            agent = -1
            for _ in range(8):
                some = np.random.randint(0, agents)
                if asleep[some] != wakes and acted[some] < stops[some] and np.random.random() < pace[some]:
                    agent = some
                    break
            if agent < 0:
                # One of all that may go on: the slow ones seldom, the frozen ones only if nobody else can.
                total = 0.0
                found = 0
                for some in range(agents):
                    if asleep[some] != wakes:
                        ready[found] = some
                        found += 1
                        total += pace[some] if acted[some] < stops[some] else pace[some] * 1e-9
                if found == 0:
                    outcome = 2
                    break
                drawn = np.random.random() * total
                agent = ready[found - 1]
                for k in range(found):
                    some = ready[k]
                    drawn -= pace[some] if acted[some] < stops[some] else pace[some] * 1e-9
                    if drawn <= 0.0:
                        agent = some
                        break
            burst = 1
            dice = np.random.randint(0, 4)
            if dice == 2:
                burst = 5
            elif dice == 3:
                burst = 50
            went = 0
            while went < burst:
                moved = False
                if agent < first_port:  # a host
                    rank = agent
                    call = call_of[rank]
                    out_first, out_words = outputs[rank, 0], outputs[rank, 1]
                    in_first, in_words = inputs[rank, 0], inputs[rank, 1]
                    if phase[rank] == 0:
                        for port in range(ports):
                            if port_rank[port] == rank:
                                for item in range(done[port], queued[port]):
                                    t = queue[port, item, 0]
                                    if t >= 0 and transfers[t, 5]:
                                        source = transfers[t, 0] + transfers[t, 1] * (
                                            queue[port, item, 1] & 1
                                        )
                                        for k in range(read[port, item], transfers[t, 4]):
                                            stage[port, item, k] = memory[source + k]
                                        read[port, item] = transfers[t, 4]
                        for k in range(out_words):
                            memory[out_first + k] = np.random.randint(-(2**60), 2**60)
                        for k in range(in_words):
                            memory[in_first + k] = given[call, rank * in_words + k]
                        for k in range(out_words):
                            owned[out_first + k] = memory[out_first + k]
                        for k in range(in_words):
                            owned[in_first + k] = memory[in_first + k]
                        phase[rank] = 3
                        moved = True
                    elif phase[rank] == 3:  # nobody else may have touched them meanwhile
                        for k in range(out_words):
                            if memory[out_first + k] != owned[out_first + k]:
                                outcome = 1
                        for k in range(in_words):
                            if memory[in_first + k] != owned[in_first + k]:
                                outcome = 1
                        for thread in range(rank_threads[rank], rank_threads[rank + 1]):
                            at[thread] = starts[thread]
                            inside[thread] = 0
                            is_running[thread] = True
                        ended[rank] = 0
                        phase[rank] = 1
                        wakes += 1
                        moved = True
                    elif phase[rank] == 1 and ended[rank] == rank_threads[rank + 1] - rank_threads[rank]:
                        before = 0
                        for other in range(rank):
                            before += outputs[other, 1]
                        for k in range(out_words):
                            value = memory[out_first + k]
                            for a in range(alternatives):
                                if value != wanted[a, call, before + k]:
                                    bad[a] = True
                        if not in_place:
                            for k in range(in_words):
                                if memory[in_first + k] != given[call, rank * in_words + k]:
                                    bad[:] = True
                        if bad.all():
                            outcome = 1
                        call_of[rank] += 1
                        phase[rank] = 0 if call + 1 < calls else 2
                        moved = True
                        if phase[rank] == 2 and outcome < 0:
                            outcome = 0
                            for other in range(ranks):
                                if phase[other] != 2:
                                    outcome = -1
                elif agent < first_thread:  # a port
                    port = agent - first_port
                    item = done[port]
                    if item < queued[port]:
                        t = queue[port, item, 0]
                        moved = True
                        if t < 0:
                            if t < -1:
                                counter[-2 - t] += 1
                            done[port] += 1
                            wakes += 1
                        else:
                            half = queue[port, item, 1] & 1
                            source = transfers[t, 0] + transfers[t, 1] * half
                            target = transfers[t, 2] + transfers[t, 3] * half
                            length = transfers[t, 4]
                            if read[port, item] < length and (
                                read[port, item] == written[port] or np.random.randint(0, 2) == 0
                            ):
                                stage[port, item, read[port, item]] = memory[source + read[port, item]]
                                read[port, item] += 1
                            else:
                                memory[target + written[port]] = stage[port, item, written[port]]
                                written[port] += 1
                            if written[port] == length:
                                written[port] = 0
                                done[port] += 1
                                wakes += 1
                else:  # a thread
                    thread = agent - first_thread
                    if is_running[thread]:
                        block = block_of[thread]
                        rank = block_rank[block]
                        call = call_of[rank]
                        over = False
                        if at[thread] == starts[thread + 1]:
                            is_running[thread] = False
                            ended[rank] += 1
                            wakes += 1
                            moved = True
                        else:
                            row = at[thread]
                            what, a, b, width = steps[row, 0], steps[row, 1], steps[row, 2], steps[row, 3]
                            if what == MEET:
                                if inside[thread] == 0:
                                    inside[thread] = 1
                                    noted[thread] = met[block]
                                    meeting[block] += 1
                                    if meeting[block] == block_threads[block]:
                                        meeting[block] = 0
                                        met[block] += 1
                                        wakes += 1
                                    moved = True
                                over = met[block] > noted[thread]
                            elif what == BARRIER:
                                if inside[thread] == 0:
                                    inside[thread] = 1
                                    noted[thread] = left[a]
                                    arrived[a] += 1
                                    if arrived[a] >= b:
                                        arrived[a] = 0
                                        left[a] += 1
                                        wakes += 1
                                    moved = True
                                over = left[a] > noted[thread]
                            elif what == SIGNAL:
                                counter[a] += 1
                                wakes += 1
                                over = True
                            elif what == WAIT:
                                if inside[thread] == 0:
                                    inside[thread] = 1
                                    awaited[a] += 1
                                    noted[thread] = awaited[a]
                                    moved = True
                                over = counter[a] >= noted[thread]
                            elif what == RELEASE:
                                semaphores[a] += 1
                                wakes += 1
                                over = True
                            elif what == ACQUIRE:
                                if inside[thread] == 0:
                                    inside[thread] = 1
                                    noted[thread] = semaphores[a]
                                    semaphores[a] -= 1
                                    moved = True
                                over = noted[thread] > 0 or semaphores[a] >= noted[thread]
                            elif what in (PUSH, PUSH_SIGNAL):
                                queue[a, queued[a], 0] = b if what == PUSH else -2 - b
                                queue[a, queued[a], 1] = call
                                queued[a] += 1
                                wakes += 1
                                over = True
                            elif what == FLUSH:
                                if inside[thread] == 0:
                                    inside[thread] = 1
                                    noted[thread] = queued[a]
                                    moved = True
                                over = done[a] >= noted[thread]
                            else:
                                word = a + b * (call & 1)
                                if what in (LOAD, ADD):
                                    for k in range(width):
                                        if what == LOAD:
                                            held[thread, k] = memory[word + k]
                                        else:
                                            held[thread, k] += memory[word + k]
                                    over = True
                                elif what == STORE:
                                    for k in range(width):
                                        memory[word + k] = held[thread, k]
                                    over = True
                                elif what == STORE_PACKET:
                                    memory[word] = held[thread, 0]
                                    memory[word + 1] = call + 1
                                    wakes += 1
                                    over = True
                                elif memory[word + 1] == call + 1:  # the packet of this call is there
                                    if what == LOAD_PACKET:
                                        held[thread, 0] = memory[word]
                                    elif what == ADD_PACKET:
                                        held[thread, 0] += memory[word]
                                    over = True
                            if over:
                                at[thread] += 1
                                inside[thread] = 0
                                moved = True
                if not moved:
                    asleep[agent] = wakes  # until somebody does what others may wait for
                    break
                if outcome >= 0:
                    break
                acted[agent] += 1
                went += 1
                if acted[agent] > stops[agent]:
                    stops[agent] = 2**60  # its frost is over
                elif acted[agent] == stops[agent]:
                    break
        if outcome > 0:
            return outcome, run
    return 0, -1

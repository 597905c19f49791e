"""What the agents of `plan_machine` do when it is their turn: hosts, ports and threads. It is machine code
where `plan_machine` is, and runs as it stands where that does.
"""

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable
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
)

#: For parts of a function that is machine code: written into it, without counting references, they take no
#: longer than if they stood there; as calls they took seven times as long.
alongside = register_jitable(_nrt=False, forceinline=True)

#: What a run comes to; and of an act, that the run goes on, or that the agent has to wait.
RIGHT, WRONG, HANGS = range(3)
GOES_ON, WAITS = -1, -2
#: What a host does next.
_TO_WRITE, _TO_COMPARE, _THROUGH, _TO_START = range(4)


class State(NamedTuple):
    """A run while it happens, of fixed steps.

    Parameters
    ----------
    given : shape (calls, words of all inputs). wanted : shape (alternatives, calls, words of all outputs).
    wakes : one number: how often something happened that others may wait for.
    memory : all words. owned : what hosts wrote, which nobody else may change before the kernel starts.
    counter, awaited : per end of a channel the signals that came, and those that were waited for.
    semaphores : their values. arrived, left : per barrier who came since it last opened, how often that was.
    met, meeting : the same for the threads of each block.
    at, inside, noted : per thread its step, whether it waits in it, and for what.
    held : per thread the words that it moves. is_running : whether its kernel has started and not ended.
    call, phase, ended : per rank its call, what its host does next, and how many threads are through.
    queue : per port and item a transfer (-1: none) or -2 - end of a signal, and the call that requested it.
    stage : what was read of an item. queued, done : per port the items requested, and those that are over.
    read, written : words of an item.
    bad : of each alternative whether an output was another.
    """

    given: np.ndarray
    wanted: np.ndarray
    wakes: np.ndarray
    memory: np.ndarray
    owned: np.ndarray
    counter: np.ndarray
    awaited: np.ndarray
    semaphores: np.ndarray
    arrived: np.ndarray
    left: np.ndarray
    met: np.ndarray
    meeting: np.ndarray
    at: np.ndarray
    inside: np.ndarray
    noted: np.ndarray
    held: np.ndarray
    is_running: np.ndarray
    call: np.ndarray
    phase: np.ndarray
    ended: np.ndarray
    queue: np.ndarray
    stage: np.ndarray
    queued: np.ndarray
    done: np.ndarray
    read: np.ndarray
    written: np.ndarray
    bad: np.ndarray


def state_of(fixed: Steps, given: np.ndarray, wanted: np.ndarray, most_pushes: int) -> State:
    """A state in which nothing has happened, with room for this many pushes into each port."""
    ranks, ports, threads = len(fixed.inputs), len(fixed.port_rank), len(fixed.starts) - 1
    blocks = len(fixed.block_rank)
    longest = int(fixed.transfers[:, 4].max(initial=1))

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)

    return State(
        given=given,
        wanted=wanted,
        wakes=zeros(1),
        memory=zeros(fixed.words + 1),
        owned=zeros(fixed.words + 1),
        counter=zeros(fixed.ends + 1),
        awaited=zeros(fixed.ends + 1),
        semaphores=zeros(len(fixed.semaphores) + 1),
        arrived=zeros(ranks * BARRIERS),
        left=zeros(ranks * BARRIERS),
        met=zeros(blocks),
        meeting=zeros(blocks),
        at=zeros(threads),
        inside=zeros(threads),
        noted=zeros(threads),
        held=zeros(threads, 2),
        is_running=np.zeros(threads, dtype=np.bool_),
        call=zeros(ranks),
        phase=zeros(ranks),
        ended=zeros(ranks),
        queue=zeros(ports, most_pushes, 2),
        stage=zeros(ports, most_pushes, longest),
        queued=zeros(ports),
        done=zeros(ports),
        read=zeros(ports, most_pushes),
        written=zeros(ports),
        bad=np.zeros(len(wanted), dtype=np.bool_),
    )


@alongside
def begin_again(fixed, state):
    """The state before anything has happened; `at`, `noted`, `held` are set before they are looked at."""
    state.wakes[0] = 0
    state.memory[:] = 0
    state.counter[:] = 0
    state.awaited[:] = 0
    for number in range(len(fixed.semaphores)):
        state.semaphores[number] = fixed.semaphores[number]
    state.arrived[:] = 0
    state.left[:] = 0
    state.met[:] = 0
    state.meeting[:] = 0
    state.inside[:] = 0
    state.is_running[:] = False
    state.call[:] = 0
    state.phase[:] = _TO_WRITE
    state.ended[:] = 0
    state.queued[:] = 0
    state.done[:] = 0
    state.read[:] = 0
    state.written[:] = 0
    state.bad[:] = False


@alongside
def host_acts(fixed, state, rank):
    """A host writes its buffers, starts its kernel, and compares what came of it, one after the other."""
    if state.phase[rank] == _TO_WRITE:
        _read_ahead(fixed, state, rank)
        _write_buffers(fixed, state, rank)
        state.phase[rank] = _TO_START
        return GOES_ON
    if state.phase[rank] == _TO_START:
        if not _are_untouched(fixed, state, rank):
            return WRONG
        for thread in range(fixed.rank_threads[rank], fixed.rank_threads[rank + 1]):
            state.at[thread] = fixed.starts[thread]
            state.inside[thread] = 0
            state.is_running[thread] = True
        state.ended[rank] = 0
        state.phase[rank] = _TO_COMPARE
        state.wakes[0] += 1
        return GOES_ON
    threads = fixed.rank_threads[rank + 1] - fixed.rank_threads[rank]
    if state.phase[rank] != _TO_COMPARE or state.ended[rank] < threads:
        return WAITS
    _compare(fixed, state, rank)
    if state.bad.all():
        return WRONG
    state.call[rank] += 1
    state.phase[rank] = _TO_WRITE if state.call[rank] < len(state.given) else _THROUGH
    for other in range(len(fixed.inputs)):
        if state.phase[other] != _THROUGH:
            return GOES_ON
    return RIGHT


@alongside
def _read_ahead(fixed, state, rank):
    """What ports are still to read of a user's buffer they get as it is, before its host writes it anew."""
    for port in range(len(fixed.port_rank)):
        if fixed.port_rank[port] != rank:
            continue
        for item in range(state.done[port], state.queued[port]):
            t = state.queue[port, item, 0]
            if t >= 0 and fixed.transfers[t, 5]:
                source = fixed.transfers[t, 0] + fixed.transfers[t, 1] * (state.queue[port, item, 1] & 1)
                for k in range(state.read[port, item], fixed.transfers[t, 4]):
                    state.stage[port, item, k] = state.memory[source + k]
                state.read[port, item] = fixed.transfers[t, 4]


@alongside
def _write_buffers(fixed, state, rank):
    """New inputs, and rubbish wherever else the outputs are."""
    first, words = fixed.outputs[rank, 0], fixed.outputs[rank, 1]
    for k in range(words):
        state.memory[first + k] = np.random.randint(-(2**60), 2**60)
    in_first, in_words = fixed.inputs[rank, 0], fixed.inputs[rank, 1]
    for k in range(in_words):
        state.memory[in_first + k] = state.given[state.call[rank], rank * in_words + k]
    for k in range(words):
        state.owned[first + k] = state.memory[first + k]
    for k in range(in_words):
        state.owned[in_first + k] = state.memory[in_first + k]


@alongside
def _are_untouched(fixed, state, rank):
    """Whether a host's buffers are as it wrote them."""
    for buffers in (fixed.outputs, fixed.inputs):
        first, words = buffers[rank, 0], buffers[rank, 1]
        for k in range(words):
            if state.memory[first + k] != state.owned[first + k]:
                return False
    return True


@alongside
def _compare(fixed, state, rank):
    """Note what is wrong in a rank's output, and out of place in its input."""
    call, before = state.call[rank], 0
    for other in range(rank):
        before += fixed.outputs[other, 1]
    first, words = fixed.outputs[rank, 0], fixed.outputs[rank, 1]
    for k in range(words):
        for a in range(len(state.wanted)):
            if state.memory[first + k] != state.wanted[a, call, before + k]:
                state.bad[a] = True
    if not fixed.in_place:
        first, words = fixed.inputs[rank, 0], fixed.inputs[rank, 1]
        for k in range(words):
            if state.memory[first + k] != state.given[call, rank * words + k]:
                state.bad[:] = True


@alongside
def port_acts(fixed, state, port):
    """A port tells, or reads or writes one word, of the item that is next."""
    item = state.done[port]
    if item == state.queued[port]:
        return WAITS
    t = state.queue[port, item, 0]
    if t < 0:
        if t < -1:
            state.counter[-2 - t] += 1
        state.done[port] += 1
        state.wakes[0] += 1
        return GOES_ON
    half = state.queue[port, item, 1] & 1
    source = fixed.transfers[t, 0] + fixed.transfers[t, 1] * half
    target = fixed.transfers[t, 2] + fixed.transfers[t, 3] * half
    length = fixed.transfers[t, 4]
    come, gone = state.read[port, item], state.written[port]
    if come < length and (come == gone or np.random.randint(0, 2) == 0):
        state.stage[port, item, come] = state.memory[source + come]
        state.read[port, item] += 1
    else:
        state.memory[target + gone] = state.stage[port, item, gone]
        state.written[port] += 1
    if state.written[port] == length:
        state.written[port] = 0
        state.done[port] += 1
        state.wakes[0] += 1
    return GOES_ON


@alongside
def thread_acts(fixed, state, thread):
    """A thread does its next step, begins to wait in it, or looks whether it still has to."""
    if not state.is_running[thread]:
        return WAITS
    row, rank = state.at[thread], fixed.block_rank[fixed.block[thread]]
    if row == fixed.starts[thread + 1]:
        state.is_running[thread] = False
        state.ended[rank] += 1
        state.wakes[0] += 1
        return GOES_ON
    what, begins = fixed.steps[row, 0], state.inside[thread] == 0
    if what in (MEET, BARRIER, WAIT, ACQUIRE, FLUSH):
        if begins:
            _begin_to_wait(fixed, state, thread, row)
        is_over = _may_go_on(fixed, state, thread, row)
    elif what in (SIGNAL, RELEASE, PUSH, PUSH_SIGNAL):
        begins, is_over = False, True
        _tell(state, fixed.steps[row], state.call[rank])
    else:
        begins, is_over = False, _move(state, fixed.steps[row], state.call[rank], thread)
    if is_over:
        state.at[thread] += 1
        state.inside[thread] = 0
    return GOES_ON if is_over or begins else WAITS


@alongside
def _begin_to_wait(fixed, state, thread, row):
    """Do what is done once, and note what is waited for."""
    state.inside[thread] = 1
    what, number, needed = fixed.steps[row, 0], fixed.steps[row, 1], fixed.steps[row, 2]
    if what == MEET:
        block = fixed.block[thread]
        _arrive(state, thread, state.meeting, state.met, block, fixed.block_threads[block])
    elif what == BARRIER:
        _arrive(state, thread, state.arrived, state.left, number, needed)
    elif what == WAIT:
        state.awaited[number] += 1
        state.noted[thread] = state.awaited[number]
    elif what == ACQUIRE:
        state.noted[thread] = state.semaphores[number]
        state.semaphores[number] -= 1
    else:
        state.noted[thread] = state.queued[number]


@alongside
def _arrive(state, thread, arrived, opened, number, needed):
    """Come where this many have to come before it opens."""
    state.noted[thread] = opened[number]
    arrived[number] += 1
    if arrived[number] >= needed:
        arrived[number] = 0
        opened[number] += 1
        state.wakes[0] += 1


@alongside
def _may_go_on(fixed, state, thread, row):
    what, number, noted = fixed.steps[row, 0], fixed.steps[row, 1], state.noted[thread]
    if what == MEET:
        return state.met[fixed.block[thread]] > noted
    if what == BARRIER:
        return state.left[number] > noted
    if what == WAIT:
        return state.counter[number] >= noted
    if what == ACQUIRE:
        return noted > 0 or state.semaphores[number] >= noted
    return state.done[number] >= noted


@alongside
def _tell(state, step, call):
    """Signal, release, or ask a port for something."""
    what, number = step[0], step[1]
    if what == SIGNAL:
        state.counter[number] += 1
    elif what == RELEASE:
        state.semaphores[number] += 1
    else:
        state.queue[number, state.queued[number], 0] = step[2] if what == PUSH else -2 - step[2]
        state.queue[number, state.queued[number], 1] = call
        state.queued[number] += 1
    state.wakes[0] += 1


@alongside
def _move(state, step, call, thread):
    """Read, add or write words; whether they were there, which only packets need not be."""
    what, width = step[0], step[3]
    word = step[1] + step[2] * (call & 1)
    if what in (LOAD, ADD):
        for k in range(width):
            state.held[thread, k] = state.memory[word + k] + (state.held[thread, k] if what == ADD else 0)
    elif what == STORE:
        for k in range(width):
            state.memory[word + k] = state.held[thread, k]
    elif what == STORE_PACKET:
        state.memory[word] = state.held[thread, 0]
        state.memory[word + 1] = call + 1
        state.wakes[0] += 1
    elif state.memory[word + 1] != call + 1:  # the packet of this call is not there yet
        return False
    elif what == LOAD_PACKET:
        state.held[thread, 0] = state.memory[word]
    elif what == ADD_PACKET:
        state.held[thread, 0] += state.memory[word]
    return True

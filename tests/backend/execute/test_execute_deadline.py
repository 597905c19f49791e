"""A time limit is one for the whole call. The clocks here are counters: each look at one takes a second."""

import itertools
import multiprocessing
import re
import threading

import numpy as np
import pytest
from programs import direct_alltoall, ring_allgather, ring_allreduce, scratch_allreduce

from taccl.backend.execute import execute
from taccl.backend.execute.call import DTYPES, OPS
from taccl.backend.execute.deadline import Deadline
from taccl.backend.execute.reference import ReferenceAnswer
from taccl.backend.execute.requested import RunRequested
from taccl.backend.execute.two_sided.call import make_call
from taccl.errors import VerificationError

#: Looks before four processes with 4 MB begin: at 8 MB of memory set to zero, and for each rank at its inputs
#: and at each of the two buffers that are filled.
BEFORE_MOVING = 5 + 3 * 4
#: So small that every program here sends hundreds of them.
MANY_PIECES = {"size_bytes": 2**16, "piece_bytes": 64}


class Ticking:
    """Seconds that pass by looks; `looks` counts them."""

    def __init__(self):
        self.counter = itertools.count()
        self.looks = 0

    def __call__(self):
        self.looks = next(self.counter)
        return float(self.looks)


def missed(program, limit, **call):
    """What is reported at the limit: the whole text, what was being done, pieces sent, pieces planned."""
    with pytest.raises(VerificationError) as reported:
        execute(program, deadline=Deadline(limit, Ticking()), **call)
    found = re.search(r"while ([a-z ]+): (\d+) of (\d+) pieces were sent", reported.value.message)
    assert found, reported.value.message
    assert reported.value.hint == "a smaller --size or a longer --timeout"
    return reported.value.message, found[1], int(found[2]), int(found[3])


@pytest.mark.parametrize("ranks_as", ["threads", "turns"])
def test_it_ends_while_data_is_moved_and_says_how_much_was(ranks_as):
    before = threading.active_count()
    text, doing, sent, planned = missed(ring_allreduce(4), 500, ranks_as=ranks_as, **MANY_PIECES)
    assert doing == "moving data"
    assert 0 < sent < planned
    assert re.match(r"not at an end after 5\d\d\.0 s, over the limit of 500 s", text)
    assert threading.active_count() == before


def test_it_ends_while_processes_move_data_and_leaves_none_of_them():
    _, doing, sent, planned = missed(
        ring_allreduce(4), BEFORE_MOVING + 2, ranks_as="processes", size_bytes=2**22, piece_bytes=64
    )
    assert doing == "moving data"
    assert 0 <= sent < planned
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("ranks_as", ["threads", "turns", "processes"])
def test_it_ends_while_the_inputs_are_made(ranks_as):
    assert missed(ring_allgather(4), 3, ranks_as=ranks_as)[1:3] == ("making the inputs", 0)


@pytest.mark.parametrize(
    "program", [ring_allreduce(4), ring_allgather(4), direct_alltoall(4), scratch_allreduce(4)]
)
@pytest.mark.parametrize("call", [MANY_PIECES, {"size_bytes": 2**16}])
def test_it_ends_while_the_result_is_compared_after_all_pieces_were_sent(program, call):
    clock = Ticking()
    done = execute(program, ranks_as="turns", deadline=Deadline(1e9, clock), **call)
    assert done.verdict == "right"
    _, doing, sent, planned = missed(program, clock.looks - 1, ranks_as="turns", **call)
    assert doing == "comparing the result"
    assert sent == planned == done.pieces


def test_calls_that_share_a_deadline_share_its_time():
    clock = Ticking()
    execute(ring_allgather(4), ranks_as="turns", deadline=Deadline(1e9, clock))
    deadline = Deadline(1.5 * clock.looks, Ticking())
    execute(ring_allgather(4), ranks_as="turns", deadline=deadline)
    with pytest.raises(VerificationError, match="over the limit"):
        execute(ring_allgather(4), ranks_as="turns", deadline=deadline)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_inputs_and_results_are_the_same_however_often_the_clock_is_looked_at(dtype, op, monkeypatch):
    def inputs():
        call = make_call(
            ring_allreduce(4), RunRequested(size_bytes=2**12, dtype=dtype, op=op), in_place=False
        )
        answer = ReferenceAnswer(call, lambda: None)
        return [answer.input_of(rank) for rank in range(4)]

    whole = inputs()
    monkeypatch.setattr("taccl.backend.execute.deadline._BLOCK", 6)
    assert all(np.array_equal(one, other) for one, other in zip(whole, inputs(), strict=True))
    done = execute(ring_allreduce(4), size_bytes=2**12, dtype=dtype, op=op, ranks_as="turns")
    assert (done.verdict, done.checked) == ("right", 4 * 2**12 // np.dtype(dtype).itemsize)

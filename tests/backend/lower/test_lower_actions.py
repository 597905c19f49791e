"""What each rank does, in one order: whole messages, and waits for what is earlier."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from taccl.backend.lower.actions import OPS, RECV, SCRATCH, SEND, buffer_and_offset, check_actions
from taccl.backend.lower.to_actions import RankWork, lower_to_actions
from taccl.backend.target import LoweringOptions
from taccl.errors import VerificationError
from taccl.model.schedule import Schedule
from tests.backend.small_schedules import (
    direct_allgather,
    direct_reducescatter,
    relayed_alltoall,
    ring_allgather,
)


def work(schedule: Schedule, instances: int = 1) -> list[RankWork]:
    return lower_to_actions(schedule, LoweringOptions(instances=instances))


def words(rank: RankWork) -> list[str]:
    return [OPS[code].value for code in rank.actions.op.tolist()]


def waits(rank: RankWork) -> list[list[int]]:
    starts, others = rank.waits
    return [others[a:b].tolist() for a, b in pairwise(starts)]


def test_what_is_sent_on_waits_for_its_receive_and_own_copies_wait_for_nobody() -> None:
    first, *_ = work(ring_allgather(3))
    assert words(first) == ["s", "r", "s", "r", "cpy"]
    assert waits(first) == [[], [], [1], [], []]


def test_both_ends_of_a_message_have_one_number() -> None:
    ranks = work(ring_allgather(3))
    numbers = [
        sorted(n for rank in ranks for n in rank.actions.send[rank.actions.op == code].tolist())
        for code in (SEND, RECV)
    ]
    assert numbers == [list(range(6))] * 2


def test_sums_are_made_of_what_landed_in_scratch() -> None:
    first, *_ = work(direct_reducescatter(3))
    is_sum = np.array(words(first)) == "re"
    assert is_sum.sum() == 2
    assert (np.maximum(first.actions.src, first.actions.dst)[is_sum] >= SCRATCH).all()
    assert all(waits(first)[at] for at in np.flatnonzero(is_sum))


def test_instances_send_parts_of_chunks() -> None:
    once, twice = work(direct_allgather(3)), work(direct_allgather(3), 2)
    assert [len(rank.actions) - 1 for rank in once] == [4] * 3
    assert [words(rank).count("s") for rank in twice] == [4] * 3


def test_actions_in_no_order_and_halves_of_messages_are_refused() -> None:
    first, *others = (rank.actions for rank in work(ring_allgather(3)))
    check_actions([first, *others])
    with pytest.raises(VerificationError, match="what is sent is not what is received"):
        check_actions([replace(first, count=first.count * 2), *others])
    with pytest.raises(VerificationError, match="what is sent is not what is received"):
        check_actions([first.take(np.arange(1, len(first))), *others])
    with pytest.raises(VerificationError, match="actions of rank 0 are in no order"):
        check_actions([first.waiting_for(np.array([[0, 1]])), *others])


def test_both_ends_of_messages_and_copies_are_as_large_as_their_chunks() -> None:
    made = relayed_alltoall(grouped=True)
    sizes = np.arange(1.0, made.problem.num_chunks + 1)
    ranks = work(replace(made, problem=replace(made.problem, sizes=sizes)))
    sent: dict[int, list[float]] = {}
    received: dict[int, list[float]] = {}
    for rank in ranks:
        columns = (rank.actions.op, rank.actions.src, rank.actions.dst, rank.actions.count, rank.actions.send)
        for op, src, dst, count, send in zip(*(column.tolist() for column in columns), strict=True):
            read, written = (sizes_at(rank, cell, count) for cell in (src, dst))
            assert read == written
            if op in (SEND, RECV):
                (sent if op == SEND else received)[send] = read
    assert sent == received
    assert sorted({size for some in sent.values() for size in some}) == sorted(
        float(size) for chunk, size in enumerate(sizes) if chunk // 4 != chunk % 4
    )
    assert all(set(np.diff(starts).tolist()) == {1} for starts in work(made)[0].starts)


def sizes_at(rank: RankWork, cell: int, count: int) -> list[int]:
    (buffer,), (offset,) = buffer_and_offset(np.array([cell]))
    return np.diff(rank.starts[buffer])[offset : offset + count].tolist()

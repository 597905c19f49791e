"""Memory that ranks share: measured, then handed out in one order; connections as rings in it."""

import numpy as np
import pytest
from programs import ring_allreduce

from taccl.backend.execute.job import size_of
from taccl.backend.execute.one_sided.call import make_plan_call
from taccl.backend.execute.one_sided.run import PlanJob
from taccl.backend.execute.requested import RunRequested
from taccl.backend.execute.shared import Region, check_room, local
from taccl.backend.execute.two_sided.call import make_call
from taccl.backend.execute.two_sided.queues import LocalQueues, SharedQueues
from taccl.backend.execute.two_sided.run import TwoSidedJob
from taccl.backend.execute.two_sided.workload import make_workload
from taccl.errors import TacclError
from tests.backend.plans import plan_of

SMALL = RunRequested(size_bytes=2**12)


def jobs() -> list:
    program = ring_allreduce(4)
    call = make_call(program, SMALL, in_place=False)
    plan = plan_of("napkin-relay_3")
    return [TwoSidedJob(program, make_workload(program), call), PlanJob(make_plan_call(plan, SMALL), True)]


@pytest.mark.parametrize("job", jobs(), ids=lambda job: type(job).__name__)
@pytest.mark.parametrize("is_shared", [True, False])
def test_a_region_is_as_large_as_what_is_taken_from_it(job, is_shared: bool) -> None:
    size = size_of(job, is_shared=is_shared)
    region = local(size)
    job.world(region, is_shared=is_shared)
    assert region.taken == size


def test_pieces_of_a_region_do_not_overlap_and_begin_at_whole_words() -> None:
    region = local(48)
    parts = [region.take(3, np.uint8), region.numbers(2), region.take(5, np.float16)]
    for number, part in enumerate(parts):
        part[:] = number
    assert [part.tolist() for part in parts] == [[0] * 3, [1] * 2, [2.0] * 5]
    assert region.taken == 8 + 16 + 16


def test_more_memory_than_the_machine_has_is_refused() -> None:
    with pytest.raises(TacclError, match="the buffers of 4 ranks take") as caught:
        check_room(2**62, 4, "a smaller --size")
    assert caught.value.hint == "a smaller --size"


def queues_of(kind: str) -> LocalQueues | SharedQueues:
    if kind == "local":
        return LocalQueues(2, 2, 3)
    made = SharedQueues(local(4096), 2, 2, 3, 4, "float32")
    made.begin()
    return made


@pytest.mark.parametrize("kind", ["local", "shared"])
def test_a_connection_holds_its_slots_and_gives_pieces_in_order(kind: str) -> None:
    queues = queues_of(kind)
    sent = [np.arange(number, dtype=np.float32) for number in (4, 1, 3)]
    assert not queues.holds_piece(1)
    for piece in sent[:2]:
        queues.put(1, piece)
    assert queues.holds_piece(1) and not queues.has_room(1) and queues.has_room(0)
    assert np.array_equal(queues.take(1), sent[0])
    queues.put(1, sent[2])
    assert queues.left_over() == [(1, 2)]
    assert [queues.take(1).tolist() for _ in range(2)] == [[0.0], [0.0, 1.0, 2.0]]
    assert queues.left_over() == []


@pytest.mark.parametrize("kind", ["local", "shared"])
def test_a_thread_block_has_published_nothing_until_it_does(kind: str) -> None:
    queues = queues_of(kind)
    assert queues.published(2) == -1
    queues.publish(2, 7)
    assert (queues.published(2), queues.published(1)) == (7, -1)


def test_a_region_without_memory_only_counts() -> None:
    region = Region()
    assert region.take(2**40, np.uint8).shape == (2**40,)
    assert region.taken == 2**40

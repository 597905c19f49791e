import pytest
from programs import edit, ring_allreduce, scratch_allreduce
from small_schedules import program_of, ring_allgather

from taccl.backend.show import describe_program, describe_schedule
from taccl.backend.simulate import simulate_program
from taccl.errors import TacclError
from taccl.model.schedule import SavedSchedule


def test_a_schedule_is_its_summary_and_its_sends_in_the_order_of_time() -> None:
    lines = list(describe_schedule(SavedSchedule(ring_allgather(3), 4.0, "a reason")))
    text = "\n".join(lines)
    for words in (
        "allgather, 3 ranks",
        "4.00 us for this chunk count  (a reason)",
        "gap          0.00%",
        "6 in 6 sends",
    ):
        assert words in text
    table = lines[lines.index("") + 1 :]
    assert table[0].split() == ["START", "us", "END", "us", "LINK", "CHUNKS"]
    assert [row.split()[:5] for row in table[1:]] == [
        ["0.00", "2.00", "0", "->", "1"],
        ["0.00", "2.00", "1", "->", "2"],
        ["0.00", "2.00", "2", "->", "0"],
        ["2.00", "4.00", "0", "->", "1"],
        ["2.00", "4.00", "1", "->", "2"],
        ["2.00", "4.00", "2", "->", "0"],
    ]


def test_a_time_without_a_bound_says_so() -> None:
    text = "\n".join(describe_schedule(SavedSchedule(ring_allgather(3))))
    assert "none proven" in text
    assert "gap          unknown" in text


def test_one_rank_of_a_schedule_is_what_it_sends_and_receives() -> None:
    lines = list(describe_schedule(SavedSchedule(ring_allgather(4)), rank=2))
    rows = lines[lines.index("") + 2 :]
    assert len(rows) == 6
    assert all("2 -> 3" in row or "1 -> 2" in row for row in rows)


def test_a_program_is_its_ranks_thread_blocks_and_steps() -> None:
    text = "\n".join(describe_program(ring_allreduce(3)))
    for words in (
        "rank 0: 1 thread block; chunks: input 3, output 3, scratch 0",
        "thread block 0, channel 0: sends to 1, receives from 2",
        "send i[0] to 1",
        "receive from 2, add i[2], send it to 1",
        "receive from 2, add i[1], into i[1], send it to 1",
        "receive i[0] from 2, send it to 1",
        "the sum of chunk 1 over 3 ranks",
    ):
        assert words in text


def test_waits_and_additions_are_told() -> None:
    text = "\n".join(describe_program(scratch_allreduce(3)))
    assert "wait" in text
    assert "after block 1 step 1" in text
    assert "add s[0] to i[0]" in text


def test_one_rank_of_a_program() -> None:
    ranks = [line for line in describe_program(ring_allreduce(3), rank=1) if line.startswith("rank ")]
    assert ranks == ["rank 1: 1 thread block; chunks: input 3, output 3, scratch 0"]


def test_a_simulation_adds_when_each_step_runs() -> None:
    schedule = ring_allgather(3)
    program = program_of(schedule)
    simulation = simulate_program(program, schedule.problem.topology, 1.0)
    text = "\n".join(describe_program(program, simulation=simulation, facts=[("time", "4.00 us")]))
    assert "time         4.00 us" in text
    assert "0.00 .. 2.00 us" in text
    assert "2.00 .. 4.00 us" in text


def test_a_step_that_can_never_run_is_marked() -> None:
    text = "\n".join(describe_program(edit(ring_allreduce(3), 0, 0, 0, depends=(7, 0))))
    assert "can never run (marked !)" in text
    assert "!   0  send i[0] to 1" in text


@pytest.mark.parametrize("rank", [-1, 3])
def test_a_rank_that_is_not_there_is_an_error(rank: int) -> None:
    with pytest.raises(TacclError, match=f"there is no rank {rank}"):
        list(describe_program(ring_allreduce(3), rank))
    with pytest.raises(TacclError, match="--rank from 0 to 2"):
        list(describe_schedule(SavedSchedule(ring_allgather(3)), rank))

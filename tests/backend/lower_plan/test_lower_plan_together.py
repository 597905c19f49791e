"""Puts to one peer that are one operation, where nobody hears of them later than it goes on anyway."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl.backend.lower_plan import lower_to_plan, translate
from taccl.backend.lower_plan.fits import checked_window
from taccl.backend.plan import ExecutionPlan, OpName
from taccl.backend.program import Program
from taccl.backend.target import LoweringOptions
from taccl.model.collectives import make_collective
from taccl.model.schedule import Schedule
from tests.backend.lowered_plans import assert_right, assert_runs_right, names
from tests.backend.programs import block, program, step
from tests.backend.small_schedules import Row, by_hand, on_nodes


def two_ranks(
    sends: list[object], receives: list[object], chunks: int = 3, wanted: int = -1
) -> ExecutionPlan:
    """Rank 0 sends to rank 1, of which another thread block waits for one of the receives."""
    copies = [step("cpy", f"i{k}", f"o{k}") for k in range(chunks)]
    made = program(
        "broadcast",
        chunks,
        (block(0, 1, -1, *sends), block(1, -1, -1, *copies)),
        (block(0, -1, 0, *receives), block(1, -1, -1, step("nop", wait=(0, range(len(receives))[wanted])))),
        scratch=2,
    )
    return checked_window(translate(made))


def puts(plan: ExecutionPlan, rank: int = 0) -> list[int]:
    """How many ranges each put of a rank moves."""
    return [
        len(each.targets)
        for block in plan.ranks[rank].blocks
        for each in block.operations
        if each.name is OpName.PUT
    ]


def test_what_is_sent_one_after_another_is_one_put_with_one_signal() -> None:
    plan = two_ranks([step("s", f"i{k}") for k in (0, 2)], [step("r", f"o{k}") for k in (0, 2)], 3)
    assert names(plan)[0] == ["rlxwait", "nop", "put", "nop", "signal"]
    assert names(plan, 1)[0] == ["rlxsignal", "wait", "sem_release"]
    assert puts(plan) == [2]


def test_a_put_has_no_more_ranges_than_any_release_takes() -> None:
    many = range(19)
    plan = two_ranks([step("s", f"i{k}") for k in many], [step("r", f"o{k}") for k in many], 19)
    assert_right(plan)
    assert puts(plan) == [8, 8, 3]


@pytest.mark.parametrize(
    ("sends", "receives"),
    [
        ([step("s", "i0"), step("s", "i1")], [step("r", "o0"), step("cpy", "o0", "s0"), step("r", "o1")]),
        ([step("s", "i0"), step("cpy", "i2", "s0"), step("s", "i1")], [step("r", "o0"), step("r", "o1")]),
        ([step("s", "i0", count=2), step("s", "i2")], [step("r", "o0", count=2), step("r", "o2")]),
    ],
    ids=["used before", "work between", "other length"],
)
def test_what_somebody_may_want_sooner_is_put_by_itself(sends: list[object], receives: list[object]) -> None:
    assert puts(two_ranks(sends, receives)) == [1, 1]


def test_what_another_thread_block_waits_for_is_put_by_itself() -> None:
    sends, receives = ([step(op, f"{at}{k}") for k in range(3)] for op, at in (("s", "i"), ("r", "o")))
    assert [puts(two_ranks(sends, receives, wanted=which)) for which in range(3)] == [[1, 2], [2, 1], [3]]


def test_through_ports_each_range_is_put_by_itself() -> None:
    sends, receives = ([step(op, f"{at}{k}") for k in range(2)] for op, at in (("s", "i"), ("r", "o")))
    copies = [step("cpy", f"i{k}", f"o{k}") for k in range(2)]
    made: Program = program(
        "broadcast", 2, (block(0, 1, -1, *sends, *copies),), (block(0, -1, 0, *receives),)
    )
    words = names(translate(made, [0, 1]))[0]
    assert [word for word in words if word.startswith("pws")] == ["pws", "pwsf"]


@st.composite
def exchanges(draw: st.DrawFn) -> Schedule:
    """Every part goes to everybody, straight or by way of a third rank, in any order."""
    ranks, pieces = draw(st.integers(2, 4)), draw(st.integers(1, 4))
    routes: list[list[tuple[int, int, int]]] = []
    for part in range(ranks * pieces):
        owner = part // pieces
        order = [owner, *draw(st.permutations([rank for rank in range(ranks) if rank != owner]))]
        straight = draw(st.booleans())
        routes.append([(owner if straight else order[k], order[k + 1], part) for k in range(ranks - 1)])
    rows: list[Row] = []
    if draw(st.booleans()):
        routes = [[hop for route in routes for hop in route[:1]], *[route[1:] for route in routes]]
    for route in routes:
        for src, dst, part in route:
            rows.append((2.0 * len(rows), src, dst, (part,), False))
    schedule = by_hand(make_collective("allgather", ranks, pieces), rows)
    return on_nodes(schedule, *draw(st.lists(st.integers(0, 1), min_size=ranks, max_size=ranks)))


@settings(max_examples=5, deadline=None)
@given(schedule=exchanges(), instances=st.integers(1, 2), seed=st.integers(0, 9))
def test_puts_of_any_exchange_are_right(schedule: Schedule, instances: int, seed: int) -> None:
    plan = lower_to_plan(schedule, LoweringOptions(instances=instances))
    assert_runs_right(plan, seed)

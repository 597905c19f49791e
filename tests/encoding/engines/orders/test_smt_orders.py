"""Orders of given sends, held against every order there is, and against job shops whose optimum is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import z3
from hypothesis import HealthCheck, assume, given, settings
from registered import greedy
from registered import orders as smt
from small_problems import custom, full, machine, problem, random_schedules, ring, two_nodes

from taccl.encoding.core.ask import ask
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.timing import Decision, decisions_of, in_order, list_schedule, predecessors
from taccl.encoding.engines.orders import orders, prove
from taccl.encoding.engines.orders.orders import OpenOrder, Windows, difference_logic, open_order, windows
from taccl.encoding.engines.orders.prove import order_within
from taccl.encoding.symmetry.group import symmetry_group
from taccl.errors import SolverError
from taccl.model.collectives import COLLECTIVES
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget

#: Fisher and Thompson 1963, 6 jobs on 6 machines: (machine, duration) of each step. The optimum is 55.
_FT06 = (
    ((2, 1), (0, 3), (1, 6), (3, 7), (5, 3), (4, 6)),
    ((1, 8), (2, 5), (4, 10), (5, 10), (0, 10), (3, 4)),
    ((2, 5), (3, 4), (5, 8), (0, 9), (1, 1), (4, 7)),
    ((1, 5), (0, 5), (2, 5), (3, 3), (4, 8), (5, 9)),
    ((2, 9), (1, 3), (4, 5), (5, 4), (0, 3), (3, 1)),
    ((1, 3), (3, 3), (5, 9), (0, 10), (4, 4), (2, 1)),
)


def job_shop(jobs: Sequence[Sequence[tuple[int, int]]]) -> Schedule:
    """Each job a chunk on a way of its own, whose links use the ports that are the machines."""
    steps = len(jobs[0])
    links, users, decisions = [], [[] for _ in range(steps)], []
    for job, steps_of_job in enumerate(jobs):
        for step, (port, duration) in enumerate(steps_of_job):
            rank = job * (steps + 1) + step
            users[port].append(len(links))
            decisions.append(Decision((job,), len(links)))
            links.append((rank, rank + 1, float(duration), 0.0))
    ends = [([job * (steps + 1)], [job * (steps + 1) + steps], False) for job in range(len(jobs))]
    shop = Problem(
        machine(len(jobs) * (steps + 1), links, shared=users), custom(len(jobs) * (steps + 1), ends), 1.0
    )
    return in_order(shop, decisions)


def heard(schedule: Schedule, seconds: float = 20.0) -> tuple[Schedule, str]:
    """The best schedule, each checked, and the last note."""
    best, note = schedule, ""
    for update in smt(schedule.problem, SearchOptions(), Budget.of_work(round(1000 * seconds)), schedule):
        if update.schedule is not None:
            update.schedule.check()
            assert update.schedule.makespan_us < best.makespan_us - TOLERANCE_US
            best, note = update.schedule, ""
        note = update.note or note
    return best, note


def every_order(schedule: Schedule) -> Iterator[Schedule]:
    """All orders of the sends in which nothing leaves before it has come."""
    decisions = decisions_of(schedule)
    before = [set(waits) for waits in predecessors(schedule.problem, decisions)]

    def extended(order: list[int]) -> Iterator[list[int]]:
        if len(order) == len(decisions):
            yield order
        for index in range(len(decisions)):
            if index not in order and before[index] <= set(order):
                yield from extended([*order, index])

    for order in extended([]):
        yield in_order(schedule.problem, [decisions[index] for index in order])


def opened(schedule: Schedule) -> OpenOrder:
    order = open_order(schedule, symmetry_group(schedule.problem))
    assert order is not None
    return order


def test_the_optimum_of_a_job_shop_is_found_and_proved() -> None:
    best, note = heard(job_shop(_FT06))
    assert best.makespan_us == 55.0
    assert note.startswith("no order of these routes and groups is faster (proved with ")


def test_a_job_shop_is_satisfiable_at_its_optimum_and_not_below() -> None:
    order = opened(job_shop(_FT06))
    assert order.tick_us == 1.0
    assert order_within(order, 55, Budget.of_work(20_000))[0] is not None
    assert order_within(order, 54, Budget.of_work(20_000)) == (None, True)


@pytest.mark.parametrize("occupancy", ["serial", "pipelined"])
def test_on_a_small_ring_the_best_of_all_orders_is_found(occupancy) -> None:
    """Two pieces from rank 0 and one from each other go round, in an order that wastes time."""
    ends = [([0], [1, 2], False), ([0], [1], False), ([1], [2, 0], False), ([2], [0, 1], False)]
    some = Problem(ring(3, alpha_us=1.0, beta=2.0, occupancy=occupancy), custom(3, ends), 1.0)
    routes = [(1, 0), (0, 0), (0, 1), (2, 1), (2, 2), (3, 2), (3, 0)]
    schedule = in_order(some, [Decision((chunk,), link) for chunk, link in routes])
    fastest = min(each.makespan_us for each in every_order(schedule))
    best, note = heard(schedule)
    assert best.makespan_us == pytest.approx(fastest)
    assert best.makespan_us < schedule.makespan_us
    assert note


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(random_schedules(COLLECTIVES))
def test_what_is_proved_is_what_all_orders_show(schedule: Schedule) -> None:
    assume(len(schedule.sends) <= 6)
    fastest = min(each.makespan_us for each in every_order(schedule))
    best, note = heard(schedule)
    assert best.makespan_us == pytest.approx(fastest, abs=2 * TOLERANCE_US)
    assert note


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(random_schedules(COLLECTIVES))
def test_a_proof_agrees_with_a_search_that_does_not_prune(schedule: Schedule) -> None:
    """Without heads, tails and ports, z3 alone says the same: in time just so, and no faster."""
    assume(0 < len(schedule.sends) <= 14)
    order = opened(schedule)
    best, note = heard(schedule)
    assert note
    assert plain(order, order.limit_below(best.makespan_us)) == z3.unsat
    assert plain(order, order.limit_below(best.makespan_us + 2 * TOLERANCE_US)) == z3.sat


def plain(order: OpenOrder, limit: int) -> z3.CheckSatResult:
    """The answer with the rules alone."""
    solver, starts = z3.SolverFor("QF_IDL"), z3.IntVector("s", len(order.duration))
    solver.set("rlimit", 50_000_000)  # tens of seconds, where these take milliseconds
    for start, duration in zip(starts, order.duration.tolist(), strict=True):
        solver.add(start >= 0, start + duration <= limit)
    for (i, j), lag in zip(order.after.tolist(), order.lag.tolist(), strict=True):
        solver.add(starts[j] >= starts[i] + lag)
    for (i, j), (by, back) in zip(order.clashes.tolist(), order.gaps.tolist(), strict=True):
        solver.add(z3.Or(starts[j] >= starts[i] + by, starts[i] >= starts[j] + back))
    return solver.check()


def test_what_a_symmetry_makes_equal_is_one_variable_and_stays_equal() -> None:
    """Each of four ranks sends its neighbour's chunk on before its own: round a ring, that is late."""
    turned = problem(ring(4, both=True), "allgather", 2, symmetry=[[1, 2, 3, 0]])
    late = [Decision((chunk,), (chunk // 2 + hop) % 4) for chunk in range(8) for hop in range(3)]
    schedule = list_schedule(turned, late, [float(d.chunks[0] % 2 == 0) for d in late])
    order = opened(schedule)
    assert order.is_symmetric
    assert len(order.duration) == 6
    best, note = heard(schedule)
    starts = {(c, l): start for c, l, start in zip(best.chunk, best.link, best.start_us, strict=True)}
    assert all(starts[c, l] == starts[(c + 2) % 8, (l + 1) % 4] for c, l in starts)
    assert note


@pytest.mark.parametrize("name", ["allgather", "alltoall"])
@pytest.mark.parametrize("pieces", [1, 2])
def test_what_a_limit_implies_is_the_same_with_the_symmetry_and_without(name, pieces) -> None:
    """That is why a proof by heads, tails and ports alone is about every order."""
    turned = problem(ring(4, both=True), name, pieces, symmetry=[[1, 2, 3, 0]])
    schedule = some_schedule(turned)
    folded, plainly = opened(schedule), opened(replace(schedule, problem=replace(turned, symmetry=())))
    assert (folded.is_symmetric, plainly.is_symmetric) == (True, False)
    assert folded.tick_us == plainly.tick_us
    for limit in range(1, 2 * folded.limit_below(schedule.makespan_us)):
        one, other = windows(folded, limit), windows(plainly, limit)
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert (one.head[folded.variable] == other.head).all()
            assert (one.tail[folded.variable] == other.tail).all()


def test_a_schedule_without_the_symmetry_is_taken_send_by_send() -> None:
    turned = problem(full(3), "alltoall", symmetry=[[1, 2, 0]])
    sends = [Decision((chunk,), link) for chunk, link in direct(turned)]
    schedule = in_order(turned, sends)
    assert opened(schedule).is_symmetric
    starts = schedule.start_us.copy()
    late = replace(
        schedule, start_us=starts + np.arange(len(starts)), end_us=schedule.end_us + np.arange(len(starts))
    )
    assert not opened(late).is_symmetric


def direct(small: Problem) -> Iterator[tuple[int, int]]:
    """Each chunk of an AlltoAll with the link from its source to who wants it."""
    index, collective = small.topology.link_index, small.collective
    for chunk in range(small.num_chunks):
        ends = int(collective.pre[chunk].argmax()), int(collective.post[chunk].argmax())
        if ends in index:
            yield chunk, index[ends]


def test_own_chunks_still_leave_first() -> None:
    """Rank 1's chunk goes first over 1 -> 2, though chunk 0 has farther to go: that takes 4 us more."""
    line = machine(4, [(0, 1, 0.0, 1.0), (1, 2, 0.0, 5.0), (2, 3, 0.0, 9.0)])
    own = np.array([False, True, False])
    first = custom(4, [([0], [3], False), ([1], [2], False)])
    sends = [Decision((1,), 1), Decision((0,), 0), Decision((0,), 1), Decision((0,), 2)]
    freely = Problem(line, first, 1.0)
    bound = replace(freely, limits=RoutingLimits(own_first=own))
    assert heard(in_order(freely, sends))[0].makespan_us == 15.0
    best, note = heard(in_order(bound, sends))
    assert best.makespan_us == 19.0
    assert note


def test_ticks_are_as_coarse_as_the_costs_allow() -> None:
    decimal = problem(ring(3, alpha_us=0.7, beta=8.0), "allgather", chunk_mb=0.5)
    assert opened(some_schedule(decimal)).tick_us == pytest.approx(4.7)
    fitted = problem(two_nodes(beta_between=193 / 184), "allgather")
    assert opened(some_schedule(fitted)).tick_us == pytest.approx(1 / 184)
    measured = problem(two_nodes(beta_between=np.pi), "allgather")
    order = opened(some_schedule(measured))
    assert order.tick_us < TOLERANCE_US / len(order.decisions)
    assert heard(some_schedule(measured))[1]


def some_schedule(small: Problem) -> Schedule:
    schedule = next(greedy(small, SearchOptions(), Budget(0.0), None)).schedule
    assert schedule is not None
    return schedule


def test_without_time_nothing_is_said() -> None:
    shop = job_shop(_FT06)
    assert heard(shop, 0.0) == (shop, "")


def test_more_pairs_than_z3_can_read_in_time_are_not_given_to_it(monkeypatch) -> None:
    shop = job_shop(_FT06)
    monkeypatch.setattr(prove, "_MOST_OPEN", 10)
    assert order_within(opened(shop), 100, Budget.of_work(20_000)) == (None, False)
    assert heard(shop) == (shop, "")


def test_what_needs_no_solver_is_proved_for_all_orders_at_once() -> None:
    """Round a ring all ports are full from 0 to the end: the room on them is enough of a proof."""
    turned = problem(ring(4), "allgather", 2, symmetry=[[1, 2, 3, 0]])
    schedule = some_schedule(turned)
    order = opened(schedule)
    assert order.is_symmetric
    assert windows(order, order.limit_below(schedule.makespan_us)) is None
    assert "symmetry" not in heard(schedule)[1]


def test_too_many_sends_on_a_port_are_left_alone(monkeypatch) -> None:
    monkeypatch.setattr(orders, "_MOST_CLASHES", 10)
    shop = job_shop(_FT06)
    assert open_order(shop, symmetry_group(shop.problem)) is None
    assert heard(shop) == (shop, "")


def test_ctrl_c_inside_the_solver_is_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt):
        ask(StandIn("interrupted from keyboard"), Budget(1.0))
    assert ask(StandIn("timeout"), Budget(1.0)) == z3.unknown


def test_the_same_work_gives_the_same_answer_whatever_z3_was_asked_before() -> None:
    """It counts its own steps. A job shop in 54 of its 55 us takes some; too few leave it open."""
    shop = job_shop(_FT06)
    order = opened(shop)
    spent = []
    for _ in range(2):
        budget = Budget.of_work(100_000)
        assert order_within(order, 54, budget) == (None, True)
        spent.append(budget.remaining_s())
    assert spent[0] == spent[1] < 100.0
    solver: z3.Solver = z3.SolverFor("QF_IDL", ctx=z3.Context())
    solver.from_string(
        difference_logic(order, 54, Windows(order.duration * 0, order.duration, order.gaps[:, 0] * 0))
    )
    few = Budget.of_work(20)
    assert ask(solver, few) == z3.unknown
    assert few.remaining_s() == 0.0


def test_a_fault_of_the_solver_is_named() -> None:
    with pytest.raises(SolverError, match="z3 failed: out of memory"):
        ask(StandIn(None), Budget(1.0))


class StandIn:
    """Answers as z3 does when it gives up; breaks down where there is no reason."""

    def __init__(self, reason: str | None) -> None:
        self.reason = reason

    def set(self, name: str, value: int) -> None:
        assert name == "timeout"
        assert 0 < value <= 1000

    def check(self) -> z3.CheckSatResult:
        if self.reason is None:
            raise z3.Z3Exception("out of memory")
        return z3.unknown

    def reason_unknown(self) -> str | None:
        return self.reason

"""For how long each engine runs: equal turns, then twice as long for the half that improved last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from small_problems import problem, ring

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Role, Run, Verdict, no
from taccl.encoding.engines.registry import engine_named
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.journal import Journal
from taccl.encoding.portfolio.rounds import Rounds
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget

#: A second of nominal time is this many units of work.
UNITS = 1000


@dataclass
class Worker:
    """Spends its turn to the end, or `spends` seconds of it; notes how long each turn was."""

    name: str
    improves: bool = False
    spends: float = 1e9
    role: Role = "improve"
    serves: Verdict = YES
    weight: int = 1
    runs_always: bool = False
    turns_s: list[float] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)

    def takes_to_know_s(self, _: Instance) -> float:
        return 0.0

    def verdict(self, _: Instance) -> Verdict:
        return self.serves

    @property
    def run(self) -> Run:
        return self._run

    def _run(
        self, _: Instance, options: SearchOptions, budget: Budget, best: Schedule | None
    ) -> Iterator[Update]:
        turn_s = budget.remaining_s()
        self.turns_s.append(turn_s)
        self.seeds.append(options.seed)
        budget.spend(min(turn_s, self.spends) * UNITS)
        if self.improves and best is not None:
            yield Update(self.name, faster(best))


PROBLEM = problem(ring(3), "allgather")
#: How long the best schedule waits before it begins; each improvement takes one of these microseconds away.
WAITS_US = 1000.0


def delayed(by_us: float) -> Schedule:
    """An AllGather round a ring of three that waits before it begins."""
    first = next(engine_named("greedy").run(Instance(PROBLEM), SearchOptions(), Budget(0.0), None)).schedule
    assert first is not None
    waiting = replace(first, start_us=first.start_us + by_us, end_us=first.end_us + by_us)
    waiting.check()
    return waiting


def faster(schedule: Schedule) -> Schedule:
    return replace(schedule, start_us=schedule.start_us - 1.0, end_us=schedule.end_us - 1.0)


def rounds_of(*workers: Worker) -> Rounds:
    return begun(Rounds(Instance(PROBLEM), workers, Journal(), delayed(WAITS_US)))


def begun(rounds: Rounds) -> Rounds:
    rounds.begin(Budget.of_work(UNITS))
    return rounds


def play(rounds: Rounds, seconds: float, number: int) -> None:
    """This many rounds of this many nominal seconds each."""
    budget = Budget.of_work(UNITS * 3600)
    for _ in range(number):
        for _update in rounds.round(SearchOptions(), budget.at_most(seconds)):
            pass


def test_all_have_turns_of_the_same_length() -> None:
    workers = [Worker(name) for name in "abc"]
    play(rounds_of(*workers), 30.0, 1)
    assert [each.turns_s for each in workers] == [[pytest.approx(10.0, rel=0.01)]] * 3


def test_the_half_that_improved_last_has_the_next_round_until_one_is_left_and_then_all_begin_again() -> None:
    a, b, c, d = Worker("a", improves=True), Worker("b"), Worker("c", improves=True), Worker("d")
    rounds = rounds_of(a, b, c, d)
    play(rounds, 4.0, 4)
    assert [len(each.turns_s) for each in (a, b, c, d)] == [3, 2, 4, 2]
    assert c.turns_s == [pytest.approx(seconds, rel=0.02) for seconds in (1.0, 2.0, 4.0, 1.0)]


def test_time_that_one_leaves_goes_to_those_after_it() -> None:
    quick, patient = Worker("quick", spends=0.5), Worker("patient")
    play(rounds_of(quick, patient), 10.0, 1)
    assert patient.turns_s == [pytest.approx(9.5, rel=0.01)]


def test_who_stands_for_several_engines_has_as_much_time() -> None:
    one, many = Worker("one"), Worker("many", weight=4)
    play(rounds_of(one, many), 10.0, 1)
    assert many.turns_s == [pytest.approx(8.0, rel=0.01)]


def test_a_builder_has_one_turn() -> None:
    builder, other = Worker("builder", role="first", improves=True), Worker("other")
    play(rounds_of(builder, other), 4.0, 3)
    assert (len(builder.turns_s), len(other.turns_s)) == (1, 3)


def test_who_ended_by_itself_waits_until_another_improves() -> None:
    done, busy = Worker("done", spends=0.1), Worker("busy")
    rounds = rounds_of(done, busy)
    play(rounds, 4.0, 3)
    assert (len(done.turns_s), len(busy.turns_s)) == (1, 3)
    rounds.takes(faster(delayed(WAITS_US)))
    play(rounds, 4.0, 2)
    assert len(done.turns_s) == 2


def test_where_all_wait_those_who_improve_try_again_with_other_seeds_and_provers_are_done() -> None:
    local, prover = Worker("local", spends=0.1), Worker("prover", spends=0.1, role="prove")
    rounds = rounds_of(local, prover)
    play(rounds, 4.0, 3)
    assert (len(local.turns_s), len(prover.turns_s)) == (3, 1)
    assert len(set(local.seeds)) == 3


def test_nobody_is_left_where_only_builders_and_provers_serve() -> None:
    rounds = rounds_of(Worker("a", spends=0.1, role="first"), Worker("b", spends=0.1, role="prove"))
    play(rounds, 4.0, 1)
    assert rounds.weight == 0


def test_who_does_not_serve_is_asked_once() -> None:
    other, serving = Worker("other", serves=no("it is too large")), Worker("serving")
    play(rounds_of(other, serving), 4.0, 2)
    assert (len(other.turns_s), len(serving.turns_s)) == (0, 2)


def test_without_time_only_those_run_that_always_run() -> None:
    surely, other = Worker("surely", runs_always=True), Worker("other")
    play(rounds_of(surely, other), 0.0, 1)
    assert (len(surely.turns_s), len(other.turns_s)) == (1, 0)


def test_a_round_is_as_long_as_each_until_one_is_left() -> None:
    rounds, budget = rounds_of(*(Worker(name) for name in "abcd")), Budget.of_work(UNITS * 30)
    assert rounds.part_of_round(budget, 0.0).remaining_s() == pytest.approx(10.0, rel=0.01)


def test_where_turns_would_be_too_short_there_are_fewer_rounds() -> None:
    rounds, budget = rounds_of(*(Worker(name) for name in "abcd")), Budget.of_work(UNITS * 30)
    assert rounds.part_of_round(budget, 5.0).remaining_s() == pytest.approx(30.0, rel=0.01)


def test_a_schedule_at_the_bound_ends_the_round() -> None:
    first, second = Worker("first", improves=True), Worker("second")
    instance = Instance(PROBLEM)
    best = delayed(0.5)
    instance.proves(best.makespan_us - 1.0)
    rounds = begun(Rounds(instance, (first, second), Journal(), best))
    play(rounds, 4.0, 1)
    assert (len(first.turns_s), len(second.turns_s)) == (1, 0)

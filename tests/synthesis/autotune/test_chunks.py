import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from taccl import bounds, synthesize
from taccl.api import Formulated, make_problem
from taccl.encoding.bounds import NOTHING
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import Engine, everything
from taccl.encoding.engines.textbook.engine import built
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.journal import EngineRun
from taccl.encoding.portfolio.solve import solve as real_solve
from taccl.errors import CollectiveError, NoScheduleInTime, SolverError, TacclError
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.model.units import MB
from taccl.support.budget import Budget
from taccl.synthesis.autotune.chunk_counts import Proved, candidates, worth_trying
from taccl.synthesis.autotune.chunks import choose_chunks
from taccl.synthesis.autotune.seeds import found_across, numbers_across, part_across
from taccl.synthesis.autotune.trials import Choice, Trial, merged, worth_longer
from taccl.synthesis.search import STOP, Answer, Progress

#: Work and no seconds, so that no clock decides what a test sees.
QUICK = SearchOptions(engine="greedy", gap=0.05, effort=60_000)
RING = {"topology": "ring-oneway:3"}


def formulated(number: int, size: int = 48 * MB, collective: str = "broadcast") -> Formulated:
    return make_problem(collective, size=size, chunks=number, **RING)


def hub_of_seven(number: int) -> Formulated:
    """One chunk takes 3.6 us, and two 3.5."""
    return make_problem("broadcast", size=64 * 1024, chunks=number, topology="hub:7", root=1)


def chosen(**change: object) -> Choice:
    return choose_chunks(formulated, replace(QUICK, **change))


@pytest.fixture
def first_schedules_only(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Searches end with the first schedule; the numbers of chunks that were searched."""
    searched: list[int] = []

    def solve(instance: Instance, options: SearchOptions, *rest: object) -> Iterator[Update]:
        searched.append(instance.problem.collective.chunks_per_rank)
        yield next(real_solve(instance, options))

    monkeypatch.setattr("taccl.synthesis.search.solve", solve)
    return searched


def test_numbers_are_tried_that_cut_the_size_into_equal_chunks_of_some_size() -> None:
    assert candidates(formulated(1, size=96 * 1024).problem)[:8] == [1, 2, 3, 4, 6, 8, 12, 16]
    assert candidates(formulated(1, size=10 * 1025).problem) == [1, 2, 5, 10]
    assert candidates(formulated(1, size=5).problem) == [1]
    assert candidates(formulated(1, size=4096).problem) == [1, 2, 4]
    assert candidates(formulated(1, size=96 * 1024).problem, 16 * 1024) == [1, 2, 3, 6]
    assert candidates(formulated(1, size=2**30, collective="broadcast").problem)[-1] <= 1024


def test_numbers_for_alltoall_cut_the_part_of_each_pair() -> None:
    for number in candidates(formulated(1, size=9 * 4096, collective="alltoall").problem):
        assert formulated(number, size=9 * 4096, collective="alltoall").problem.size_bytes == 9 * 4096


def test_numbers_for_unequal_parts_cut_each_into_whole_bytes_and_the_largest_counts() -> None:
    def numbers(*sizes: int) -> list[int]:
        table = np.zeros((3, 3), dtype=np.int64)
        table[0, 1], table[1, 2], table[2, 0] = sizes
        return candidates(make_problem("alltoall", sizes=table, **RING).problem)

    assert numbers(4 * MB, 12, 8) == [1, 2, 4]
    assert numbers(4 * MB, 12 * 1024, 8 * 1024)[-1] == 1024
    assert numbers(2048, 1024, 24) == [1, 2]
    assert numbers(4 * MB, 7, 8) == [1]


def test_a_large_broadcast_in_a_line_is_cut_finely(first_schedules_only: list[int]) -> None:
    choice = chosen()
    assert choice.formulated.problem.collective.chunks_per_rank > 1
    assert choice.formulated.problem.size_bytes == 48 * MB
    assert choice.found.schedule.problem is choice.formulated.problem
    assert choice.found.schedule.makespan_us == min(tried.time_us for tried in choice.tried)


@pytest.mark.parametrize("collective", ["allgather", "alltoall"])
def test_cutting_finer_never_makes_it_slower(collective: str) -> None:
    """What is found for one number of chunks is where the search for its multiples begins."""
    choice = choose_chunks(
        lambda number: make_problem(collective, size=192 * 1024, chunks=number, topology="ring:4"),
        replace(QUICK, gap=0.0, effort=2000),
    )
    assert len(choice.tried) > 2
    for finer, coarser in itertools.permutations(choice.tried, 2):
        if finer.chunks % coarser.chunks == 0 and 16 * finer.chunks <= 71:  # so that no group has to be split
            assert finer.time_us <= coarser.time_us + 1e-6


def test_each_time_stands_with_the_bound_for_its_number(first_schedules_only: list[int]) -> None:
    choice = chosen()
    for tried in choice.tried:
        largest = bounds("broadcast", size=48 * MB, chunks=tried.chunks, **RING)[0]
        assert tried.lower_bound_us <= largest.value_us
        assert choice.found.any_chunks.value_us <= tried.time_us
    assert [tried.remark for tried in choice.tried].count("chosen") == 1


def test_what_is_proved_for_any_number_counts_whichever_it_was_proved_next_to(
    first_schedules_only: list[int],
) -> None:
    """A search that finds nothing better may know more, or one of another number."""
    choice = chosen()
    time_us = choice.found.schedule.makespan_us
    proofs = (replace(NOTHING, value_us=part * time_us) for part in (0, 0.3, 0.4, 1.1))
    nothing, low, high, false = (replace(choice.found, any_chunks=proof) for proof in proofs)
    first, *others = (Trial(1, choice.formulated, found, 1.0) for found in (nothing, high, false))
    first.learn(low)
    assert first.found.any_chunks is low.any_chunks
    first.learn(nothing)
    assert first.found.any_chunks is low.any_chunks
    proved = Proved(Instance(choice.formulated.problem), Budget.of_work(0), lambda name, fault: None)
    assert proved.with_those_of([first, *others], time_us) is high.any_chunks


@pytest.mark.parametrize(
    ("times_us", "searched_longer"),
    [
        ({1: 10.0, 2: 9.95, 4: 9.95}, [1]),  # the same schedule, cut finer
        ({1: 10.0, 2: 9.8, 4: 9.79}, [2, 1]),
        ({1: 10.0, 2: 12.0, 4: 9.0}, [4, 1]),
        ({2: 9.0, 4: 10.0, 8: 8.0}, [8, 2]),
    ],
)
def test_a_number_that_is_hardly_faster_than_a_coarser_one_is_not_searched_longer(
    times_us: dict[int, float], searched_longer: list[int]
) -> None:
    def found(time_us: float) -> SimpleNamespace:
        return SimpleNamespace(schedule=SimpleNamespace(makespan_us=time_us))

    trials = [Trial(number, formulated(1), found(time_us), 1.0) for number, time_us in times_us.items()]
    assert [trial.chunks for trial in worth_longer(trials)] == searched_longer


def test_what_is_proved_of_one_chunk_before_any_trial_is_its_bound(first_schedules_only: list[int]) -> None:
    """What an instance knows already, no search proves again."""
    largest = bounds("broadcast", size=48 * MB, chunks=1, **RING)[0]
    assert chosen().tried[0].lower_bound_us == pytest.approx(largest.value_us)


def test_finer_chunks_are_left_alone_once_they_only_get_slower(first_schedules_only: list[int]) -> None:
    many = len(candidates(formulated(1, size=2**16).problem))
    choice = choose_chunks(lambda number: formulated(number, size=2**16), QUICK)
    assert len(choice.tried) < many


def test_numbers_whose_schedules_would_take_gigabytes_are_not_tried(
    first_schedules_only: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [tried.chunks for tried in chosen().tried]
    assert len(whole) > 3
    rows = len(chosen().found.schedule) // chosen().formulated.problem.num_chunks
    monkeypatch.setattr("taccl.synthesis.autotune.chunk_search.CHUNK_SEARCH_MOST_TRANSFERS", rows * whole[2])
    assert [tried.chunks for tried in chosen().tried] == whole[:3]


def test_a_number_whose_bound_is_above_the_best_time_is_not_searched_again(
    first_schedules_only: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_tight_bound(instance: Instance, options: SearchOptions, *rest: object) -> Iterator[Update]:
        first_schedules_only.append(instance.problem.collective.chunks_per_rank)
        first = next(real_solve(instance, options))
        assert first.schedule is not None
        yield replace(first, lower_bound_us=first.schedule.makespan_us)

    monkeypatch.setattr("taccl.synthesis.search.solve", with_tight_bound)
    chosen(gap=0.0)
    assert len(first_schedules_only) == len(set(first_schedules_only))


def test_numbers_that_there_was_no_time_to_look_at_come_last(
    first_schedules_only: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "taccl.synthesis.autotune.chunk_search.ChunkSearch._first_is_there_at",
        lambda each, number, is_last=False: 0.9 * each._total_s if number > 1 else 0.0,
    )
    choice = chosen(gap=0.0)
    assert [tried.chunks for tried in choice.tried] == candidates(formulated(1).problem)
    assert choice.formulated.problem.collective.chunks_per_rank > 1


@pytest.mark.parametrize(
    "fault", [RuntimeError("broke down"), SolverError("broke down"), NoScheduleInTime("late")]
)
def test_a_number_whose_trial_fails_costs_no_other_number_its_turn(
    first_schedules_only: list[int], monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """The next trial is of the next number, and not of the one at a position that counts trials."""

    def fails_with_two(instance: Instance, options: SearchOptions, *rest: object) -> Iterator[Update]:
        first_schedules_only.append(instance.problem.collective.chunks_per_rank)
        if instance.problem.collective.chunks_per_rank == 2:
            raise fault
        yield next(real_solve(instance, options))

    monkeypatch.setattr("taccl.synthesis.search.solve", fails_with_two)
    choice = chosen(gap=0.0)
    numbers = [tried.chunks for tried in choice.tried]
    assert numbers[:3] == [1, 3, 4]
    assert first_schedules_only.count(2) == 1
    reported = [failure for failure in choice.found.failures if failure.name == "chunks 2"]
    assert len(reported) == (0 if isinstance(fault, NoScheduleInTime) else 1)


def test_a_number_that_is_too_large_to_state_ends_the_trials_of_finer_ones(
    first_schedules_only: list[int],
) -> None:
    def up_to_three(number: int) -> Formulated:
        if number > 3:
            raise CollectiveError("too large")
        return formulated(number)

    choice = choose_chunks(up_to_three, replace(QUICK, gap=0.0))
    assert [tried.chunks for tried in choice.tried] == [1, 2, 3]
    assert not choice.found.failures


def test_where_every_trial_fails_the_failure_of_the_engine_that_was_asked_for_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(instance: Instance, options: SearchOptions, *rest: object) -> Iterator[Update]:
        raise SolverError(f"{options.engine} broke down")
        yield

    monkeypatch.setattr("taccl.synthesis.search.solve", fails)
    with pytest.raises(SolverError, match="milp broke down"):
        chosen(engine="milp")


def test_with_an_effort_the_same_is_found_however_the_clock_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer() -> tuple[object, ...]:
        choice = choose_chunks(
            lambda number: formulated(number, size=2**14), SearchOptions(engine="greedy", effort=600)
        )
        schedule = choice.found.schedule
        return choice.tried, schedule.link.tolist(), schedule.start_us.tolist(), choice.found.status

    calm = answer()
    leaps = itertools.count(0.0, 1e4)
    monkeypatch.setattr("time.monotonic", lambda: next(leaps))
    assert answer() == calm


def test_an_effort_ends_at_a_time_limit_that_is_given_too(monkeypatch: pytest.MonkeyPatch) -> None:
    leaps = itertools.count(0.0, 1.0)
    monkeypatch.setattr("time.monotonic", lambda: next(leaps))
    choice = choose_chunks(formulated, SearchOptions(engine="greedy", effort=10**8, time_limit_s=20.0))
    assert [tried.chunks for tried in choice.tried] == [1]


def test_engines_of_all_searches_of_a_number_are_told_together() -> None:
    runs = (EngineRun("greedy", 1.0, 9.0, 2.0), EngineRun("cp", 1.0), EngineRun("greedy", 2.0, 8.0, 1.0))
    assert merged(runs) == (EngineRun("greedy", 3.0, 8.0, 2.0), EngineRun("cp", 1.0))


def test_what_an_engine_did_for_one_phase_is_not_mixed_with_the_other() -> None:
    sums, copies = (
        EngineRun("cp", 1.0, 5.0, 4.0, "reduce phase"),
        EngineRun("cp", 2.0, 7.0, 6.0, "broadcast phase"),
    )
    again = replace(copies, time_us=None, lower_bound_us=7.0)
    assert merged((sums, copies, again)) == (sums, replace(copies, seconds=4.0, lower_bound_us=7.0))


@pytest.mark.parametrize("fault", [CollectiveError("too large"), MemoryError("no room")])
def test_a_schedule_that_no_file_can_hold_is_not_chosen(
    first_schedules_only: list[int], fault: Exception
) -> None:
    def holds_few(schedule: Schedule) -> None:
        if schedule.problem.collective.chunks_per_rank > 2:
            raise fault

    choice = choose_chunks(formulated, QUICK, can_be_used=holds_few)
    assert choice.formulated.problem.collective.chunks_per_rank == 2
    assert "no file can hold it" in [tried.remark for tried in choice.tried]


def test_a_search_that_finds_nothing_in_its_time_leaves_the_look(
    first_schedules_only: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_once(instance: Instance, options: SearchOptions, *rest: object) -> Iterator[Update]:
        number = instance.problem.collective.chunks_per_rank
        first_schedules_only.append(number)
        if first_schedules_only.count(number) > 1:
            raise NoScheduleInTime("too late")
        yield next(real_solve(instance, options))

    monkeypatch.setattr("taccl.synthesis.search.solve", only_once)
    choice = chosen(gap=0.0)
    assert len(first_schedules_only) > len(choice.tried)
    assert choice.found.schedule.makespan_us == min(tried.time_us for tried in choice.tried)


@pytest.mark.parametrize("finished_looks", [0, 1, 3])
def test_ctrl_c_keeps_the_best_so_far(first_schedules_only: list[int], finished_looks: int) -> None:
    news: list[Progress] = []

    def stop(progress: Progress) -> None:
        news.append(progress)
        if len(news) > finished_looks:
            raise KeyboardInterrupt

    choice = choose_chunks(formulated, replace(QUICK, gap=0.0), stop)
    assert len(choice.tried) == len(news) == finished_looks + 1
    assert choice.found.status == "interrupted"


def test_who_does_not_wait_to_hear_whether_there_is_a_file_has_the_fastest(
    first_schedules_only: list[int],
) -> None:
    """To lower a schedule may take a minute on a large machine, and is done again for a file."""

    def interrupted(schedule: Schedule) -> None:
        raise KeyboardInterrupt

    choice = choose_chunks(formulated, replace(QUICK, gap=0.0), can_be_used=interrupted)
    assert choice.found.schedule.makespan_us == min(tried.time_us for tried in choice.tried)
    assert choice.found.status == "interrupted"


def test_an_observer_that_says_stop_ends_all_searches_and_keeps_the_best(
    first_schedules_only: list[int],
) -> None:
    news: list[Progress] = []

    def stop_at_the_second(progress: Progress) -> Answer:
        news.append(progress)
        return STOP if len(news) == 2 else None

    choice = choose_chunks(formulated, replace(QUICK, gap=0.0), stop_at_the_second)
    assert len(choice.tried) == len(news) == 2
    assert choice.found.status == "interrupted"


def test_a_proof_of_one_number_settles_no_search_that_was_stopped_before_the_others(
    first_schedules_only: list[int],
) -> None:
    """Three GPUs that send to each other at once: the first schedule meets its bound."""

    def full(number: int) -> Formulated:
        return make_problem("alltoall", size=3 * MB, chunks=number, topology="full:3")

    stopped = choose_chunks(full, replace(QUICK, gap=0.0), lambda progress: STOP).found
    assert stopped.schedule.makespan_us == pytest.approx(stopped.lower_bound_us)
    assert stopped.status == "interrupted"
    assert choose_chunks(full, replace(QUICK, gap=0.0)).found.status == "optimal"


def test_a_proof_of_one_number_settles_no_search_that_had_no_time_for_others() -> None:
    """Two hops with one chunk, which is as soon as one chunk can be there; half as long in many."""
    choice = choose_chunks(formulated, replace(QUICK, gap=0.0, effort=3))
    assert [tried.chunks for tried in choice.tried] == [1]
    found = choice.found
    assert found.lower_bound_us == found.schedule.makespan_us > 1.5 * found.any_chunks.value_us
    assert found.status == "finished"


def test_a_proof_of_one_number_settles_no_search_in_which_another_number_may_be_faster() -> None:
    """Two chunks take 3.47 us, the least for two; of four nothing is proved but 3.14 us."""
    choice = choose_chunks(hub_of_seven, replace(QUICK, gap=0.0, effort=2_000))
    chosen, *others = sorted(choice.tried, key=lambda tried: tried.remark != "chosen")
    assert chosen.gap == 0.0 and any(tried.lower_bound_us < chosen.time_us for tried in others)
    slower = [tried.remark for tried in others if tried.lower_bound_us >= chosen.time_us]
    assert slower and set(slower) == {"cannot be faster than 2 chunks"}
    assert choice.found.status == "finished"


def test_where_the_gap_was_reached_before_finer_numbers_had_a_turn_nothing_is_optimal() -> None:
    choice = choose_chunks(hub_of_seven, replace(QUICK, gap=0.3))
    assert [(tried.chunks, tried.gap) for tried in choice.tried] == [(1, 0.0)]
    assert choice.found.any_chunks.value_us < choice.found.schedule.makespan_us
    assert choice.found.status == "gap reached"


def test_a_slower_schedule_of_another_number_is_not_what_the_search_proved() -> None:
    """Predicted files may choose it; how the search ended is told of it, too."""

    def full(number: int) -> Formulated:
        return make_problem("alltoall", size=3 * MB, chunks=number, topology="full:3")

    choice = choose_chunks(full, replace(QUICK, gap=0.0))
    assert choice.found.status == "optimal" and len(choice.all_found) > 1
    for _, other in choice.all_found[1:]:
        is_slower = other.schedule.makespan_us > choice.found.schedule.makespan_us + TOLERANCE_US
        assert other.status == ("finished" if is_slower else "optimal")


def test_ctrl_c_before_any_schedule_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(instance: Instance, options: SearchOptions, *rest: object) -> Iterator[Update]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("taccl.synthesis.search.solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        chosen()


def test_a_wrong_bound_is_told_and_no_number_is_lost_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(instance: Instance, options: SearchOptions, *rest: object) -> Iterator[Update]:
        yield replace(next(real_solve(instance, options)), lower_bound_us=1e9)

    monkeypatch.setattr("taccl.synthesis.search.solve", wrong)
    choice = chosen()
    assert any("stands above a valid schedule" in each.text for each in choice.found.failures)
    assert choice.found.lower_bound_us <= choice.found.schedule.makespan_us
    assert len(choice.tried) > 1


def test_progress_says_which_number_it_is_about(first_schedules_only: list[int]) -> None:
    news: list[Progress] = []
    choose_chunks(formulated, QUICK, news.append)
    assert news[0].stage.endswith("chunks 1")
    assert np.all(np.diff([each.elapsed_s for each in news]) >= 0)


def test_numbers_whose_chunks_alone_travel_too_long_are_left_out() -> None:
    """A chunk of an n-th takes an n-th of 100 us at least."""
    numbers = [1, 2, 4, 8, 16]
    assert worth_trying(numbers, 100.0, 16.0) == [1, 8, 16]
    assert worth_trying(numbers, 100.0, 100.0) == numbers
    assert worth_trying(numbers, 100.0, 1.0) == numbers  # none would be left but one
    assert worth_trying([2, 4, 8], 100.0, 1.0) == [2, 4, 8]
    assert worth_trying([1], 100.0, 1.0) == [1]
    assert worth_trying([], 100.0, 1.0) == []


def test_a_long_chain_is_tried_in_many_chunks_soon() -> None:
    """48 MB go round a ring of 64 one way: n chunks take (n + 62) / n of 1,008 us, and an alpha each."""
    ring = {"collective": "broadcast", "topology": "ring-oneway:64", "size": "48MB"}
    result = synthesize(chunks="auto", effort=3_000, file=False, **ring)
    tried = [each["chunks"] for each in result.figures()["chunks_tried"]]
    assert tried[:2] == [1, 16]
    assert result.time_us < 2 * result.any_chunks.value_us


def test_an_unknown_engine_is_found_before_any_look() -> None:
    with pytest.raises(SolverError, match="unknown engine"):
        chosen(engine="quick")


def test_synthesize_takes_auto_and_says_what_it_tried(first_schedules_only: list[int]) -> None:
    result = synthesize("broadcast", size="48MB", chunks="auto", gap=0.05, time_limit=60, **RING)
    assert result.collective.chunks_per_rank > 1
    assert result.size_bytes == 48 * MB
    assert result.verified
    assert result.notes[-1].startswith("chunks per rank: ")
    assert "chosen" in result.summary(verbose=True)
    assert "chosen" not in result.summary()
    figures = json.loads(json.dumps(result.figures(), allow_nan=False))
    assert {"chunks", "time_us", "lower_bound_us", "gap"} <= set(figures["chunks_tried"][0])


@pytest.mark.parametrize("chunks", ["many", "4"])
def test_other_words_are_refused(chunks: str) -> None:
    with pytest.raises(TacclError, match="a number or auto"):
        synthesize("broadcast", size="3MB", chunks=chunks, **RING)


def test_no_textbook_with_other_chunks_is_faster_than_what_is_chosen() -> None:
    """On a torus of nine, rings along both sides at once need two chunks in each part."""
    torus = {"collective": "allreduce", "topology": "torus:3x3", "size": "9MB"}
    instances = [Instance(make_problem(chunks=number, **torus).problem) for number in (1, 2)]
    best = [min(each.makespan_us for _, each in built(each, Budget(60.0))) for each in instances]
    assert best[1] < 0.95 * best[0]
    found = list(found_across([1, 2], dict(zip((1, 2), instances, strict=True)).__getitem__, Budget(60.0)))
    assert found[-1].makespan_us == pytest.approx(min(best))
    found[-1].check()
    assert synthesize(chunks="auto", effort=1_000, **torus).time_us <= min(best) * (1 + 1e-9)


#: What engines are about in turn, and the numbers of chunks that they are handed.
Asked = list[tuple[str, list[int]]]


def across(asked: Asked, name: str, begins: int, units: float, part_of: str = "") -> Engine:
    """An engine that has the first schedule of one of the cuts, for so many units of work."""

    def across_chunks(cuts: Sequence[Instance], budget: Budget) -> Iterator[Schedule]:
        asked.append((name, [each.problem.collective.chunks_per_rank for each in cuts]))
        budget.spend(units)
        first = next(real_solve(cuts[begins], QUICK)).schedule
        assert first is not None
        yield first

    def run(*_: object) -> Iterator[Update]:
        return iter(())

    engine = Engine(name, "", frozenset(), everything, run, across_chunks=across_chunks)
    return replace(engine, part_of=part_of) if part_of else engine


def test_an_engine_without_time_for_finer_cuts_has_what_others_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    instances = {number: Instance(formulated(number).problem) for number in (1, 2, 4)}
    asked: Asked = []
    engines = (across(asked, "slow", 0, 300.0), across(asked, "fast", 1, 1.0))
    monkeypatch.setattr("taccl.synthesis.autotune.seeds.ENGINES", engines)
    found = [
        each.makespan_us for each in found_across([1, 2, 4], instances.__getitem__, Budget.of_work(1000))
    ]
    assert found[1] < found[0] < 2 * found[1]
    assert asked == [("slow", [1, 2, 4]), ("fast", [1, 2, 4]), ("slow", [2, 4])]


def test_one_that_is_only_as_fast_as_others_has_what_is_left_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its finer cuts may be faster; but none finer than its best are left of the last."""
    instances = {number: Instance(formulated(number).problem) for number in (1, 2)}
    asked: Asked = []
    engines = (
        across(asked, "quick", 0, 1.0),
        across(asked, "slow", 0, 250.0),
        across(asked, "finest", 1, 250.0),
    )
    monkeypatch.setattr("taccl.synthesis.autotune.seeds.ENGINES", engines)
    assert list(found_across([1, 2], instances.__getitem__, Budget.of_work(1000)))
    assert asked[3:] == [("slow", [2])]


@pytest.mark.parametrize(("units", "names"), [(1.0, ["first", "next", "part"]), (2000.0, ["first"])])
def test_once_there_is_a_schedule_no_engine_begins_after_the_time(
    monkeypatch: pytest.MonkeyPatch, units: float, names: list[str]
) -> None:
    """Each builds something without any time, for machines that have no schedule yet."""
    instances = {number: Instance(formulated(number).problem) for number in (1, 2)}
    asked: Asked = []
    engines = (
        across(asked, "first", 0, units),
        across(asked, "next", 0, 1.0),
        across(asked, "part", 0, 1.0, part_of="next"),
    )
    monkeypatch.setattr("taccl.synthesis.autotune.seeds.ENGINES", engines)
    assert list(found_across([1, 2], instances.__getitem__, Budget.of_work(1000)))
    assert [name for name, _ in asked] == names


def test_pieces_that_travel_together_are_chunks() -> None:
    """Quarters of the data go along other axes of a torus first; each quarter is some of the 16 chunks."""
    torus = {"collective": "allreduce", "topology": "torus:4x4", "size": "256KB"}
    instances = {number: Instance(make_problem(chunks=number, **torus).problem) for number in (1, 4)}
    fastest_of_one = min(each.makespan_us for _, each in built(instances[1], Budget(60.0)))
    *_, found = found_across([1, 4], instances.__getitem__, Budget.of_work(2_000))
    assert found.problem is instances[1].problem
    assert found.makespan_us < 0.95 * fastest_of_one
    found.check()
    chosen = synthesize(chunks="auto", effort=1_000, **torus)
    assert chosen.collective.chunks_per_rank == 1
    assert chosen.time_us <= found.makespan_us * (1 + 1e-9)


def test_data_of_one_root_has_more_time_for_pipelines_with_a_switch_that_sums_too() -> None:
    """Switches hold no data, so a Broadcast reaches all but them."""

    def part(collective: str, machine: str, **words: object) -> float:
        problem = make_problem(collective, topology=machine, size="1MB", **words).problem
        return part_across(Instance(problem))

    assert part("allgather", "ring:4") < part("broadcast", "ring:4") < part("reduce", "ring:128")
    assert part("broadcast", "dgx-h100", nodes=1) == part("broadcast", "ring:4")


def test_textbooks_leave_large_machines_their_time() -> None:
    small, large = (
        Instance(make_problem("allreduce", topology=f"ring:{ranks}", size="25MB").problem)
        for ranks in (8, 800)
    )
    assert numbers_across(small, range(1, 10)) == [1, 2, 4, 8]
    assert numbers_across(large, range(1, 10)) == []

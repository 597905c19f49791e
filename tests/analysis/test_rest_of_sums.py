"""Sums that are interrupted: the first part and the rest, run on numbers, make what the whole makes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl import synthesize
from taccl.analysis.repair import repair
from taccl.analysis.under_way import rest_of
from taccl.errors import ScheduleError
from taccl.model.schedule import Schedule
from taccl.model.schedule.saved import read_schedule

#: For a chunk and a rank: each sum that it has, by its contributors (a copy has none): value, and since when.
Held = dict[tuple[int, int], dict[frozenset[int], tuple[float, float]]]
#: Small AllReduces, in which everybody sends everybody what it has, and large ones.
CASES = [
    ("allreduce", "ring:4", "9MB"),
    ("allreduce", "torus:3x3", "9MB"),
    ("allreduce", "torus:3x3", "9KB"),
    ("reducescatter", "torus:3x3", "9MB"),
    ("reduce", "full:4", "9MB"),
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The files of the cases."""
    folder = tmp_path_factory.mktemp("saved")
    for number, (name, machine, size) in enumerate(CASES):
        words = {"topology": machine, "size": size, "chunks": 1, "executor": False, "file": False}
        synthesize(name, effort=50, **words).write_schedule(folder / f"{number}.json")
    return folder


def made(held: dict[frozenset[int], tuple[float, float]], wanted: frozenset[int], by_us: float) -> float:
    """The value of a sum that disjoint sums make which a rank has by then."""
    if wanted in held and held[wanted][1] <= by_us + 1e-6:
        return held[wanted][0]
    first = min(wanted)
    for part, (value, since) in held.items():
        if first in part and part < wanted and since <= by_us + 1e-6:
            try:
                return value + made(held, wanted - part, by_us)
            except AssertionError:
                continue
    raise AssertionError(f"{set(wanted)} cannot be made")


def run(schedule: Schedule, held: Held, rows: np.ndarray) -> None:
    """Send some rows of a schedule, in order: sums that are named, or all that is there; copies of wholes."""
    collective = schedule.problem.collective
    for row in rows[np.lexsort((schedule.end_us[rows], schedule.start_us[rows]))].tolist():
        chunk, src, dst = int(schedule.chunk[row]), int(schedule.src[row]), int(schedule.dst[row])
        start, there = float(schedule.start_us[row]), held[chunk, src]
        if not schedule.reduce[row]:
            carried = frozenset(np.flatnonzero(collective.pre[chunk]).tolist())
            carried = carried if collective.reduces[chunk] else frozenset()
        elif schedule.sums is not None:
            carried = frozenset(np.flatnonzero(schedule.sums.members[schedule.sums.of_row[row]]).tolist())
        else:
            by_then = [part for part, (_, since) in there.items() if since <= start + 1e-6]
            carried = frozenset().union(*by_then)
        value = made(there, carried, start)
        held.setdefault((chunk, dst), {}).setdefault(carried, (value, float(schedule.end_us[row])))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, len(CASES) - 1), st.floats(0, 1.1), st.booleans(), st.randoms(use_true_random=False))
def test_the_first_part_and_the_rest_make_every_sum(saved, number, part, is_lost, draw):
    machine = CASES[number][1]
    old = read_schedule(saved / f"{number}.json").schedule
    collective, at_us = old.problem.collective, part * old.makespan_us
    values = {cell: draw.random() for cell in zip(*np.nonzero(collective.pre), strict=True)}
    held: Held = {
        (int(chunk), int(rank)): {frozenset({int(rank)}): (value, 0.0)}
        for (chunk, rank), value in values.items()
    }
    lost = is_lost & (old.src == 0) & (old.dst == 1)
    first = (old.end_us <= at_us) | ((old.start_us < at_us) & ~lost)
    run(old, held, np.flatnonzero(first))
    words = {"topology": machine, "without": ("gpu0->gpu1",) if is_lost else None}
    done = repair(saved / f"{number}.json", at_us=at_us, effort=20, **words)
    rest = done.result.schedule
    rest.check()
    now: Held = {}
    inputs = rest.problem.collective.inputs
    for cell in zip(inputs.chunk.tolist(), inputs.rank.tolist(), strict=True):
        chunk, rank = cell
        ranks = frozenset(r for r in range(collective.num_ranks) if done.contributions[cell] >> r & 1)
        summed = rest.problem.collective.reduces[chunk]
        now[cell] = {frozenset({rank}) if summed else frozenset(): (made(held[cell], ranks, np.inf), 0.0)}
    run(rest, now, np.arange(len(rest)))
    for chunk, rank in zip(*np.nonzero(collective.post), strict=True):
        whole = frozenset(np.flatnonzero(rest.problem.collective.pre[chunk]).tolist())
        whole = whole if rest.problem.collective.reduces[chunk] else frozenset()
        got = made(now[int(chunk), int(rank)], whole, np.inf)
        assert got == pytest.approx(sum(values[chunk, r] for r in np.flatnonzero(collective.pre[chunk])))


@pytest.mark.parametrize("part", [0.1, 0.4, 0.7])
def test_on_the_same_machine_the_rest_of_sums_ends_when_the_whole_would_have(saved, part):
    old = read_schedule(saved / "0.json").schedule
    rest = rest_of(old, part * old.makespan_us, old.problem.topology)
    assert rest.schedule is not None
    rest.schedule.check()
    assert rest.from_us + rest.schedule.makespan_us == pytest.approx(old.makespan_us)


def test_what_is_left_of_sums_among_all_is_searched_anew(saved):
    """Sums of ranks 0 and 1 have parts in common: what both still send is no sum of fewer contributions."""
    done = repair(saved / "2.json", at_us=0.3, topology="torus:3x3", effort=50)
    assert "no sums of what ranks have" in done.why
    done.result.schedule.check()


def test_a_rank_that_may_not_sum_is_refused(saved):
    old = read_schedule(saved / "0.json").schedule
    unable = replace(old.problem.topology, may_sum=np.arange(4) > 0)
    with pytest.raises(ScheduleError, match="may not sum"):
        rest_of(replace(old, problem=replace(old.problem, topology=unable)), 1.0, unable)

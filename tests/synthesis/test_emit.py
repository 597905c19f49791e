"""What a result takes from its search, and what is proved anew for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import taccl
from taccl.encoding.bounds import Proof
from taccl.encoding.bounds.stream import NOTHING
from taccl.synthesis import emit
from taccl.synthesis.autotune import tune
from tests.backend.small_schedules import executor_of


def test_a_bound_for_any_chunks_is_proved_anew_for_other_links_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """On 1,024 GPUs it takes ten seconds after the search, which has proved it already."""
    found = taccl.synthesize("allgather", topology="ring:4", size="4MB", file=False, effort=300).found
    links = found.schedule.problem.topology
    asked: list[object] = []

    def any_chunks_bound(problem: object, limit: object) -> Proof:
        asked.append(problem)
        return NOTHING

    monkeypatch.setattr(tune, "any_chunks_bound", any_chunks_bound)
    assert found.any_chunks.value_us > 0
    for same in (links, replace(links, executor=executor_of())):
        assert emit._for_any_chunks(found, same, 0.0) == (found, found.any_chunks)
    assert not asked
    others = replace(links, alpha_us=2 * links.alpha_us)
    assert emit._for_any_chunks(found, others, 0.0) == (found, NOTHING)
    assert len(asked) == 1
    monkeypatch.setattr(tune, "TUNE_PROVED_PER_S", 1.0)  # of 8 chunks at 4 ranks, 32 s
    emit._for_any_chunks(found, others, 10.0)
    assert len(asked) == 1
    emit._for_any_chunks(found, others, 40.0)
    assert len(asked) == 2


@pytest.mark.parametrize(("part", "is_told"), [(0.9, True), (0.5, True), (1.1, False)])
def test_a_bound_for_any_chunks_that_comes_after_the_search_is_one_for_its_number_too(
    monkeypatch: pytest.MonkeyPatch, part: float, is_told: bool
) -> None:
    """Not where a valid schedule is faster: that shows that it is wrong."""
    found = taccl.synthesize("allgather", topology="ring:4", size="4MB", file=False, effort=300).found
    searched = replace(found, any_chunks=NOTHING, lower_bound_us=0.7 * found.schedule.makespan_us)
    late = Proof(part * found.schedule.makespan_us, "late", "cut", holds_for_any_chunks=True)
    monkeypatch.setattr(tune, "any_chunks_bound", lambda problem, limit: late)
    told, any_chunks = emit._for_any_chunks(searched, found.schedule.problem.topology, 10.0)
    assert any_chunks is (late if is_told else NOTHING)
    assert told.lower_bound_us == max(searched.lower_bound_us, late.value_us if is_told else 0.0)
    assert (told.bound_source == "late") == (part == 0.9)

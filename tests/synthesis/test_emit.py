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
    assert emit._for_any_chunks(found, links, 0.0) is found.any_chunks
    assert emit._for_any_chunks(found, replace(links, executor=executor_of()), 0.0) is found.any_chunks
    assert not asked
    others = replace(links, alpha_us=2 * links.alpha_us)
    assert emit._for_any_chunks(found, others, 0.0) is NOTHING
    assert len(asked) == 1
    monkeypatch.setattr(tune, "TUNE_PROVED_PER_S", 1.0)  # of 8 chunks at 4 ranks, 32 s
    emit._for_any_chunks(found, others, 10.0)
    assert len(asked) == 1
    emit._for_any_chunks(found, others, 40.0)
    assert len(asked) == 2

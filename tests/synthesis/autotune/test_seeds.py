"""What a search for one number of chunks begins with."""

from __future__ import annotations

import pytest

from taccl.api import make_problem, synthesize
from taccl.support.budget import Budget
from taccl.synthesis.autotune import seeds
from taccl.synthesis.autotune.seeds import known_for


def test_a_large_schedule_is_cut_finer_only_if_there_is_time_to_write_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    coarse = synthesize("allgather", topology="ring:4", size="4MB", chunks=1, effort=100, file=False).schedule
    finer = make_problem("allgather", topology="ring:4", size="4MB", chunks=2).problem
    known = known_for(finer, (), coarse, Budget(0.0))
    assert known is not None, "what is small takes no time"
    known.check()
    monkeypatch.setattr(seeds, "SEEDS_MOST_CARRIED", len(coarse))
    assert known_for(finer, (), coarse, Budget(0.0)) is None
    assert known_for(finer, (), coarse, Budget(60.0)) is not None
    assert known_for(coarse.problem, (), coarse, Budget(0.0)) is coarse, "nothing is to be cut"

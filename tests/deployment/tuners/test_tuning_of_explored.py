"""Rules for the sizes of an exploration: the library's own choice, unless links make it slow."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taccl import explore
from taccl.deployment.tuners.explored import _Pair, _pick, tuning_of_explored
from taccl.deployment.tuners.verify import verify_tuner_file
from taccl.deployment.tuners.writer import to_csv
from taccl.errors import CollectiveError, TacclError
from taccl.topologies import load_topology

MACHINE = replace(load_topology("full:4", nodes=1), gpu="A100")


@pytest.fixture(autouse=True)
def _no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACCL_CACHE", str(tmp_path))


def test_rules_follow_each_other_over_the_sizes_explored() -> None:
    explored = explore("allreduce,allgather", topology=MACHINE, sizes="64KB..1MB", effort=20, cache=False)
    tuning = tuning_of_explored(explored)
    for name in ("allreduce", "allgather"):
        rules = [rule for rule in tuning.rules if rule.collective == name]
        assert (rules[0].least_bytes, rules[-1].most_bytes) == (65536, 2**20)
        for before, after in pairwise(rules):
            assert before.most_bytes is not None
            assert before.most_bytes + 1 == after.least_bytes
            assert (before.algorithm, before.protocol) != (after.algorithm, after.protocol)
    report = verify_tuner_file(to_csv(tuning, "nccl"), ranks=4)
    assert report.ok, report.findings


def test_what_has_no_tuner_file_is_refused() -> None:
    with pytest.raises(CollectiveError, match="libraries ask for none"):
        tuning_of_explored(explore("alltoall", topology=MACHINE, sizes="64KB", effort=20, cache=False))
    both = explore("allgather", topology=["ring:3", "ring:4"], sizes="64KB", effort=20, cache=False)
    with pytest.raises(TacclError, match="for one machine"):
        tuning_of_explored(both)


@given(own_us=st.floats(1, 100), other_us=st.floats(1, 100), links_us=st.floats(1, 200), timed=st.booleans())
def test_another_algorithm_is_taken_only_where_links_slow_down_the_librarys_own(
    own_us: float, other_us: float, links_us: float, timed: bool
) -> None:
    pairs = [_Pair("Ring", "LL", own_us), _Pair("Tree", "Simple", own_us + other_us)]
    taken = _pick(pairs, {"Ring": links_us} if timed else {})
    loses = timed and own_us + other_us < 0.92 * max(links_us, own_us)
    assert taken == (("Tree", "Simple") if loses else ("Ring", "LL"))
    assert _pick([], {}) is None

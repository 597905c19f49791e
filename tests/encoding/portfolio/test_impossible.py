"""Why a machine whose ranks may not all sum or copy has no schedule."""

from __future__ import annotations

import pytest
from brute_force import TooLarge, program_before
from hypothesis import HealthCheck, assume, given, settings
from small_problems import featured_problems, problem, ring
from studies import examples

from taccl import synthesize
from taccl.encoding.portfolio.impossible import why_impossible
from taccl.errors import TopologyError
from taccl.model.problem import Problem
from taccl.topologies import parse_topology

_RELAY = """\
name: relayed
gpus: 3
helpers: [{name: relay, can: [reduce]}]
links:
  - {from: gpus, to: relay, alpha_us: 1, bandwidth_gbps: 10}
"""


def failure(text: str, collective: str) -> TopologyError:
    with pytest.raises(TopologyError) as error:
        synthesize(collective, topology=parse_topology(text), size="1MB", chunks=1, effort=100, file=False)
    return error.value


def test_a_relay_without_copies_on_every_way_is_named() -> None:
    error = failure(_RELAY, "broadcast")
    assert "cannot come to ranks 1, 2: every way leads through relay (rank 3), which cannot" in str(error)
    assert "cannot `copy` and passes a chunk on to one rank, once" in str(error)
    assert error.hint == "can: [copy] for relay (rank 3), or link these ranks in another way"


def test_two_ranks_behind_such_a_relay_that_pass_on_to_each_other_have_a_schedule() -> None:
    linked = _RELAY + "  - {pairs: [1-2], alpha_us: 1, bandwidth_gbps: 10}\n"
    result = synthesize(
        "broadcast", topology=parse_topology(linked), size="1MB", chunks=1, effort=100, file=False
    )
    assert result.schedule.check() is None


@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(featured_problems(may=(True, False, False)))
def test_what_is_called_impossible_has_no_program(requested: Problem) -> None:
    assume(why_impossible(requested) is not None)
    try:
        assert program_before(requested, 1e6, 700) is None
    except TooLarge:
        return


def test_where_every_rank_may_sum_and_copy_no_chunk_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be tens of thousands, and all reasons are of ranks that are limited."""
    monkeypatch.setattr("taccl.encoding.portfolio.impossible._reasons", lambda _: pytest.fail("not asked"))
    assert why_impossible(problem(ring(4), "alltoall")) is None

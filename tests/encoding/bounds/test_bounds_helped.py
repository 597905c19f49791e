"""What no schedule beats where switches and servers sum and copy."""

from __future__ import annotations

import numpy as np
import pytest
from small_problems import helped_switch

from taccl.encoding.bounds import Proof, all_bounds
from taccl.encoding.bounds.helped import Limits, assignments
from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.support.budget import Budget

#: What one helper can do: both; the faces of NVLink SHARP.
_BOTH, _SUM_FACE, _COPY_FACE = (True, True), (True, False), (False, True)
#: GB/s of a way of an H100 below its NVSwitch, from GPU to GPU and by multimem.
_DIRECT, _MULTIMEM = 370.8, 309.0


def best(topology: LogicalTopology, name: str = "allreduce", mb: float = 1.0) -> Proof:
    """The largest bound that holds however finely 1 MB is cut."""
    collective = make_collective(name, topology.num_members, 1)
    stated = Problem(topology, collective.with_helpers(topology.num_helpers), mb / collective.chunks_per_size)
    every = all_bounds(stated, Budget.of_work(1_000_000), any_chunks=True)
    return max((proof for proof in every if proof.holds_for_any_chunks), key=lambda proof: proof.value_us)


@pytest.mark.parametrize("servers", range(7))
def test_of_aggregating_servers_it_is_the_formula_of_byteps(servers: int) -> None:
    """2 n (n - 1) / (n^2 + k n - 2 k) of size / bandwidth, for n GPUs and k servers on one switch."""
    n, k = 6, servers
    proved = best(helped_switch(n, [_BOTH] * k, own_ports=True)).value_us
    assert proved == pytest.approx(2 * n * (n - 1) / (n * n + k * n - 2 * k), rel=1e-6)


@pytest.mark.parametrize(("gpus", "algbw"), [(5, 257.5), (6, 264.857), (7, 270.375), (8, 274.667)])
def test_of_a_switch_that_sums_to_one_it_is_what_nvls_reaches(gpus: int, algbw: float) -> None:
    """Each way carries the size and 1 / n of it: published are 258, 265, 270 and 273 GB/s (nccl#1455)."""
    faces = [_SUM_FACE, _COPY_FACE]
    proved = best(helped_switch(gpus, faces, 1 / _DIRECT, 1 / _MULTIMEM, reads_itself=True))
    assert 1 / proved.value_us == pytest.approx(algbw, rel=1e-5)


@pytest.mark.parametrize("gpus", [3, 4])
def test_of_few_gpus_the_ring_is_as_fast(gpus: int) -> None:
    faces = [_SUM_FACE, _COPY_FACE]
    proved = best(helped_switch(gpus, faces, 1 / _DIRECT, 1 / _MULTIMEM, reads_itself=True))
    assert 1 / proved.value_us == pytest.approx(_DIRECT * gpus / (2 * gpus - 2), rel=1e-5)


def test_a_rank_that_adds_what_it_has_itself_saves_an_nth_where_the_switch_does_not_read_it() -> None:
    """Seven of eight send to the sum face, and the eighth adds its own: each way carries the size, once."""
    proved = best(helped_switch(8, [_SUM_FACE, _COPY_FACE], 1 / _DIRECT, 1 / _MULTIMEM))
    assert 1 / proved.value_us == pytest.approx(_MULTIMEM, rel=1e-5)


def test_a_switch_that_sums_and_copies_in_one_pass_lets_each_way_carry_the_size() -> None:
    assert best(helped_switch(8, [_BOTH])).value_us == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("name", ["allgather", "reducescatter", "alltoall"])
@pytest.mark.parametrize("helpers", [[_SUM_FACE, _COPY_FACE], [_BOTH]])
def test_helpers_that_cannot_help_change_nothing(name: str, helpers: list[tuple[bool, bool]]) -> None:
    """Each GPU still lets in, or out, all that it lacks."""
    with_them = best(helped_switch(6, helpers, 1 / _DIRECT, 1 / _MULTIMEM), name).value_us
    assert with_them == pytest.approx(best(helped_switch(6, [], 1 / _DIRECT), name).value_us, rel=1e-6)


def test_each_link_counts_its_weight_once_over_all_assignments() -> None:
    topology = helped_switch(4, [_BOTH, _BOTH])
    every = assignments(topology, np.arange(topology.num_links))
    assert len(every) == 4
    assert np.sum([where.share for where in every], axis=0) == pytest.approx(np.ones(topology.num_links))
    for where in every:
        assert (where.joined[:4] == np.arange(4)).all()
        assert where.joined[4] == where.joined[5] < 4, "both with the same GPU"
        inside = where.joined[topology.src] == where.joined[topology.dst]
        assert not where.share[inside].any()


def test_a_sum_face_makes_the_ways_to_it_dearer_and_the_way_from_it_cheaper() -> None:
    """At most three enter for one that leaves: 1 and 5 become 2 and 2, which is what four transfers cost."""
    topology = helped_switch(4, [_SUM_FACE])
    up = topology.dst == 4
    weight = np.where(up, 1.0, 5.0)
    weight[(topology.src < 4) & ~up] = 7.0
    balance = Limits(topology, np.arange(topology.num_links), sums=True).balanced(weight)
    assert balance.weight[up] == pytest.approx(np.full(4, 2.0))
    assert balance.weight[topology.src == 4] == pytest.approx(np.full(4, 2.0))
    uses = np.where(up, 0.75, 0.0)
    assert (weight * balance.uses(uses)).sum() == pytest.approx((balance.weight * uses).sum())

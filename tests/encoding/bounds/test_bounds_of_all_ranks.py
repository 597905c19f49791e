"""What bounds say of chunks that go to all ranks, or come from all: said at once, and as one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import full, problem, ring, two_nodes

from taccl.encoding.bounds import lower_bound, soonest
from taccl.encoding.bounds.cuts import Crossings, members
from taccl.encoding.bounds.latency import latency_bound
from taccl.encoding.bounds.partitions import Counts, Partition, alone, busiest, by_nodes, numbered
from taccl.encoding.bounds.volume import volume_bound
from taccl.encoding.instance import Instance
from taccl.model.collectives import COLLECTIVES
from taccl.model.problem import Problem

UNIFORM = ["allgather", "reducescatter", "allreduce", "broadcast"]


def requested(name: str) -> Problem:
    return problem(full(5), name, 2)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([*UNIFORM, "alltoall", "gather", "scatter"]),
    st.lists(st.integers(0, 3), min_size=5, max_size=5),
)
def test_crossings_are_those_of_all_chunks_one_by_one(name: str, labels: list[int]) -> None:
    instance = Instance(requested(name))
    parts = Partition(numbered(np.array(labels)), "parts")
    counts = instance.once(Counts)
    assert counts.least_crossings(parts) == counts._in_block(parts, 0, instance.problem.num_chunks)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(UNIFORM), st.sets(st.integers(0, 4)))
def test_what_must_enter_is_wanted_inside_and_not_all_there(name: str, ranks: set[int]) -> None:
    instance = Instance(requested(name))
    collective = instance.problem.collective
    expected = []
    for chunk in range(collective.num_chunks):
        starts, wants = (
            set(each.rank[each.chunk == chunk].tolist()) for each in (collective.inputs, collective.outputs)
        )
        if collective.reduces[chunk]:
            enters = bool(wants & ranks) and not starts <= ranks
        else:
            enters = bool((wants - starts) & ranks) and not starts & ranks
        if enters:
            expected.append(chunk)
    inside = members(5, ranks)
    assert instance.once(Crossings).must_enter(inside).tolist() == expected


@pytest.mark.parametrize("name", ["allgather", "allreduce", "broadcast"])
def test_the_longest_way_of_all_chunks_is_that_of_the_farthest_ranks(name: str) -> None:
    instance = Instance(problem(two_nodes(2), name, 1))
    collective, far = instance.problem.collective, instance.distances_us
    routes = []
    for chunk in range(collective.num_chunks):
        starts = collective.inputs.rank[collective.inputs.chunk == chunk]
        nearest = far[starts].max(axis=0) if collective.reduces[chunk] else far[starts].min(axis=0)
        routes.append(nearest[collective.outputs.rank[collective.outputs.chunk == chunk]].max())
    assert latency_bound(instance).value_us == pytest.approx(max(routes))


def test_copies_of_a_sum_go_the_ways_of_the_problem() -> None:
    instance = Instance(problem(two_nodes(2), "allreduce", 1))
    copies = instance.phases.broadcast_phase
    assert copies is not None and copies.distances_us is instance.distances_us


@pytest.mark.parametrize("name", COLLECTIVES)
def test_what_is_soonest_is_what_nodes_ranks_and_the_busiest_rank_prove(name: str) -> None:
    instance = Instance(problem(two_nodes(), name, 2))
    parts = [by_nodes(instance.problem), alone(instance.problem), busiest(instance.problem)]
    fluid, whole = soonest(instance)
    assert fluid.holds_for_any_chunks and 0.0 < fluid.value_us <= whole.value_us
    assert whole.value_us == volume_bound(instance, parts).value_us <= lower_bound(instance.problem).value_us


def test_the_busiest_rank_of_a_scatter_is_its_root() -> None:
    assert busiest(problem(full(4), "scatter", 2)).part_of.tolist() == [1, 0, 0, 0]


def test_of_what_goes_from_rank_to_rank_halves_of_a_large_ring_are_there_soon_too() -> None:
    """Each half sends 20 x 20 chunks to the other, over two links each way; a rank receives 39 over two."""
    fluid, whole = soonest(Instance(problem(ring(40, both=True), "alltoall", 1)))
    assert fluid.value_us == pytest.approx(2 * 20 * 20 / 4)
    assert whole.witness == "800 transfers between the ranks under 20 and the rest through 4 ports"


def test_one_rank_alone_proves_nothing() -> None:
    assert [proof.value_us for proof in soonest(Instance(problem(full(1), "allgather", 1)))] == [0.0, 0.0]

"""What is derived from a problem is derived once: by one instance of it, and by nobody next to that."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import ENGINE_BETAS, custom, full, machine, problem, problems, ring, two_nodes

from taccl import synthesize
from taccl.encoding.core.demand import Demand
from taccl.encoding.core.phases import owners_of
from taccl.encoding.core.timing import Decision, in_order
from taccl.encoding.engines.textbook.parts import parts_of
from taccl.encoding.instance import Instance
from taccl.encoding.quotient import quotient
from taccl.encoding.symmetry.action import Action, action_of
from taccl.encoding.symmetry.search import assumed_group
from taccl.model.automorphism import Broken
from taccl.model.collective import IntArray
from taccl.model.problem import Problem

#: What an instance derives from its problem, each a function of some module.
DERIVED = (
    "symmetry_group",
    "assumed_group",
    "quotient",
    "distances_by_limits",
    "shortest_path_sets",
    "earliest_us",
    "phases",
)


def content(value: Any) -> object:
    """A value as what it holds, so that problems made apart and equal in all they hold are equal."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(content(getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, tuple | list):
        return tuple(map(content, value))
    if isinstance(value, set):
        return frozenset(map(content, value))
    return value


def counted(monkeypatch: pytest.MonkeyPatch, name: str, calls: Counter[tuple[object, ...]]) -> None:
    """Count the calls of a function of `taccl` by what they are requested, wherever it is imported."""
    holders = [
        module
        for path, module in list(sys.modules.items())
        if path.startswith("taccl.") and callable(vars(module).get(name))
    ]
    (original,) = {vars(module)[name] for module in holders}

    def counting(*requested: Any, **named: Any) -> object:
        known = (each for each in (*requested, *named.values()) if not callable(each))
        calls[name, tuple(map(content, known))] += 1
        return original(*requested, **named)

    for module in holders:
        monkeypatch.setattr(module, name, counting)


def count_instances(monkeypatch: pytest.MonkeyPatch, calls: Counter[tuple[object, ...]]) -> None:
    make: Callable[..., None] = Instance.__init__

    def counting(instance: Instance, stated: Problem, *of: Any, **named: Any) -> None:
        calls["Instance", content(stated)] += 1
        make(instance, stated, *of, **named)

    monkeypatch.setattr(Instance, "__init__", counting)


@pytest.mark.parametrize(
    ("collective", "topology", "size", "chunks"),
    [
        ("allreduce", "ring:4", "4KB", 1),
        ("allreduce", "full:3", "1KB", 1),
        ("reducescatter", "ring:4", "1MB", 2),
        ("alltoall", "ring:3", "1KB", 1),
    ],
)
def test_a_search_derives_nothing_of_a_problem_twice(
    monkeypatch: pytest.MonkeyPatch, collective: str, topology: str, size: str, chunks: int
) -> None:
    """Of each problem there is one instance, and each thing is derived from it at most once."""
    calls: Counter[tuple[object, ...]] = Counter()
    for name in DERIVED:
        counted(monkeypatch, name, calls)
    count_instances(monkeypatch, calls)
    synthesize(collective, topology=topology, size=size, chunks=chunks, effort=1_500)
    again = Counter(str(key[0]) for key, times in calls.items() if times > 1)
    assert not again, f"derived more than once: {dict(again)}"
    assert {"Instance", "phases"} <= {key[0] for key in calls}, "the search was looked at"


@settings(max_examples=40, deadline=None)
@given(problems(names=("allreduce", "reducescatter", "allgather"), limited=True, betas=ENGINE_BETAS))
def test_what_is_known_of_a_network_changes_no_group(stated: Problem) -> None:
    """Phases leave out what the whole's network refused: their groups and quotients are those found alone."""
    whole = Instance(stated)
    whole.assumed_group()
    _ = whole.quotient
    for part in (whole.phases.reduce_phase, whole.phases.broadcast_phase):
        if part is None:
            continue
        for exchanges_first in (False, True):
            alone = assumed_group(part.problem, exchanges_first)
            assert np.array_equal(part.assumed_group(exchanges_first).rank_map, alone.rank_map)
        found, found_alone = part.quotient, quotient(part.problem)
        assert (found is None) == (found_alone is None)
        if found is not None and found_alone is not None:
            assert np.array_equal(found.chunk_map, found_alone.chunk_map)
            assert np.array_equal(found.link_map, found_alone.link_map)


def test_a_network_is_asked_once_whether_it_looks_the_same_under_a_permutation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One link of the ring is slower: no rotation is a symmetry, of the whole or of a phase."""
    requested = Counter[bytes]()

    def counting(stated: Problem, ranks: IntArray) -> Action | Broken:
        requested[ranks.tobytes()] += 1
        return action_of(stated, ranks)

    monkeypatch.setattr("taccl.encoding.symmetry.group.action_of", counting)
    links = [(rank, (rank + 1) % 6, 1.0, 2.0 if rank == 0 else 1.0) for rank in range(6)]
    whole = Instance(problem(machine(6, links), "allreduce"))
    assert whole.quotient is None
    assert whole.phases.reduce_phase is not None and whole.phases.broadcast_phase is not None
    for part in (whole, whole.phases.reduce_phase, whole.phases.broadcast_phase):
        assert part.quotient is None
        assert len(part.assumed_group()) == 1
    assert requested
    assert set(requested.values()) == {1}


def test_chunks_that_go_from_one_rank_to_another_are_told_from_those_that_stay_or_are_summed() -> None:
    requested = custom(4, [([0], [2], False), ([1], [1], False), ([0, 1], [2], True)])
    demand = Demand(requested)
    assert demand.from_one_to_another.tolist() == [0]
    assert demand.chunks_from.tolist() == [2, 2, 0, 0]
    assert demand.lacking.chunk.tolist() == [0, 2]
    assert demand.to_one
    assert not demand.moves_pairwise


@pytest.mark.parametrize(
    ("name", "kind", "broadcasts", "moves_pairwise"),
    [
        ("allgather", "spread", True, False),
        ("broadcast", "spread", True, False),
        ("alltoall", "routed", False, True),
        ("scatter", "routed", False, True),
        ("allreduce", "summed", False, False),
    ],
)
def test_textbooks_and_bounds_ask_the_same_demand(
    name: str, kind: str, broadcasts: bool, moves_pairwise: bool
) -> None:
    instance = Instance(problem(full(3), name))
    parts = instance.once(parts_of)
    assert parts is not None
    assert parts.kind == kind
    assert (instance.demand.broadcasts, instance.demand.moves_pairwise) == (broadcasts, moves_pairwise)
    assert instance.once(parts_of) is parts


def test_sums_for_one_rank_each_read_backwards_are_their_reduce_phase() -> None:
    instance = Instance(problem(ring(3), "reducescatter"))
    assert instance.reversed is instance.phases.reduce_phase
    copies = Instance(problem(ring(3), "allgather"))
    assert copies.phases.broadcast_phase is copies
    assert copies.reversed.problem.collective.name == "reducescatter"


def test_without_limits_there_is_one_kind_of_chunks_and_its_distances_are_those_of_all_links() -> None:
    instance = Instance(problem(two_nodes(), "allgather"))
    distances, kind = instance.distances_by_limits
    assert np.shares_memory(distances, instance.distances_us)
    assert not kind.any()


def test_the_owner_of_a_sum_is_the_contributor_that_passes_nothing_on() -> None:
    """0 -> 1 -> 2 on a ring of three: rank 2 has the sum of chunk 0; chunk 1 is copied from rank 1."""
    requested = custom(3, [([0, 1, 2], [2], True), ([1], [2], False)])
    stated = Problem(ring(3), requested, 1.0)
    link = stated.topology.link_index
    sends = [
        Decision((0,), link[0, 1], reduce=True),
        Decision((0,), link[1, 2], reduce=True),
        Decision((1,), link[1, 2]),
    ]
    assert owners_of(in_order(stated, sends)).tolist() == [2, 1]


@settings(max_examples=60, deadline=None)
@given(problems(limited=True, betas=ENGINE_BETAS), st.sampled_from([1.0, 1.3, 3.0]))
def test_a_link_is_on_a_short_path_if_by_it_a_chunk_is_soon_where_it_is_wanted(
    stated: Problem, slack: float
) -> None:
    instance, topology, collective = Instance(stated), stated.topology, stated.collective
    short, kinds = instance.path_sets(slack), instance.chunk_kinds
    for chunk, link in np.ndindex(*short.shape):
        distance, duration = (
            kinds.distance_us[kinds.of_chunk[chunk]],
            kinds.duration_us[kinds.of_chunk[chunk]],
        )
        has, wants = collective.pre[chunk], collective.post[chunk] & ~collective.pre[chunk]
        soonest = distance[has].min(axis=0)
        by_it = soonest[topology.src[link]] + duration[link] + distance[topology.dst[link]]
        is_soon = (by_it[wants] <= slack * soonest[wants] * (1 + 1e-9)).any()
        may_go = stated.usable(chunk)[link] and not has[topology.dst[link]]
        assert short[chunk, link] == (is_soon and may_go)

"""Where chunks go when ranks change places: the fast map next to a plain one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import examples

from taccl.model.chunk_maps import RankSets
from taccl.model.collective import Collective, IntArray, Placement
from taccl.model.collectives import COLLECTIVES, make_collective


def plain_map(it: Collective, rank_map: IntArray) -> list[int] | None:
    """Chunk by chunk: the first chunk not yet taken that has what this one has after the permutation."""

    def signatures(ranks: list[int]) -> list[object]:
        return [
            (
                ranks[it.owner[chunk]],
                bool(it.reduces[chunk]),
                sorted(ranks[rank] for rank in it.inputs.rank[it.inputs.chunk == chunk]),
                sorted(ranks[rank] for rank in it.outputs.rank[it.outputs.chunk == chunk]),
            )
            for chunk in range(it.num_chunks)
        ]

    before, after = signatures(list(range(it.num_ranks))), signatures(rank_map.tolist())
    taken: list[int] = []
    for signature in after:
        free = [chunk for chunk in range(it.num_chunks) if before[chunk] == signature and chunk not in taken]
        if not free:
            return None
        taken.append(free[0])
    return taken


@st.composite
def collectives(draw: st.DrawFn) -> Collective:
    """A standard one, or chunks that start and are wanted wherever, sums or not."""
    ranks = draw(st.integers(1, 4))
    if draw(st.booleans()):
        return make_collective(draw(st.sampled_from(COLLECTIVES)), ranks, draw(st.integers(1, 2)))
    some = st.sets(st.integers(0, ranks - 1), min_size=1)
    rows = draw(st.lists(st.tuples(some, some, st.booleans(), st.integers(0, ranks - 1)), max_size=6))

    def placement(column: int) -> Placement:
        pairs = [(chunk, rank) for chunk, row in enumerate(rows) for rank in sorted(row[column])]
        chunk, rank = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return Placement(chunk, rank, chunk)

    return Collective(
        name="drawn",
        num_ranks=ranks,
        chunks_per_rank=1,
        chunks_per_size=1,
        inputs=placement(0),
        outputs=placement(1),
        reduces=np.array([row[2] for row in rows], dtype=np.bool_),
        owner=np.array([row[3] for row in rows], dtype=np.int64),
        in_place_shift=np.zeros(ranks, dtype=np.int64),
    )


@settings(max_examples=examples(30), deadline=None)
@given(collectives(), st.data())
def test_the_map_is_that_of_the_plain_rule(it: Collective, data: st.DataObject) -> None:
    ranks = np.array(data.draw(st.permutations(range(it.num_ranks))), dtype=np.int64)
    fast, plain = it.chunk_map(ranks), plain_map(it, ranks)
    assert (None if fast is None else fast.tolist()) == plain


def test_chunks_in_any_order_are_told_by_what_they_have() -> None:
    """Chunks of an AlltoAll of three ranks, numbered backwards."""
    it = make_collective("alltoall", 3)
    last = it.num_chunks - 1
    turned = replace(
        it,
        inputs=Placement(last - it.inputs.chunk, it.inputs.rank, it.inputs.offset),
        outputs=Placement(last - it.outputs.chunk, it.outputs.rank, it.outputs.offset),
        owner=it.owner[::-1].copy(),
    )
    ranks = np.array([1, 2, 0])
    here, there = it.chunk_map(ranks), turned.chunk_map(ranks)
    assert here is not None
    assert there is not None
    assert (last - there[::-1]).tolist() == here.tolist()


def test_each_set_of_ranks_is_known_once() -> None:
    chunk, rank = np.array([0, 0, 1, 2, 2]), np.array([1, 0, 2, 0, 1])
    sets = RankSets.of(4, chunk, rank)
    assert len(sets) == 3
    assert sets.of_chunk[0] == sets.of_chunk[2]
    assert [each.tolist() for each in sets.members] == [[[]], [[2]], [[0, 1]]]


def test_a_set_that_no_chunk_has_is_no_image() -> None:
    sets = RankSets.of(2, np.array([0, 1]), np.array([0, 1]))
    assert sets.images(np.array([1, 0, 2])) is not None
    assert sets.images(np.array([1, 2, 0])) is None

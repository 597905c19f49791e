from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from taccl.errors import CollectiveError
from taccl.model.collective import Collective, Placement
from taccl.model.collectives import COLLECTIVES, calls_served, chunk_bytes, make_collective

ROOTED = ("broadcast", "reduce", "gather", "scatter")


def cells(placement: Placement) -> dict[tuple[int, int], int]:
    """(chunk, rank) -> offset."""
    columns = (placement.chunk.tolist(), placement.rank.tolist(), placement.offset.tolist())
    return {(chunk, rank): offset for chunk, rank, offset in zip(*columns, strict=True)}


def same(one: Collective, other: Collective) -> bool:
    return (
        (one.name, one.num_ranks, one.chunks_per_rank, one.chunks_per_size, one.root)
        == (other.name, other.num_ranks, other.chunks_per_rank, other.chunks_per_size, other.root)
        and cells(one.inputs) == cells(other.inputs)
        and cells(one.outputs) == cells(other.outputs)
        and np.array_equal(one.reduces, other.reduces)
        and np.array_equal(one.owner, other.owner)
        and np.array_equal(one.in_place_shift, other.in_place_shift)
    )


@st.composite
def collectives(draw) -> Collective:
    name, ranks = draw(st.sampled_from(COLLECTIVES)), draw(st.integers(1, 4))
    root = draw(st.integers(0, ranks - 1)) if name in ROOTED else None
    return make_collective(name, ranks, draw(st.integers(1, 3)), root)


def test_allgather_puts_every_part_on_every_rank_in_rank_order() -> None:
    it = make_collective("allgather", 2, 2)
    assert cells(it.inputs) == {(0, 0): 0, (1, 0): 1, (2, 1): 0, (3, 1): 1}
    assert cells(it.outputs) == {(c, r): c for c in range(4) for r in range(2)}
    assert it.owner.tolist() == [0, 0, 1, 1]
    assert it.in_place_shift.tolist() == [0, 2]
    assert (it.chunks_per_size, it.is_reduction, it.busbw_factor) == (4, False, 0.5)


def test_reducescatter_puts_the_sum_of_part_q_on_rank_q() -> None:
    it = make_collective("reducescatter", 2, 2)
    assert cells(it.inputs) == {(c, r): c for c in range(4) for r in range(2)}
    assert cells(it.outputs) == {(0, 0): 0, (1, 0): 1, (2, 1): 0, (3, 1): 1}
    assert it.owner.tolist() == [0, 0, 1, 1]
    assert it.in_place_shift.tolist() == [0, -2]
    assert (it.chunks_per_size, bool(it.reduces.all()), it.busbw_factor) == (4, True, 0.5)


def test_allreduce_puts_the_sum_of_every_part_on_every_rank() -> None:
    it = make_collective("allreduce", 3)
    everywhere = {(c, r): c for c in range(3) for r in range(3)}
    assert cells(it.inputs) == cells(it.outputs) == everywhere
    assert it.owner.tolist() == [0, 1, 2]
    assert it.in_place_shift.tolist() == [0, 0, 0]
    assert (it.chunks_per_size, bool(it.reduces.all())) == (3, True)
    assert it.busbw_factor == pytest.approx(4 / 3)


def test_alltoall_takes_part_d_of_rank_s_to_part_s_of_rank_d() -> None:
    it = make_collective("alltoall", 2, 2)
    assert cells(it.inputs) == {
        **{(0, 0): 0, (1, 0): 1, (2, 0): 2, (3, 0): 3},
        **{(4, 1): 0, (5, 1): 1, (6, 1): 2, (7, 1): 3},
    }
    assert cells(it.outputs) == {
        **{(0, 0): 0, (1, 0): 1, (4, 0): 2, (5, 0): 3},
        **{(2, 1): 0, (3, 1): 1, (6, 1): 2, (7, 1): 3},
    }
    assert it.owner.tolist() == [0] * 4 + [1] * 4
    assert (it.chunks_per_size, it.is_reduction) == (4, False)
    assert it.describe_chunk(3) == "chunk 3 (from rank 0 to rank 1)"


def test_broadcast_copies_the_roots_buffer() -> None:
    it = make_collective("broadcast", 3, 2, root=1)
    assert cells(it.inputs) == {(0, 1): 0, (1, 1): 1}
    assert cells(it.outputs) == {(c, r): c for c in range(2) for r in range(3)}
    assert (it.root, it.chunks_per_size, it.busbw_factor) == (1, 2, 1.0)
    assert it.owner.tolist() == [1, 1]


def test_reduce_sums_everything_at_the_root() -> None:
    it = make_collective("reduce", 3, 2, root=1)
    assert cells(it.inputs) == {(c, r): c for c in range(2) for r in range(3)}
    assert cells(it.outputs) == {(0, 1): 0, (1, 1): 1}
    assert (it.root, bool(it.reduces.all()), it.busbw_factor) == (1, True, 1.0)


def test_gather_takes_every_part_to_the_root() -> None:
    it = make_collective("gather", 3, 1, root=2)
    assert cells(it.inputs) == {(0, 0): 0, (1, 1): 0, (2, 2): 0}
    assert cells(it.outputs) == {(0, 2): 0, (1, 2): 1, (2, 2): 2}
    assert it.in_place_shift.tolist() == [0, 0, 2]
    assert it.owner.tolist() == [0, 1, 2]


def test_scatter_takes_part_q_from_the_root_to_rank_q() -> None:
    it = make_collective("scatter", 3, 1, root=2)
    assert cells(it.inputs) == {(0, 2): 0, (1, 2): 1, (2, 2): 2}
    assert cells(it.outputs) == {(0, 0): 0, (1, 1): 0, (2, 2): 0}
    assert it.in_place_shift.tolist() == [0, 0, -2]
    assert it.owner.tolist() == [2, 2, 2]


@settings(deadline=None)
@given(collectives())
def test_in_place_a_chunk_that_stays_where_it_is_does_not_move_in_memory(it: Collective) -> None:
    if it.name == "alltoall":  # the only one whose parts stand elsewhere in both buffers
        return
    inputs, outputs = cells(it.inputs), cells(it.outputs)
    shift = it.in_place_shift.tolist()
    for (chunk, rank), offset in inputs.items():
        if (chunk, rank) in outputs:
            assert outputs[chunk, rank] == offset + shift[rank]


@settings(deadline=None)
@given(collectives())
def test_dense_and_sparse_conditions_agree(it: Collective) -> None:
    for placement, table in ((it.inputs, it.pre), (it.outputs, it.post)):
        offsets = placement.offsets(it.num_chunks, it.num_ranks)
        assert {(c, r) for c, r in zip(*map(np.ndarray.tolist, np.nonzero(table)), strict=True)} == set(
            cells(placement)
        )
        assert all(offsets[cell] == offset for cell, offset in cells(placement).items())
        assert (offsets[~table] == -1).all()
        assert len(placement) == table.sum()


@settings(deadline=None)
@given(collectives())
def test_a_buffer_has_no_holes_and_no_two_chunks_at_one_offset(it: Collective) -> None:
    for placement in (it.inputs, it.outputs):
        size = placement.buffer_size(it.num_ranks)
        for rank in range(it.num_ranks):
            offsets = placement.offset[placement.rank == rank]
            assert sorted(offsets.tolist()) == list(range(size[rank]))


@settings(deadline=None)
@given(collectives())
def test_a_collective_reversed_twice_is_itself(it: Collective) -> None:
    if it.name == "allreduce" and it.num_ranks > 1:
        with pytest.raises(CollectiveError, match="no mirror image"):
            it.reversed()
    else:
        assert same(it.reversed().reversed(), it)


@pytest.mark.parametrize(
    ("name", "mirror"),
    [("allgather", "reducescatter"), ("broadcast", "reduce"), ("gather", "gather-reversed")],
)
def test_the_mirror_image_of_a_copy_is_a_sum(name: str, mirror: str) -> None:
    it = make_collective(name, 3, 2).reversed()
    assert it.name == mirror
    assert it.reduces.all()
    if mirror in COLLECTIVES:
        assert same(it, make_collective(mirror, 3, 2))


@settings(deadline=None)
@given(st.sampled_from(["allgather", "alltoall", "reducescatter", "allreduce"]), st.integers(1, 2), st.data())
def test_chunk_maps_are_a_group_action(name: str, pieces: int, data: st.DataObject) -> None:
    it = make_collective(name, 4, pieces)
    some = st.sampled_from([np.array(p) for p in permutations(range(4))])
    one, other = data.draw(some), data.draw(some)
    here, there, both = it.chunk_map(one), it.chunk_map(other), it.chunk_map(one[other])
    assert np.array_equal(it.chunk_map(np.arange(4)), np.arange(it.num_chunks))
    assert np.array_equal(here[there], both)
    assert sorted(here.tolist()) == list(range(it.num_chunks))


@settings(deadline=None)
@given(st.permutations(range(4)), st.sampled_from(["allgather", "alltoall", "allreduce"]))
def test_a_chunk_map_takes_conditions_along(ranks: list[int], name: str) -> None:
    it, ranks = make_collective(name, 4, 2), np.array(ranks)
    chunks = it.chunk_map(ranks)
    assert np.array_equal(it.pre[chunks][:, ranks], it.pre)
    assert np.array_equal(it.post[chunks][:, ranks], it.post)
    assert np.array_equal(it.owner[chunks], ranks[it.owner])


def test_pieces_of_a_part_keep_their_order_under_a_chunk_map() -> None:
    it = make_collective("allgather", 2, 3)
    assert it.chunk_map(np.array([1, 0])).tolist() == [3, 4, 5, 0, 1, 2]


def test_a_permutation_that_moves_the_root_is_no_symmetry() -> None:
    it = make_collective("broadcast", 3, 1, root=0)
    assert it.chunk_map(np.array([0, 2, 1])) is not None
    assert it.chunk_map(np.array([1, 0, 2])) is None


@pytest.mark.parametrize("name", ["AllGather", "all-gather", "ALL_GATHER"])
def test_names_are_read_as_people_write_them(name: str) -> None:
    assert make_collective(name, 2).name == "allgather"


def test_an_unknown_collective_is_refused_with_the_known_ones() -> None:
    with pytest.raises(CollectiveError, match="unknown collective 'allgatherv'") as caught:
        make_collective("allgatherv", 2)
    assert "reducescatter" in str(caught.value.hint)


@pytest.mark.parametrize(("ranks", "pieces"), [(0, 1), (2, 0), (-1, 1)])
def test_there_is_at_least_one_rank_and_one_chunk(ranks: int, pieces: int) -> None:
    with pytest.raises(CollectiveError, match="at least one rank and one chunk"):
        make_collective("allgather", ranks, pieces)


@pytest.mark.parametrize("name", ROOTED)
def test_a_root_is_a_rank_and_by_default_the_first(name: str) -> None:
    assert make_collective(name, 3).root == 0
    for root in (3, -1):
        with pytest.raises(CollectiveError, match=f"root {root} is no rank of 0 .. 2"):
            make_collective(name, 3, root=root)


def test_a_root_is_refused_where_there_is_none() -> None:
    with pytest.raises(CollectiveError, match="allreduce has no root"):
        make_collective("allreduce", 3, root=0)


def test_a_size_is_cut_into_equal_chunks() -> None:
    assert chunk_bytes(8, 16 * 2**20) == 2 * 2**20
    assert chunk_bytes(3, 30) == 10


@pytest.mark.parametrize(
    ("chunks", "size", "rounded"),
    [(36, 2**30, 36 * 29826160), (3, 1000, 3 * 320), (3, 17, 15), (8, 129, 128)],
)
def test_a_size_that_does_not_divide_is_rounded_down_to_chunks_of_whole_numbers_of_any_type(
    chunks: int, size: int, rounded: int
) -> None:
    assert chunk_bytes(chunks, size) * chunks == rounded


@given(chunks=st.integers(1, 10**4), size=st.integers(1, 2**40))
def test_rounding_takes_fewer_than_17_bytes_of_each_chunk_and_nothing_of_what_divides(
    chunks: int, size: int
) -> None:
    assume(size >= chunks)
    lost = size - chunk_bytes(chunks, size) * chunks
    assert 0 <= lost < 17 * chunks
    assert not lost or size % chunks


@pytest.mark.parametrize("size", [0, 1, 2])
def test_a_size_without_a_byte_for_each_chunk_is_refused(size: int) -> None:
    with pytest.raises(CollectiveError, match=f"{size} bytes has not one for each of 3 chunks") as caught:
        chunk_bytes(3, size)
    assert "3 bytes or more" in str(caught.value.hint)


# -- collectives and placements made by hand -----------------------------------------------------


def places(*rows: tuple[int, int, int]) -> Placement:
    """Rows of (chunk, rank, offset)."""
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return Placement(columns[:, 0], columns[:, 1], columns[:, 2])


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (([0, 1], [0], [0, 1]), "the columns of a placement differ in length: 2 chunks, 1 ranks and 2 off"),
        (([0], [-1], [0]), "a rank of a placement is -1, which is outside 0"),
        (([0, 1, 0], [2, 0, 2], [0, 0, 1]), "a placement has chunk 0 on rank 2 twice"),
        (([0.5], [0], [0]), "the chunks of a placement must be a column of whole numbers"),
        (([[0]], [0], [0]), "the chunks of a placement must be a column of whole numbers"),
        (("abc", [0], [0]), "the chunks of a placement must be a column of whole numbers"),
    ],
)
def test_a_placement_looks_at_its_columns(columns: tuple, words: str) -> None:
    with pytest.raises(CollectiveError) as refused:
        Placement(*columns)
    assert words in str(refused.value)


def test_a_placement_may_have_its_rows_in_any_order() -> None:
    assert len(places((1, 0, 0), (0, 1, 0), (0, 0, 1))) == 3
    assert len(places()) == 0


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"name": 3}, "the name of a collective must be a text, not 3"),
        ({"num_ranks": 0}, "num_ranks of allgather must be a whole number from 1"),
        ({"num_ranks": 4}, "in_place_shift of allgather must have a number for each rank: 4, not 3"),
        ({"chunks_per_rank": 0}, "chunks_per_rank of allgather must be a whole number from 1"),
        ({"chunks_per_size": 1.5}, "chunks_per_size of allgather must be a whole number from 1"),
        ({"root": 3}, "the root of allgather must be a whole number from 0 to 2, not 3"),
        ({"reduces": np.zeros(3)}, "reduces of allgather must be a column of true and false"),
        ({"owner": np.array([0, 1])}, "owner of allgather must have a number for each chunk: 3, not 2"),
        ({"owner": np.array([0, 1, 7])}, "each chunk of allgather must have a rank as its owner"),
        ({"inputs": places((0, 7, 0))}, "a rank of the inputs of allgather is 7, which is outside 0 .. 2"),
        ({"outputs": places((3, 0, 0))}, "a chunk of the outputs of allgather is 3, which is outside 0 .. 2"),
        ({"inputs": None}, "the inputs of allgather must be a Placement, not None"),
        ({"inputs": places((0, 0, 0))}, "chunk 1 of allgather starts nowhere"),
        ({"num_helpers": 3}, "num_helpers of allgather must be a whole number from 0 to 2, not 3"),
        ({"num_helpers": 1}, "rank 2 is a helper of allgather, and is among its inputs"),
    ],
)
def test_a_collective_looks_at_its_columns(broken: dict, words: str) -> None:
    with pytest.raises(CollectiveError) as refused:
        replace(make_collective("allgather", 3), **broken)
    assert words in str(refused.value)


def test_a_sum_has_contributions_and_is_wanted() -> None:
    reduced = make_collective("reduce", 3)
    with pytest.raises(CollectiveError, match="chunk 0 of reduce is a sum that no rank wants"):
        replace(reduced, outputs=places())
    with pytest.raises(CollectiveError, match="chunk 0 of reduce is a sum without a contribution"):
        replace(reduced, inputs=places())


def test_a_chunk_that_nobody_wants_may_lie_there_but_has_no_mirror_image() -> None:
    idle = replace(make_collective("allgather", 3), outputs=places((0, 1, 0)))
    assert idle.num_wanted.tolist() == [1, 0, 0]
    with pytest.raises(CollectiveError, match="has no mirror image"):
        idle.reversed()


def test_a_table_that_is_too_large_is_refused_before_it_is_made() -> None:
    pairs = make_collective("alltoall", 1024)
    for table in ("pre", "post"):
        with pytest.raises(CollectiveError, match="a table of 1048576 chunks times 1024 ranks is too large"):
            getattr(pairs, table)
    with pytest.raises(CollectiveError, match="too large"):
        pairs.inputs.offsets(pairs.num_chunks, pairs.num_ranks)
    assert pairs.source[1023] == 0
    assert pairs.destination[1023] == 1023


@settings(deadline=None)
@given(collectives())
def test_the_sparse_columns_say_what_the_tables_say(it: Collective) -> None:
    assert it.num_sources.tolist() == it.pre.sum(axis=1).tolist()
    assert it.num_wanted.tolist() == it.post.sum(axis=1).tolist()
    assert it.source.tolist() == it.pre.argmax(axis=1).tolist()
    assert it.destination.tolist() == it.post.argmax(axis=1).tolist()


def test_helpers_come_after_the_members_and_do_not_count() -> None:
    wide = make_collective("allgather", 4).with_helpers(1).with_helpers(2)
    assert (wide.num_ranks, wide.num_members, wide.num_helpers) == (7, 4, 3)
    assert wide.busbw_factor == make_collective("allgather", 4).busbw_factor
    assert wide.in_place_shift.tolist() == [0, 1, 2, 3, 0, 0, 0]
    assert wide.reversed().num_helpers == 3
    pairs = make_collective("alltoall", 3).with_helpers(1)
    assert pairs.describe_chunk(5) == "chunk 5 (from rank 1 to rank 2)"


@pytest.mark.parametrize(
    ("name", "sizes", "said"),
    [
        ("allgather", (1024, 4096), "1KB to 4KB"),
        ("gather", (1024, 4096), "5KB to 20KB (1KB to 4KB per rank)"),
        ("Scatter", (1024, 0), "5KB on (1KB on per rank)"),
    ],
)
def test_calls_of_gather_and_scatter_are_counted_in_both_ways(
    name: str, sizes: tuple[int, int], said: str
) -> None:
    assert calls_served(name, 5, *sizes) == said

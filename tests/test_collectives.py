from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl.collectives import COLLECTIVES, Collective, Placement, chunk_bytes, make_collective
from taccl.errors import CollectiveError

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
        and np.array_equal(one.home, other.home)
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
    assert it.home.tolist() == [0, 0, 1, 1]
    assert it.in_place_shift.tolist() == [0, 2]
    assert (it.chunks_per_size, it.is_reduction, it.busbw_factor) == (4, False, 0.5)


def test_reducescatter_puts_the_sum_of_part_q_on_rank_q() -> None:
    it = make_collective("reducescatter", 2, 2)
    assert cells(it.inputs) == {(c, r): c for c in range(4) for r in range(2)}
    assert cells(it.outputs) == {(0, 0): 0, (1, 0): 1, (2, 1): 0, (3, 1): 1}
    assert it.home.tolist() == [0, 0, 1, 1]
    assert it.in_place_shift.tolist() == [0, -2]
    assert (it.chunks_per_size, bool(it.reduces.all()), it.busbw_factor) == (4, True, 0.5)


def test_allreduce_puts_the_sum_of_every_part_on_every_rank() -> None:
    it = make_collective("allreduce", 3)
    everywhere = {(c, r): c for c in range(3) for r in range(3)}
    assert cells(it.inputs) == cells(it.outputs) == everywhere
    assert it.home.tolist() == [0, 1, 2]
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
    assert it.home.tolist() == [0] * 4 + [1] * 4
    assert (it.chunks_per_size, it.is_reduction) == (4, False)
    assert it.describe_chunk(3) == "chunk 3 (from rank 0 to rank 1)"


def test_broadcast_copies_the_roots_buffer() -> None:
    it = make_collective("broadcast", 3, 2, root=1)
    assert cells(it.inputs) == {(0, 1): 0, (1, 1): 1}
    assert cells(it.outputs) == {(c, r): c for c in range(2) for r in range(3)}
    assert (it.root, it.chunks_per_size, it.busbw_factor) == (1, 2, 1.0)
    assert it.home.tolist() == [1, 1]


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
    assert it.home.tolist() == [0, 1, 2]


def test_scatter_takes_part_q_from_the_root_to_rank_q() -> None:
    it = make_collective("scatter", 3, 1, root=2)
    assert cells(it.inputs) == {(0, 2): 0, (1, 2): 1, (2, 2): 2}
    assert cells(it.outputs) == {(0, 0): 0, (1, 1): 0, (2, 2): 0}
    assert it.in_place_shift.tolist() == [0, 0, -2]
    assert it.home.tolist() == [2, 2, 2]


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
    assert np.array_equal(it.home[chunks], ranks[it.home])


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
    assert chunk_bytes(make_collective("allgather", 4, 2), 16 * 2**20) == 2 * 2**20
    assert chunk_bytes(make_collective("alltoall", 4, 2), 16 * 2**20) == 2 * 2**20
    assert chunk_bytes(make_collective("broadcast", 4, 2), 16 * 2**20) == 8 * 2**20


@pytest.mark.parametrize(("size", "nearest"), [(1000, 999), (1, 3), (0, 3), (5, 6)])
def test_a_size_that_does_not_divide_is_refused_with_the_nearest_that_does(size: int, nearest: int) -> None:
    with pytest.raises(CollectiveError, match=f"{size} bytes cannot be cut into the 3") as caught:
        chunk_bytes(make_collective("allgather", 3), size)
    assert f"--size {nearest}," in str(caught.value.hint)

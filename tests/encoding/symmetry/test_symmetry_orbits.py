"""The group that symmetries generate, and its orbits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_problems import full, machine, problem, ring

from taccl.encoding.symmetry.action import Action, action_of, compositions, is_automorphism
from taccl.encoding.symmetry.group import symmetry_group
from taccl.errors import SketchError
from taccl.model.collectives import make_collective
from taccl.model.problem import Problem


def test_without_symmetries_the_group_is_the_identity() -> None:
    group = symmetry_group(problem(ring(4), "allgather", 2))
    assert len(group) == 1
    assert group.rank_map.tolist() == [[0, 1, 2, 3]]
    assert group.chunk_map.tolist() == [list(range(8))]
    assert group.link_map.tolist() == [[0, 1, 2, 3]]


def test_one_turn_of_a_ring_generates_all_turns() -> None:
    group = symmetry_group(problem(ring(4), "allgather", symmetry=[[1, 2, 3, 0]]))
    assert sorted(map(tuple, group.rank_map.tolist())) == [
        (0, 1, 2, 3),
        (1, 2, 3, 0),
        (2, 3, 0, 1),
        (3, 0, 1, 2),
    ]
    assert group.rank_map[0].tolist() == [0, 1, 2, 3]


def test_the_group_is_closed_under_composition() -> None:
    generators = [[2, 3, 0, 1, 6, 7, 4, 5], [1, 0, 3, 2, 5, 4, 7, 6], [4, 5, 6, 7, 0, 1, 2, 3]]
    group = symmetry_group(problem(full(8), "allgather", symmetry=generators))
    elements = set(map(tuple, group.rank_map.tolist()))
    assert len(elements) == 8
    assert {tuple(np.array(a)[list(b)]) for a in elements for b in elements} == elements


def test_a_symmetry_by_which_a_rank_would_stay_in_place_is_left_out() -> None:
    """A turn and a swap of neighbours make a reflection; a reflection fixes two ranks."""
    turn, swap, reflection = [1, 2, 3, 0], [1, 0, 3, 2], [0, 3, 2, 1]
    for generators in ([turn], [turn, swap], [reflection, turn]):
        assert len(symmetry_group(problem(full(4), "allgather", symmetry=generators))) == 4


def test_chunks_and_links_move_with_the_ranks() -> None:
    turned = problem(ring(3), "alltoall", 2, symmetry=[[1, 2, 0]])
    group, topology, collective = symmetry_group(turned), turned.topology, turned.collective
    for ranks, chunks, links in zip(group.rank_map, group.chunk_map, group.link_map, strict=True):
        assert (topology.src[links] == ranks[topology.src]).all()
        assert (topology.dst[links] == ranks[topology.dst]).all()
        assert (collective.pre[chunks][:, ranks] == collective.pre).all()
        assert (collective.post[chunks][:, ranks] == collective.post).all()


def test_a_turn_makes_one_orbit_of_all_links_and_of_each_piece() -> None:
    group = symmetry_group(problem(ring(4), "allgather", 2, symmetry=[[1, 2, 3, 0]]))
    assert group.link_representative.tolist() == [0, 0, 0, 0]
    assert group.chunk_representative.tolist() == [0, 1] * 4


def test_a_half_turn_keeps_two_orbits() -> None:
    group = symmetry_group(problem(ring(4), "allgather", symmetry=[[2, 3, 0, 1]]))
    assert len(group) == 2
    assert group.link_representative.tolist() == [0, 1, 0, 1]


def test_pairs_have_the_least_image_of_their_orbit_as_their_name() -> None:
    group = symmetry_group(problem(ring(4), "allgather", symmetry=[[1, 2, 3, 0]]))
    chunk, link = np.divmod(np.arange(16), 4)
    names = group.pair_representative(chunk, link, group.link_map)
    assert names.tolist() == [(l - c) % 4 for c, l in zip(chunk, link, strict=True)]


def test_a_link_that_goes_where_there_is_none_has_no_image() -> None:
    line = problem(machine(3, [(0, 1, 1.0, 1.0), (1, 2, 1.0, 1.0), (2, 0, 1.0, 1.0)]), "allgather")
    assert line.topology.link_map(np.array([1, 0, 2])).tolist() == [-1, -1, -1]
    assert line.topology.link_map(np.array([1, 2, 0])).tolist() == [1, 2, 0]


def test_a_symmetry_that_breaks_a_link_is_an_error() -> None:
    with pytest.raises(SketchError, match="is none: link 0 -> 1 goes to 1 -> 0, which is no link"):
        symmetry_group(problem(ring(4), "allgather", symmetry=[[1, 0, 2, 3]]))


def test_a_symmetry_that_moves_the_root_is_an_error() -> None:
    with pytest.raises(SketchError, match="is none: it changes the broadcast"):
        symmetry_group(problem(ring(4), "broadcast", symmetry=[[1, 2, 3, 0]]))


def test_maps_of_compositions_are_compositions_of_maps() -> None:
    whole = problem(full(6), "alltoall", 2)
    actions = [action_of(whole, np.array(ranks)) for ranks in ([1, 2, 0, 4, 5, 3], [3, 4, 5, 0, 1, 2])]
    generators = [each for each in actions if isinstance(each, Action)]
    group = compositions([each.ranks for each in generators], 6)
    assert group is not None
    assert len(group) == 6
    chunks = group.images([each.chunks for each in generators], whole.num_chunks)
    links = group.images([each.links for each in generators], whole.topology.num_links)
    for ranks, moved_chunks, moved_links in zip(group.ranks, chunks, links, strict=True):
        assert np.array_equal(moved_chunks, whole.collective.chunk_map(ranks))
        assert np.array_equal(moved_links, whole.topology.link_map(ranks))


def test_a_group_that_grows_beyond_its_ranks_is_given_up_at_once() -> None:
    """A turn of 12 and three turns of 4 generate more than 12 permutations, so some keep a rank."""
    turn = np.roll(np.arange(12), -1)
    quarters = np.arange(12) // 4 * 4 + (np.arange(12) + 1) % 4
    assert compositions([turn, quarters], 12, moving=12) is None
    every = compositions([turn, quarters], 12, most=100)
    assert every is not None
    assert len(every) == 100
    assert len({row.tobytes() for row in every.ranks}) == 100


TURN, SWAP = np.array([1, 2, 3, 0]), np.array([1, 0, 2])


def test_a_symmetry_keeps_sizes_ready_times_and_tails() -> None:
    plain = problem(ring(4), "allgather")
    assert is_automorphism(plain, TURN)
    assert is_automorphism(replace(plain, sizes=[2.0] * 4, ready_us=[3.0] * 4, tail_us=[1.0] * 16), TURN)
    for change in (
        {"sizes": [1.0, 1.0, 1.0, 2.0]},
        {"ready_us": [0.0, 0.0, 0.0, 1.0]},
        {"tail_us": [1.0] + [0.0] * 15},
    ):
        assert not is_automorphism(replace(plain, **change), TURN)


def test_helpers_may_stand_still_and_go_to_helpers_only() -> None:
    """Two members and a hub: the members can be swapped, and the hub with nobody."""
    links = [(a, b, 1.0, 1.0) for a in range(3) for b in range(3) if a != b]
    hub = replace(machine(3, links), is_helper=np.arange(3) == 2)
    alongside = Problem(hub, make_collective("allgather", 2).with_helpers(1), 1.0)
    assert is_automorphism(alongside, SWAP)
    assert not is_automorphism(alongside, np.array([2, 1, 0]))
    unable = replace(hub, may_copy=np.array([False, True, True]))
    assert not is_automorphism(replace(alongside, topology=unable), SWAP)

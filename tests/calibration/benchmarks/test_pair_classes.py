"""Pairs of GPUs in classes, and the links that are slower than theirs."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from taccl.calibration.benchmarks.classes import Pair, classes, degraded


def mesh(gpus: int, gbps: float = 50.0) -> dict[Pair, float]:
    """All pairs, which differ by half a percent."""
    return {pair: gbps * (1 + 0.005 * (sum(pair) % 2)) for pair in itertools.permutations(range(gpus), 2)}


def test_pairs_that_hardly_differ_are_one_class() -> None:
    (group,) = classes(mesh(8))
    assert len(group.pairs) == 56
    assert group.low <= group.gbps <= group.high


def test_pairs_of_two_speeds_are_two_classes_the_fastest_first() -> None:
    gbps = mesh(4) | dict.fromkeys(((0, 2), (2, 0), (1, 3), (3, 1)), 25.0)
    fast, slow = classes(gbps)
    assert slow.pairs == ((0, 2), (1, 3), (2, 0), (3, 1))
    assert fast.gbps > 2 * slow.gbps * 0.99


def test_two_ways_alone_tell_no_spread_and_are_one_class() -> None:
    (group,) = classes({(0, 1): 20.91, (1, 0): 22.36})
    assert (group.low, group.high) == (20.91, 22.36)


def test_classes_do_not_follow_the_noise_of_wide_measurements() -> None:
    gbps = {pair: 40.0 + 4 * (at % 5) for at, pair in enumerate(itertools.permutations(range(6), 2))}
    assert len(classes(gbps)) == 1 or min(len(group.pairs) for group in classes(gbps)) == 6


def test_a_slow_pair_of_a_mesh_is_a_degraded_link() -> None:
    reported = degraded(classes(gbps := mesh(8) | {(2, 5): 12.0, (5, 2): 12.0}), gbps)
    assert [each.split(" moves")[0] for each in reported] == ["GPU 2 -> GPU 5", "GPU 5 -> GPU 2"]
    assert "12 GB/s" in reported[0]


def test_a_gpu_all_of_whose_links_are_slow_is_told() -> None:
    gbps = mesh(4) | {pair: 20.0 for pair in mesh(4) if 3 in pair}
    assert len(degraded(classes(gbps), gbps)) == 6


def test_a_way_slower_than_the_way_back_is_told() -> None:
    gbps = {(0, 1): 20.0, (1, 0): 50.0}
    assert degraded(classes(gbps), gbps) == [
        "GPU 0 -> GPU 1 moves 20 GB/s, but the way back has 50: a degraded link?"
    ]


def test_two_speeds_that_all_gpus_share_are_no_fault() -> None:
    gbps = mesh(8, 25.0) | {(a, a ^ 1): 50.0 for a in range(8)}
    assert len(classes(gbps)) == 2
    assert not degraded(classes(gbps), gbps)


@given(st.dictionaries(st.tuples(st.integers(0, 7), st.integers(0, 7)), st.floats(0.1, 1000), min_size=1))
def test_each_pair_is_in_one_class_and_classes_do_not_overlap(gbps: dict[Pair, float]) -> None:
    groups = classes(gbps)
    assert sorted(pair for group in groups for pair in group.pairs) == sorted(gbps)
    assert all(faster.low >= slower.high for faster, slower in itertools.pairwise(groups))

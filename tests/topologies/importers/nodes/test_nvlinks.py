"""When links run to a switch is decided by their counts alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taccl.topologies.importers.nodes.nvlinks import links_of_model, wiring


def all_to_all(gpus, count):
    return [[0 if a == b else count for b in range(gpus)] for a in range(gpus)]


@pytest.mark.parametrize(
    ("gpus", "count", "switched"),
    [
        (8, 12, True),  # DGX A100
        (8, 18, True),  # HGX H200
        (8, 8, True),  # A800
        (16, 6, True),  # DGX-2
        (4, 18, True),  # a tray of GB200
        (3, 12, True),  # three of eight
        (4, 4, False),  # four A100 on one board
        (4, 6, False),  # four H100 on one board
        (8, 1, False),  # nothing that is built, but it can be
        (1, 0, False),
    ],
)
def test_more_links_than_a_gpu_has_are_links_to_a_switch(gpus, count, switched):
    found = wiring(all_to_all(gpus, count))
    assert found.has_switch is switched
    assert found.ports == ((count,) * gpus if switched else ())


def test_a_pair_does_not_tell():
    assert wiring(all_to_all(2, 18)).has_switch is None


def test_knowing_how_many_links_a_gpu_has_tells_more():
    four_of_a_dgx2 = all_to_all(4, 6)
    assert wiring(four_of_a_dgx2).has_switch is False
    assert wiring(four_of_a_dgx2, links_of_model("Tesla V100-SXM3-32GB")).has_switch is True
    assert wiring(four_of_a_dgx2, [6] * 4).ports == (6, 6, 6, 6)


def test_a_gpu_without_links_leaves_the_others_at_the_switch():
    counts = all_to_all(4, 12)
    for other in range(4):
        counts[2][other] = counts[other][2] = 0
    assert wiring(counts).ports == (12, 12, 0, 12)


def test_a_pair_without_a_way_at_the_same_switch_is_named():
    counts = all_to_all(4, 18)
    counts[1][3] = counts[3][1] = 0
    assert wiring(counts).apart == (1, 3)


def test_groups_without_links_between_them_have_a_switch_each():
    """As two of four GPUs each that a fabric manager put in different partitions."""
    counts = [[18 * (a // 4 == b // 4 and a != b) for b in range(8)] for a in range(8)]
    found = wiring(counts)
    assert found.apart is None
    assert found.ports == (18,) * 8
    assert found.switch_of == (0, 0, 0, 0, 1, 1, 1, 1)


@given(st.integers(2, 8), st.data())
def test_direct_links_never_exceed_what_a_gpu_has_unless_it_has_one_peer(gpus, data):
    counts = [[0] * gpus for _ in range(gpus)]
    for a in range(gpus):
        for b in range(a):
            counts[a][b] = counts[b][a] = data.draw(st.integers(0, 20))
    found = wiring(counts)
    for row in counts:
        if sum(row) > 18 and sum(1 for count in row if count) > 1:
            assert found.has_switch
    if found.has_switch and found.apart is None:
        assert all(port <= max(row) for port, row in zip(found.ports, counts, strict=True))

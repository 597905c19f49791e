import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl.errors import TacclError, TopologyError
from taccl.model.units import beta_from_bandwidth
from taccl.topologies import generators
from taccl.topologies.explore import hop_distances


def ends(topology):
    return {(link.src, link.dst) for link in topology.links}


def test_a_hop_costs_what_was_asked_for_in_every_shape():
    for build in (
        generators.single_switch,
        generators.ring,
        generators.torus,
        generators.mesh,
        generators.fully_connected,
        generators.hub_and_spoke,
    ):
        path = build(4, alpha_us=0.7, bandwidth_gbps=25).path(0, 1)
        assert path.alpha_us == pytest.approx(0.7)
        assert path.beta_us_per_mb == beta_from_bandwidth(25)
        assert build(4, beta_us_per_mb=9).path(0, 1).beta_us_per_mb == 9
        assert build(4, occupancy="pipelined").occupancy == "pipelined"


def test_a_ring_of_two_has_one_link_each_way():
    assert ends(generators.ring(2)) == {("gpu0", "gpu1"), ("gpu1", "gpu0")}


def test_a_ring_goes_both_ways_unless_asked_otherwise():
    assert len(generators.ring(5).links) == 10
    one_way = generators.ring(5, unidirectional=True)
    assert ends(one_way) == {(f"gpu{i}", f"gpu{(i + 1) % 5}") for i in range(5)}


def test_a_torus_dimension_of_two_has_no_double_links():
    assert ends(generators.torus(2, 2)) == ends(generators.mesh(2, 2))
    assert len(generators.torus(2, 3).links) == 2 * (3 + 6)


def test_ranks_of_a_grid_are_row_major():
    assert ("gpu1", "gpu5") in ends(generators.mesh(3, 4))
    assert ("gpu3", "gpu0") in ends(generators.torus(3, 4))
    assert ("gpu3", "gpu4") not in ends(generators.torus(3, 4))


@settings(deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3).filter(lambda sizes: math.prod(sizes) > 1))
def test_hops_in_a_grid_are_the_sum_over_its_dimensions(sizes):
    places = [
        [rank // math.prod(sizes[d + 1 :]) % size for d, size in enumerate(sizes)]
        for rank in range(math.prod(sizes))
    ]
    far = {"mesh": lambda d, size: d, "torus": lambda d, size: min(d, size - d)}
    for name, build in (("mesh", generators.mesh), ("torus", generators.torus)):
        hops = hop_distances(build(*sizes))
        for a, one in enumerate(places):
            steps = sum(far[name](abs(x - y), s) for x, y, s in zip(places[0], one, sizes, strict=True))
            assert hops[0, a] == steps


def test_a_switch_is_no_rank():
    topology = generators.single_switch(4)
    assert topology.num_ranks == 4
    assert len(topology.links) == 8
    assert (hop_distances(topology) <= 1).all()


def test_spokes_meet_at_the_hub_only():
    hops = hop_distances(generators.hub_and_spoke(4))
    assert hops[0].tolist() == [0, 1, 1, 1]
    assert hops[1].tolist() == [1, 0, 2, 2]


@pytest.mark.parametrize(
    "build",
    [
        lambda: generators.ring(1),
        lambda: generators.torus(0, 4),
        generators.torus,
        lambda: generators.mesh(1, 1),
        lambda: generators.fully_connected(4000),
        lambda: generators.single_switch(10**9),
        lambda: generators.ring(4, alpha_us=-1),
        lambda: generators.ring(4, alpha_us=math.nan),
        lambda: generators.ring(4, bandwidth_gbps=0),
        lambda: generators.ring(4, bandwidth_gbps=math.inf),
        lambda: generators.ring(4, beta_us_per_mb=-2),
        lambda: generators.ring(4, beta_us_per_mb=2, bandwidth_gbps=2),
        lambda: generators.ring(4, occupancy="sometimes"),
    ],
)
def test_a_shape_or_cost_that_is_none_is_refused(build):
    with pytest.raises(TacclError) as caught:
        build()
    assert caught.value.message


def test_the_largest_machine_is_named_when_one_is_larger():
    with pytest.raises(TopologyError, match="2 to 4096 GPUs, not 5000"):
        generators.ring(5000)

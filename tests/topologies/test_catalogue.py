import pytest

from taccl.errors import TopologyError
from taccl.topologies import build_topology, catalogue


def test_every_entry_of_the_catalogue_can_be_built_by_its_name():
    for entry in catalogue():
        topology = build_topology(entry.name)
        assert topology.name == entry.name
        assert topology.num_nodes == entry.default_nodes
        assert entry.summary


def test_the_number_of_nodes_can_be_chosen():
    assert build_topology("ndv2", nodes=5).num_ranks == 40


def test_costs_and_occupancy_are_parameters():
    topology = build_topology("torus:3x3x3", alpha_us=1.5, beta_us_per_mb=4.0, occupancy="pipelined")
    assert (topology.links[0].alpha_us, topology.links[0].beta_us_per_mb) == (1.5, 4.0)
    assert (topology.num_ranks, topology.occupancy) == (27, "pipelined")
    assert build_topology("dgx2", occupancy="pipelined").occupancy == "pipelined"


@pytest.mark.parametrize(
    ("name", "nodes", "params", "message", "hint"),
    [
        ("ndv3", None, {}, "no machine called 'ndv3'", "'ndv2'"),
        ("toros:4x4", None, {}, "no machine called 'toros:4x4'", "'torus'"),
        ("cray", None, {}, "no machine called 'cray'", "torus:4x4"),
        ("ring", None, {}, "ring needs a shape", "ring:8"),
        ("ring:4x4", None, {}, "no shape of a ring", "ring:8"),
        ("torus:4xx4", None, {}, "no shape of a torus", "torus:4x4"),
        ("torus:-4", None, {}, "no shape of a torus", "torus:4x4"),
        ("ndv2:4", None, {}, "takes no shape", "nodes"),
        ("ring:8", 2, {}, "is one node", "nodes"),
        ("ring:8", None, {"alpha": 1}, "takes no parameter 'alpha'", "'alpha_us'"),
        ("ndv2", None, {"alpha_us": 1}, "takes no parameter 'alpha_us'", "occupancy"),
    ],
)
def test_a_name_or_parameter_that_is_none_is_refused_with_advice(name, nodes, params, message, hint):
    with pytest.raises(TopologyError) as caught:
        build_topology(name, nodes=nodes, **params)
    assert message in caught.value.message
    assert hint in caught.value.hint

import pytest

from taccl.errors import TopologyError
from taccl.topologies import CONFIDENCE, build_topology, catalogue, catalogue_entry


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
        ("nvd2", None, {}, "no machine called 'nvd2'", "'ndv2'"),
        ("toros:4x4", None, {}, "no machine called 'toros:4x4'", "'torus'"),
        ("cray", None, {}, "no machine called 'cray'", "torus:4x4"),
        ("ring", None, {}, "ring needs a shape", "ring:8"),
        ("ring:4x4", None, {}, "no shape of a ring", "ring:8"),
        ("torus:4xx4", None, {}, "no shape of a torus", "torus:4x4"),
        ("torus:four", None, {}, "no shape of a torus", "torus:4x4"),
        ("torus:-4", None, {}, "sizes of 1 or more, not 'torus:-4'", None),
        ("ring:-3", None, {}, "ring takes 2 to 4096 GPUs, not -3", None),
        ("ring:999999999", None, {}, "ring takes 2 to 4096 GPUs, not 999999999", None),
        ("ndv2:4", None, {}, "takes no shape", "nodes"),
        ("ring:8", 2, {}, "is one node", "nodes"),
        ("pcie:8", None, {}, "no shape of a pcie", "pcie:2x4"),
        ("pcie:1x1", None, {}, "has CPUs and GPUs at each", "pcie:2x4"),
        ("tpu-v4:4x4", None, {}, "no shape of a tpu-v4", "tpu-v4:4x4x4"),
        ("tpu-v6e:32x16", None, {}, "tpu-v6e takes 2 to 256 chips", None),
        ("dgx-h100", None, {"bandwidth": "fast"}, "bandwidth", "peak"),
        ("ndv2", None, {"bandwidth": "peak"}, "takes no parameter 'bandwidth'", "occupancy"),
        ("ring:8", None, {"alpha": 1}, "takes no parameter 'alpha'", "'alpha_us'"),
        ("ndv2", None, {"alpha_us": 1}, "takes no parameter 'alpha_us'", "occupancy"),
    ],
)
def test_a_name_or_parameter_that_is_none_is_refused_with_advice(name, nodes, params, message, hint):
    with pytest.raises(TopologyError) as caught:
        build_topology(name, nodes=nodes, **params)
    assert message in caught.value.message
    assert hint is None or hint in caught.value.hint


@pytest.mark.parametrize("entry", catalogue(), ids=lambda entry: entry.name)
def test_every_entry_says_how_it_is_known_and_who_says_so(entry):
    assert entry.confidence in CONFIDENCE
    assert entry.source
    assert all(figure.source and figure.value > 0 for figure in entry.figures)
    assert entry.figures or entry.confidence == "shape"


def test_a_name_with_other_numbers_belongs_to_the_entry_of_its_shape():
    assert catalogue_entry("ring:5").name == "ring:8"
    assert catalogue_entry("ndv2").name == "ndv2"
    assert catalogue_entry("my-machine") is None

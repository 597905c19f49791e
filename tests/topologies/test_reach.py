import numpy as np
import pytest

from taccl.errors import TopologyError
from taccl.sketch import find_sketch, load_sketch
from taccl.sketch.layout import layout_of
from taccl.sketch.network import count_links, logical_topology
from taccl.topologies import load_topology
from taccl.topologies.reach import check_pairs, may_reach

MACHINES = (
    "ring:5",
    "switch:6",
    "torus:3x3",
    "full:4",
    "hub:5",
    "ndv2",
    "dgx2",
    "a100",
    "ndv2-teccl",
    "dgx2-teccl",
)


@pytest.mark.parametrize("name", MACHINES)
def test_gpus_that_have_a_path_are_those_that_are_said_to_reach_each_other(name: str) -> None:
    machine = load_topology(name)
    ranks = range(machine.num_ranks)
    paths = [[src != dst and machine.path(src, dst) is not None for dst in ranks] for src in ranks]
    assert (may_reach(machine) == np.array(paths)).all()


@pytest.mark.parametrize(
    "name", ["dgx2-sk-1", "dgx2-sk-2", "dgx2-sk-3", "ndv2-sk-1", "ndv2-sk-2", "ndv2-n1-sk-1"]
)
def test_the_links_that_a_sketch_makes_are_counted_before(name: str) -> None:
    sketch = load_sketch(find_sketch(name))
    assert sketch.topology is not None
    machine = load_topology(sketch.topology, nodes=sketch.nodes)
    layout = layout_of(machine)
    assert count_links(sketch, machine, layout) == logical_topology(sketch, machine, layout).num_links


def test_machines_with_too_many_paths_are_not_looked_through() -> None:
    check_pairs(load_topology("ring:4096"))
    with pytest.raises(TopologyError, match="16773120 links from rank to rank"):
        check_pairs(load_topology("switch:4096"))

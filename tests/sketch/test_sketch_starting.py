import pytest

from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.sketch import apply_sketch, parse_sketch, proposed_sketch, starting_sketch
from taccl.topologies import Device, Link, PhysicalTopology, build_topology, catalogue
from taccl.topologies.without import without_helpers

MACHINES = sorted(
    {(entry.name, nodes) for entry in catalogue() for nodes in (1, entry.default_nodes)}
    | {("dgx2", 3), ("ndv2", 4)}
)


@pytest.mark.parametrize(("name", "nodes"), MACHINES)
def test_a_starting_sketch_loads_and_applies_as_it_stands(name: str, nodes: int) -> None:
    machine = without_helpers(build_topology(name, nodes=nodes))
    sketch = parse_sketch(starting_sketch(machine, name))
    assert (sketch.topology, sketch.nodes) == (name, nodes)
    for collective in COLLECTIVES:
        demand = make_collective(collective, machine.num_ranks, sketch.chunks_per_rank)
        assert apply_sketch(sketch, machine, demand, 1.0).problem.num_ranks == machine.num_ranks


def test_every_symmetry_it_names_is_one() -> None:
    machine = build_topology("dgx2", nodes=2)
    sketch = parse_sketch(starting_sketch(machine, "dgx2"))
    problem = apply_sketch(sketch, machine, make_collective("allgather", 32), 1.0).problem
    assert [str(rotation) for rotation in sketch.symmetry] == ["[2, node]", "[node, machine]"]
    assert len(problem.symmetry) == 2


def test_for_a_dgx2_it_is_the_published_relay() -> None:
    sketch = parse_sketch(starting_sketch(build_topology("dgx2", nodes=2), "dgx2"))
    assert sketch.intranode.strategy == "switch"
    assert [(r.sender, r.receivers) for r in sketch.internode.relays] == [
        (2 * k + 1, (2 * k,)) for k in range(8)
    ]
    assert [e.owners for e in sketch.internode.sender_for] == [(2 * k, 2 * k + 1) for k in range(8)]


def test_a_machine_without_symmetry_gets_none() -> None:
    devices = tuple(Device(f"gpu{i}", "gpu", 0, i) for i in range(3))
    links = (Link("gpu0", "gpu1", 1, 1), Link("gpu1", "gpu2", 1, 1), Link("gpu2", "gpu0", 1, 2))
    sketch = parse_sketch(starting_sketch(PhysicalTopology("odd", devices, links), "odd.yaml"))
    assert sketch.symmetry == ()


def test_an_odd_name_does_no_harm() -> None:
    name = 'a "quoted"\nname: # &x'
    machine = build_topology("ring:4")
    assert parse_sketch(starting_sketch(machine, name)).topology == name


def test_it_explains_itself() -> None:
    text = starting_sketch(build_topology("ndv2", nodes=2), "ndv2")
    for word in ("minmax", "fully-connected", "own_first", "nic_sharing", "symmetry"):
        assert word in text
    assert max(map(len, text.splitlines())) <= 110
    assert "\n\n\n" not in text


def test_a_sketch_is_proposed_where_gpus_share_nics() -> None:
    sketch = proposed_sketch(build_topology("dgx2", nodes=2))
    assert sketch is not None
    assert [(relay.sender, relay.receivers) for relay in sketch.internode.relays][:2] == [
        (1, (0,)),
        (3, (2,)),
    ]
    for name, nodes in (("dgx-h100", 2), ("dgx2", 1)):
        assert proposed_sketch(build_topology(name, nodes=nodes)) is None

from textwrap import dedent

import pytest

from taccl.errors import TopologyError
from taccl.topologies import dgx2, load_topology_file, ndv2, parse_topology

COST = "alpha_us: 1, beta_us_per_mb: 2"

NDV2 = """
name: ndv2
nodes: 2
node:
  gpus: 8
  pcie: [pcie]
  nics: 1
  links:
    - {pairs: [0-1, 0-4, 1-3, 2-3, 2-6, 4-5, 5-7, 6-7], alpha_us: 0.3, beta_us_per_mb: 23}
    - {pairs: [0-2, 0-3, 1-2, 1-5, 3-7, 4-6, 4-7, 5-6], alpha_us: 0.3, beta_us_per_mb: 46}
    - {from: [gpu0, gpu1, nic0], to: pcie, alpha_us: 0, beta_us_per_mb: 105}
fabric: {alpha_us: 2.6, beta_us_per_mb: 105}
"""

DGX2 = """
name: dgx2
node:
  gpus: 16
  switches: [nvswitch]
  nics: 8
  links:
    - {from: gpus, to: nvswitch, alpha_us: 0.15, beta_us_per_mb: 8}
    - {from: gpus, to: nics, match: even, alpha_us: 0, beta_us_per_mb: 105}
fabric: {alpha_us: 2.6, beta_us_per_mb: 105}
"""


def flat(links, gpus=4, more=""):
    return parse_topology(f"name: m\ngpus: {gpus}\n{more}\nlinks:\n  - {links}\n")


def ends(topology):
    return [(link.src, link.dst) for link in topology.links]


@pytest.mark.parametrize(("text", "build"), [(NDV2, ndv2), (DGX2, dgx2)])
@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_the_published_machines_can_be_written_by_hand(text, build, nodes):
    written, built = parse_topology(text, nodes), build(nodes)
    assert set(written.links) == set(built.links)
    assert set(written.devices) == set(built.devices)
    assert [gpu.name for gpu in written.gpus] == [gpu.name for gpu in built.gpus]


def test_the_file_says_how_many_nodes_unless_the_caller_does():
    assert parse_topology(NDV2).num_nodes == 2
    assert parse_topology(NDV2, nodes=4).num_nodes == 4
    assert parse_topology(DGX2).num_nodes == 1


def test_links_go_both_ways_unless_said_otherwise():
    assert ends(flat(f"{{pairs: [0-1], {COST}}}")) == [("gpu0", "gpu1"), ("gpu1", "gpu0")]
    assert ends(flat(f"{{pairs: [0-1], one_way: true, {COST}}}")) == [("gpu0", "gpu1")]
    assert ends(flat(f"{{from: 0, to: [1, gpu2], one_way: true, {COST}}}")) == [
        ("gpu0", "gpu1"),
        ("gpu0", "gpu2"),
    ]


def test_all_with_all_makes_every_link_once():
    topology = flat(f"{{from: gpus, to: gpus, {COST}}}")
    assert len(topology.links) == 12


def test_a_pair_may_be_a_list():
    more = "switches: 1"
    assert ends(flat(f"{{pairs: [[gpu0, switch0], 1 - switch0], one_way: true, {COST}}}", more=more)) == [
        ("gpu0", "switch0"),
        ("gpu1", "switch0"),
    ]


@pytest.mark.parametrize(
    ("gpus", "nics", "expected"),
    [(4, 2, [0, 0, 1, 1]), (3, 3, [0, 1, 2]), (5, 2, [0, 0, 0, 1, 1])],
)
def test_an_even_match_spreads_in_order(gpus, nics, expected):
    topology = flat(f"{{from: gpus, to: nics, match: even, one_way: true, {COST}}}", gpus, f"nics: {nics}")
    assert ends(topology) == [(f"gpu{g}", f"nic{n}") for g, n in enumerate(expected)]


def test_an_even_match_works_in_either_direction():
    topology = flat(f"{{from: nics, to: gpus, match: even, one_way: true, {COST}}}", 4, "nics: 2")
    assert ends(topology) == [("nic0", "gpu0"), ("nic0", "gpu1"), ("nic1", "gpu2"), ("nic1", "gpu3")]


def test_a_bandwidth_is_converted_once():
    assert flat("{pairs: [0-1], alpha_us: 1, bandwidth_gbps: 104.8576}").links[0].beta_us_per_mb == 10


def test_gpus_have_the_names_they_are_given():
    topology = parse_topology(f"name: m\ngpus: [a, b]\nlinks: [{{pairs: [a-b], {COST}}}]")
    assert topology.rank_of == {"a": 0, "b": 1}


def test_the_fabric_has_half_of_its_alpha_on_each_side():
    topology = parse_topology(NDV2)
    link = next(link for link in topology.links if link.dst == "fabric")
    assert (link.alpha_us, link.beta_us_per_mb) == (1.3, 105)


def test_occupancy_is_serial_unless_said_otherwise():
    assert flat(f"{{pairs: [0-1], {COST}}}").occupancy == "serial"
    assert flat(f"{{pairs: [0-1], {COST}}}", more="occupancy: pipelined").occupancy == "pipelined"


FAULTY_LINKS = [
    (f"{{pairs: [0-1], {COST}, colour: red}}", "unknown key 'colour' in links[0]"),
    ("{pairs: [0-1], beta_us_per_mb: 1}", "links[0] lacks the key 'alpha_us'"),
    ("{pairs: [0-1], alpha_us: 1}", "links[0] lacks beta_us_per_mb or bandwidth_gbps"),
    (f"{{pairs: [0-1], {COST}, bandwidth_gbps: 3}}", "links[0] has both beta_us_per_mb and bandwidth_gbps"),
    ("{pairs: [0-1], alpha_us: -1, beta_us_per_mb: 1}", "links[0].alpha_us must be 0 or more, not -1"),
    ("{pairs: [0-1], alpha_us: .nan, beta_us_per_mb: 1}", "links[0].alpha_us must be finite, not .nan"),
    ("{pairs: [0-1], alpha_us: 1, bandwidth_gbps: 0}", "links[0].bandwidth_gbps must be positive, not 0"),
    ("{pairs: [0-1], alpha_us: 1, bandwidth_gbps: -5}", "links[0].bandwidth_gbps must be positive, not -5"),
    ("{pairs: [0-1], alpha_us: 1, bandwidth_gbps: .inf}", "links[0].bandwidth_gbps must be finite, not .inf"),
    (
        "{pairs: [0-1], alpha_us: 1, bandwidth_gbps: 1e-320}",
        "links[0].bandwidth_gbps is out of range: 1e-320",
    ),
    ("{pairs: [0-1], alpha_us: fast, beta_us_per_mb: 1}", "links[0].alpha_us must be a number, not 'fast'"),
    (f"{{{COST}}}", "links[0] must have either 'pairs', or 'from' and 'to'"),
    (f"{{from: 0, {COST}}}", "links[0] must have either 'pairs', or 'from' and 'to'"),
    (f"{{from: 0, to: 1, pairs: [0-1], {COST}}}", "links[0] must have either 'pairs', or 'from' and 'to'"),
    (f"{{pairs: [0-1], match: even, {COST}}}", "'match' goes with 'from' and 'to', not with 'pairs'"),
    (f"{{from: 0, to: 1, match: some, {COST}}}", "links[0].match must be all or even, not 'some'"),
    (f"{{pairs: [0-9], {COST}}}", "links[0].pairs[0] names GPU 9, but there are only 4"),
    (f"{{pairs: [gpu0-gpo1], {COST}}}", "links[0].pairs[0] must name a device, not 'gpo1'"),
    (f"{{pairs: [0-1-2], {COST}}}", "links[0].pairs[0] must be a pair such as 0-1 or gpu0-nic0, not '0-1-2'"),
    (f"{{pairs: [3], {COST}}}", "links[0].pairs[0] must be a pair such as 0-1 or gpu0-nic0, not 3"),
    (f"{{pairs: [[0, 1, 2]], {COST}}}", "links[0].pairs[0] must have 2 values, not 3"),
    (f"{{pairs: [1-1], {COST}}}", "links[0].pairs[0] leads from gpu1 to itself"),
    (f"{{from: 1, to: gpu1, {COST}}}", "links[0] leads from gpu1 to itself"),
    (f"{{from: [], to: 1, {COST}}}", "links[0].from names no device"),
    (f"{{from: [[0]], to: 1, {COST}}}", "links[0].from[0] must name a device"),
    (f"{{from: gpus, to: nics, {COST}}}", "links[0].to is 'nics', but the machine has none"),
    (f"{{pairs: [0-1], one_way: yes, {COST}}}", "links[0].one_way must be true or false, not 'yes'"),
]


@pytest.mark.parametrize(("entry", "message"), FAULTY_LINKS)
def test_a_faulty_link_is_named_with_its_line(entry, message):
    with pytest.raises(TopologyError) as caught:
        flat(entry)
    assert (caught.value.message, caught.value.line) == (message, 5)


def test_entries_that_link_the_same_devices_are_parallel_links():
    """Two NVLinks of 25 GB/s and one of 50 between GPUs 0 and 1 carry 100 GB/s."""
    topology = flat(
        "{pairs: [0-1], alpha_us: 1, bandwidth_gbps: 25}\n"
        "  - {pairs: [1-0], alpha_us: 1, bandwidth_gbps: 25}\n"
        "  - {pairs: [0-1], one_way: true, alpha_us: 3, bandwidth_gbps: 50}"
    )
    there, back = topology.links
    assert (there.alpha_us, there.beta_us_per_mb) == (3, pytest.approx(2**20 / 1e5))
    assert (back.alpha_us, back.beta_us_per_mb) == (1, pytest.approx(2**20 / 5e4))


def test_a_pair_that_one_entry_names_twice_is_one_link():
    assert ends(flat(f"{{pairs: [0-1, 1-0, 0-1], {COST}}}")) == [("gpu0", "gpu1"), ("gpu1", "gpu0")]


FAULTY_MACHINES = [
    ("gpus: 2\nlinks: []", 1, "the file lacks the key 'name'"),
    ("name: m\nlinks: []", 1, "the file lacks the key 'gpus'"),
    ("name: m\ngpus: 2", 1, "the file lacks the key 'links'"),
    ("name: m\ngpsu: 2\nlinks: []", 2, "unknown key 'gpsu' in the file"),
    ("name: 7\ngpus: 2\nlinks: []", 1, "name must be a text, not 7"),
    ("name: m\ngpus: 0\nlinks: []", 2, "gpus must be 1 or more"),
    ("name: m\ngpus: two\nlinks: []", 2, "gpus must be a whole number, not 'two'"),
    ("name: m\ngpus: 99999\nlinks: []", 2, "gpus must be 4096 or less, not 99999"),
    ("name: m\ngpus: [a, a]\nlinks: []", 2, "the name 'a' is already given on line 2"),
    ("name: m\ngpus: [a-b]\nlinks: []", 2, "'a-b' cannot name a device"),
    ("name: m\ngpus: [a]\nnics: [gpus]\nlinks: []", 3, "'gpus' cannot name a device"),
    ("name: m\ngpus: 2\nlinks: {}", 3, "links must be a list, not a mapping"),
    (
        "name: m\ngpus: 2\noccupancy: never\nlinks: []",
        3,
        "occupancy must be serial or pipelined, not 'never'",
    ),
    (
        "name: m\ngpus: 2\nnodes: 2\nlinks: []",
        1,
        "a machine of several nodes has its GPUs and links under 'node:'",
    ),
    ("name: m\nnode: {gpus: 2}\nnodes: 2", 1, "2 nodes have no fabric between them"),
    ("name: m\nnode: {gpus: 2}\nnodes: 0", 3, "nodes must be 1 or more, not 0"),
    ("name: m\nnode: {}", 2, "node lacks the key 'gpus'"),
    ("name: m\nnode: {gpus: 2, gpu: 3}", 2, "unknown key 'gpu' in node"),
    (
        f"name: m\nnode: {{gpus: 2, nics: 0}}\nfabric: {{{COST}}}",
        3,
        "a fabric joins the nodes' NICs, but the node has none",
    ),
    (
        "name: m\nnode: {gpus: 2, nics: 1}\nfabric: {alpha_us: 1}",
        3,
        "fabric lacks beta_us_per_mb or bandwidth_gbps",
    ),
    ("- a\n- b", 1, "the file must be a mapping (key: value), not a list"),
    ("just words", 1, "the file must be a mapping (key: value), not 'just words'"),
]


@pytest.mark.parametrize(("text", "line", "message"), FAULTY_MACHINES)
def test_a_faulty_machine_is_named_with_its_line(text, line, message):
    with pytest.raises(TopologyError) as caught:
        parse_topology(text, path="m.yaml")
    assert (caught.value.message, caught.value.line, caught.value.path) == (message, line, "m.yaml")


def test_a_machine_without_nodes_takes_no_number_of_them():
    text = dedent(f"""
        name: m
        gpus: 2
        links: [{{pairs: [0-1], {COST}}}]
    """)
    assert parse_topology(text, nodes=1).num_ranks == 2
    with pytest.raises(TopologyError, match="has no nodes"):
        parse_topology(text, nodes=2)


@pytest.mark.parametrize("nodes", [0, -3, 10**7])
def test_a_number_of_nodes_that_is_none_is_refused(nodes):
    with pytest.raises(TopologyError):
        parse_topology(NDV2, nodes=nodes)


def test_a_profile_in_place_of_a_machine_is_recognised(tmp_path):
    path = tmp_path / "topo-ndv2-1MB.json"
    path.write_text('{"name": "NDv2_1MB", "node_betas_list": [23, 46]}')
    with pytest.raises(TopologyError, match="a profile of costs, not a machine"):
        load_topology_file(path)

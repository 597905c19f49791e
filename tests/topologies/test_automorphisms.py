import pytest

from taccl.topologies import automorphisms, build_topology, parse_topology


def relabelled(topology, permutation):
    """The links between ranks, with their costs, after renaming r to permutation[r]."""
    ranks = range(topology.num_ranks)
    paths = {(a, b): topology.path(a, b) for a in ranks for b in ranks}
    return {
        (permutation[a], permutation[b], path.alpha_us, path.beta_us_per_mb)
        for (a, b), path in paths.items()
        if path
    }


@pytest.mark.parametrize(
    ("name", "nodes", "count"),
    [("ring:6", None, 12), ("ring-oneway:6", None, 6), ("hub:4", None, 6), ("ndv2", 1, 1), ("ndv2", 3, 6)],
)
def test_all_automorphisms_of_a_small_machine_are_found(name, nodes, count):
    topology = build_topology(name, nodes)
    found = automorphisms(topology)
    assert len(set(found)) == len(found) == count
    assert found[0] == tuple(range(topology.num_ranks))


@pytest.mark.parametrize(
    ("name", "nodes"), [("ndv2", 2), ("dgx2", 2), ("torus:3x4", None), ("ndv2-teccl", 2)]
)
def test_an_automorphism_leaves_every_path_as_it_was(name, nodes):
    topology = build_topology(name, nodes)
    found = automorphisms(topology, limit=5)
    assert 1 < len(found) <= 5
    for permutation in found:
        assert relabelled(topology, permutation) == relabelled(topology, range(topology.num_ranks))


def test_devices_of_one_node_stay_together():
    for permutation in automorphisms(build_topology("dgx2", 2), limit=20):
        assert len({permutation[rank] // 16 for rank in range(16)}) == 1


def test_different_costs_are_different_links():
    text = "name: m\ngpus: 3\nlinks:\n"
    equal = "  - {pairs: [0-1, 1-2, 2-0], alpha_us: 1, beta_us_per_mb: 2}\n"
    unequal = equal.replace(", 2-0", "") + "  - {pairs: [2-0], alpha_us: 1, beta_us_per_mb: 3}\n"
    assert len(automorphisms(parse_topology(text + equal))) == 6
    assert set(automorphisms(parse_topology(text + unequal))) == {(0, 1, 2), (2, 1, 0)}


def test_no_more_than_the_limit_are_returned():
    assert len(automorphisms(build_topology("full:8"), limit=7)) == 7

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl.errors import TopologyError
from taccl.topologies import NO_NODE, Device, Link, PhysicalTopology, dgx2, ndv2


def machine(devices, links):
    """Devices by name: g* GPUs, s* switches, n* NICs, p* PCIe; a number after a colon is the node."""
    kinds = {"g": "gpu", "s": "switch", "n": "nic", "p": "pcie", "f": "fabric"}
    made, counts = [], {}
    for text in devices.split():
        name, _, node = text.partition(":")
        number = NO_NODE if name[0] == "f" else int(node or 0)
        local = counts.get((name[0], number), 0)
        counts[name[0], number] = local + 1
        made.append(Device(name, kinds[name[0]], number, local))
    return PhysicalTopology("m", tuple(made), tuple(Link(*link) for link in links))


def names(topology, path):
    links = [topology.links[link] for link in path.links]
    return [links[0].src, *(link.dst for link in links)]


def test_a_direct_link_is_the_path_even_if_a_switch_is_faster():
    m = machine("g0 g1 s", [("g0", "g1", 1, 50), ("g0", "s", 0, 1), ("s", "g1", 0, 1)])
    assert m.path(0, 1).links == (0,)


def test_no_path_leads_past_another_gpu():
    m = machine("g0 g1 g2", [("g0", "g1", 1, 1), ("g1", "g2", 1, 1)])
    assert m.path(0, 1) is not None
    assert m.path(0, 2) is None
    assert m.path(1, 0) is None


def test_a_rank_has_no_path_to_itself():
    assert ndv2(2).path(3, 3) is None
    assert ndv2(2).host_path(3, 3) is None


def test_alphas_add_and_the_largest_beta_counts():
    m = machine("g0 g1 s", [("g0", "s", 1, 5), ("s", "g1", 2, 3)])
    path = m.path(0, 1)
    assert (path.alpha_us, path.beta_us_per_mb) == (3, 5)


def test_of_two_ways_the_smaller_beta_wins_before_the_smaller_alpha():
    links = [("g0", "s0", 0, 9), ("s0", "g1", 0, 9), ("g0", "s1", 5, 8), ("s1", "g1", 5, 8)]
    assert machine("g0 g1 s0 s1", links).path(0, 1).beta_us_per_mb == 8


def test_a_slow_last_link_makes_a_slow_first_link_with_less_alpha_the_better():
    links = [("g0", "s0", 9, 1), ("s0", "s2", 0, 1), ("g0", "s1", 1, 7), ("s1", "s2", 0, 7)]
    m = machine("g0 g1 s0 s1 s2", [*links, ("s2", "g1", 0, 10)])
    path = m.path(0, 1)
    assert names(m, path) == ["g0", "s1", "s2", "g1"]
    assert (path.alpha_us, path.beta_us_per_mb) == (1, 10)


def test_gpus_of_one_node_do_not_meet_over_nics_or_the_fabric():
    links = [(a, b, 1, 1) for a, b in (("g0", "n0"), ("n0", "g1"), ("n0", "f"), ("f", "n1"), ("n1", "g1"))]
    assert machine("g0 g1 n0 n1 f", links).path(0, 1) is None


def test_gpus_equally_far_from_several_nics_spread_over_them():
    links = []
    for node in (0, 1):
        for g in range(4):
            links += [(f"g{node}{g}", f"p{node}", 0, 1), (f"p{node}", f"g{node}{g}", 0, 1)]
        for n in range(2):
            nic = f"n{node}{n}"
            links += [(f"p{node}", nic, 0, 1), (nic, f"p{node}", 0, 1), (nic, "f", 1, 1), ("f", nic, 1, 1)]
    devices = " ".join(
        f"{' '.join(f'g{node}{g}:{node}' for g in range(4))} p{node}:{node} n{node}0:{node} n{node}1:{node}"
        for node in (0, 1)
    )
    m = machine(f"{devices} f", links)
    assert names(m, m.path(0, 7)) == ["g00", "p0", "n00", "f", "n11", "p1", "g13"]
    assert names(m, m.path(3, 4)) == ["g03", "p0", "n01", "f", "n10", "p1", "g10"]
    assert [names(m, m.path(g, 4))[2] for g in range(4)] == ["n00", "n00", "n01", "n01"]


def test_a_gpu_that_is_not_beside_a_nic_is_served_through_the_host():
    m = ndv2(2)
    assert m.path(5, 9) is None
    path = m.host_path(5, 9)
    assert names(m, path) == ["node0.nic0", "fabric", "node1.nic0"]
    assert (path.src_rank, path.dst_rank, path.alpha_us, path.beta_us_per_mb) == (5, 9, 2.6, 105)


def test_the_host_path_is_the_path_where_there_is_one():
    m = ndv2(2)
    assert m.host_path(0, 9) == m.path(0, 9)
    assert m.host_path(0, 5) is None


def test_a_node_without_nics_has_no_host_path():
    assert machine("g0:0 g1:1 n0:0 f", [("n0", "f", 1, 1), ("f", "n0", 1, 1)]).host_path(0, 1) is None


def test_nics_without_a_fabric_between_them_make_no_host_path():
    assert machine("g0:0 g1:1 n0:0 n1:1 f", [("n0", "f", 1, 1)]).host_path(0, 1) is None


def test_the_nearest_nic_serves_a_gpu():
    links = [("g0", "g1", 1, 1), ("g1", "n0", 1, 1), ("g0", "n1", 1, 1)]
    fabric = [(a, b, 1, 1) for n in ("n0", "n1", "n2") for a, b in ((n, "f"), ("f", n))]
    m = machine("g0:0 g1:0 g2:0 n0:0 n1:0 f g3:1 n2:1", [*links, *fabric])
    assert [names(m, m.host_path(src, 3))[0] for src in (0, 1)] == ["n1", "n0"]


def test_a_rank_out_of_range_is_named():
    with pytest.raises(TopologyError, match=r"ranks 0 .. 15, and no rank 16"):
        ndv2(2).path(0, 16)
    with pytest.raises(TopologyError, match="no rank -1"):
        ndv2(2).host_path(-1, 0)


def test_nics_are_counted_by_node():
    assert [dgx2(2).nic_count(node) for node in (0, 1, 2)] == [8, 8, 0]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 4), st.integers(1, 4)),
        max_size=20,
        unique_by=lambda link: link[:2],
    )
)
def test_no_simple_way_through_switches_is_better_than_the_path(links):
    devices = ["g0", "g1", "s0", "s1", "s2", "s3"]
    m = machine(
        " ".join(devices), [(devices[a], devices[b], alpha, beta) for a, b, alpha, beta in links if a != b]
    )
    routes = list(all_routes(m, ["g0"]))
    path = m.path(0, 1)
    if not routes:
        assert path is None
    elif any(link.src == "g0" and link.dst == "g1" for link in m.links):
        assert len(path.links) == 1
    else:
        assert (path.beta_us_per_mb, path.alpha_us, len(path.links)) == min(routes)


def all_routes(m, visited):
    """(largest beta, sum of alphas, links) of every simple way from g0 to g1."""
    for link in m.links:
        if link.src != visited[-1] or link.dst in visited:
            continue
        if link.dst == "g1":
            route = [*visited, "g1"]
            used = [next(x for x in m.links if (x.src, x.dst) == ends) for ends in pairwise(route)]
            yield max(x.beta_us_per_mb for x in used), sum(x.alpha_us for x in used), len(used)
        else:
            yield from all_routes(m, [*visited, link.dst])

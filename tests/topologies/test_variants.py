"""A machine with another link, or with faster ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taccl import explore, load_topology
from taccl.errors import TacclError
from taccl.topologies import parse_topology, scaled, with_link
from taccl.topologies.without import without

RING = load_topology("ring:4")
NODES = parse_topology(
    "name: nodes\nnodes: 2\nnode:\n  gpus: 2\n  nics: 1\n  links:\n"
    "    - {pairs: [0-1, 0-nic0], alpha_us: 0.5, bandwidth_gbps: 25}\n"
    "fabric: {alpha_us: 3, bandwidth_gbps: 25}\n"
)


def betas(machine):
    return {(link.src, link.dst): link.beta_us_per_mb for link in machine.links}


def test_a_link_across_a_ring_is_one_more_in_each_direction():
    crossed = with_link(RING, "gpu0", "gpu2", alpha_us=0.5, bandwidth_gbps=50)
    assert crossed.name == "ring:4 with gpu0-gpu2"
    assert betas(crossed).keys() - betas(RING).keys() == {("gpu0", "gpu2"), ("gpu2", "gpu0")}
    one = with_link(RING, "gpu0", "gpu2", alpha_us=0.5, bandwidth_gbps=50, both=False)
    assert betas(one).keys() - betas(RING).keys() == {("gpu0", "gpu2")}


def test_next_to_a_link_that_is_there_bandwidths_add_up():
    before = betas(RING)["gpu0", "gpu1"]
    twice = with_link(RING, "gpu0", "gpu1", alpha_us=0.5, bandwidth_gbps=2**20 / before / 1000)
    assert betas(twice)["gpu0", "gpu1"] == pytest.approx(before / 2)


@given(st.floats(0.01, 100))
def test_what_is_scaled_has_so_many_times_the_bandwidth(times):
    before, after = betas(NODES), betas(scaled(NODES, "nic", times))
    for ends, beta in before.items():
        at_nic = any("nic" in end for end in ends)
        assert after[ends] == pytest.approx(beta / times if at_nic else beta)


def test_links_are_scaled_by_their_ends():
    after = betas(scaled(NODES, "gpu0-gpu1", 2))
    changed = {ends for ends, beta in betas(NODES).items() if after[ends] != beta}
    assert {tuple(end.partition(".")[2] for end in ends) for ends in changed} == {
        ("gpu0", "gpu1"),
        ("gpu1", "gpu0"),
    }


def test_a_switch_that_sums_gets_faster_with_its_links():
    machine = load_topology("dgx-h100", nodes=1)
    (before, *_), (after, *_) = (
        [device.beta_us_per_mb for device in each.devices if device.kind == "helper"]
        for each in (machine, scaled(machine, "switch", 2))
    )
    assert after == pytest.approx(before / 2)


def test_variants_are_machines_to_explore():
    crossed = with_link(RING, "gpu0", "gpu2", alpha_us=0.5, bandwidth_gbps=50)
    machines = [RING, crossed, scaled(RING, "gpu", 2), without(RING, ["gpu0-gpu1"])]
    table = explore("allgather", topology=machines, sizes="1MB", effort=600, cache=False)
    plain, more, faster, less = (row["time_us"] for row in table.best)
    assert faster < plain < less
    assert more <= plain


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: with_link(RING, "gpu0", "gpu9", alpha_us=1, bandwidth_gbps=1), "gpu9"),
        (lambda: with_link(RING, "gpu0", "gpu0", alpha_us=1, bandwidth_gbps=1), "itself"),
        (lambda: with_link(RING, "gpu0", "gpu2", alpha_us=-1, bandwidth_gbps=1), "alpha_us"),
        (lambda: with_link(RING, "gpu0", "gpu2", alpha_us=1, bandwidth_gbps=0), "bandwidth"),
        (lambda: with_link(RING, "gpu0", "gpu1", alpha_us=5, bandwidth_gbps=1), "have a link with an alpha"),
        (lambda: with_link("ring:4", "gpu0", "gpu1", alpha_us=1, bandwidth_gbps=1), "is no machine"),
        (lambda: scaled("ring:4", "gpu", 2), "is no machine"),
        (lambda: scaled(RING, "-", 2), "no link called"),
        (lambda: scaled(RING, "gpu0-", 2), "no link called"),
        (lambda: without(RING, ["gpu0->"]), "no link called"),
        (lambda: scaled(RING, "nic", 2), "no link at a nic"),
        (lambda: scaled(RING, "gpu0-gpu2", 2), "gpu0-gpu2"),
        (lambda: scaled(RING, "gpu", 0), "factor"),
        (lambda: scaled(RING, "gpu", "twice"), "factor"),
        (lambda: scaled(RING, 3, 2), "must be a name"),
        (lambda: without(RING, ["gpu7"]), "gpu7"),
    ],
)
def test_what_cannot_be_is_one_error(change, message):
    with pytest.raises(TacclError, match=message):
        change()

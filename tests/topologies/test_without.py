"""Machines without helpers and links by name, and with other numbers of servers."""

import pytest

from taccl.api import make_problem
from taccl.encoding.bounds import lower_bound
from taccl.errors import TopologyError
from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.topologies import load_topology, parse_topology
from taccl.topologies.servers import with_servers
from taccl.topologies.without import as_used_by, without, without_helpers

HGX = """\
name: hgx
nodes: 2
node:
  gpus: 2
  switches: [nvswitch]
  nics: 2
  links:
    - {from: gpus, to: nvswitch, alpha_us: 0.35, bandwidth_gbps: 370.8}
    - {from: gpus, to: nics, match: even, alpha_us: 0, bandwidth_gbps: 50}
  helpers: [{at: nvswitch, can: [reduce-to-one, copy], bandwidth_gbps: 309}]
fabric: {alpha_us: 3, bandwidth_gbps: 50}
helpers: [{name: pbox, count: 2, bandwidth_gbps: 50, behind: {bandwidth_gbps: 60}}]
"""


def helpers_of(machine):
    return [device.name for device in machine.gpus[machine.num_members :]]


FACES = [f"node{node}.nvswitch.{face}" for node in range(2) for face in ("sum", "copy")]


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("nvswitch", ["pbox0", "pbox1"]),
        ("node1.nvswitch", [*FACES[:2], "pbox0", "pbox1"]),
        ("nvswitch.sum", [FACES[1], FACES[3], "pbox0", "pbox1"]),
        ("node0.nvswitch.copy", [FACES[0], *FACES[2:], "pbox0", "pbox1"]),
        ("pbox", FACES),
        ("pbox1", [*FACES, "pbox0"]),
    ],
)
def test_a_name_stands_for_helpers(name, left):
    machine = without(parse_topology(HGX), [name])
    assert helpers_of(machine) == left
    assert machine.name == f"hgx without {name}"
    assert machine.num_members == 4


def test_the_switch_itself_stays():
    machine = without(parse_topology(HGX), ["nvswitch", "pbox"])
    assert machine.path(0, 1) == parse_topology(HGX).path(0, 1)
    assert machine.name == "hgx without nvswitch, pbox"


def test_the_memory_of_servers_goes_with_the_last_one():
    machine = parse_topology(HGX)
    assert "pbox.memory" in {device.name for device in without(machine, ["pbox1"]).devices}
    assert "pbox.memory" not in {device.name for device in without(machine, ["pbox"]).devices}
    assert without(machine, ["pbox", "nvswitch"]).devices == without_helpers(machine).devices


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("gpu0-nic0", 4),
        ("nic0-gpu0", 4),
        ("gpu0->nic0", 2),
        ("node1.gpu0-node1.nic0", 2),
        ("node1.gpu0 -> node1.nic0", 1),
        ("nic0-fabric", 4),
    ],
)
def test_two_ends_stand_for_links(name, gone):
    machine = parse_topology(HGX)
    assert len(machine.links) - len(without(machine, [name]).links) == gone


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("nvswich", "'nvswitch'"),
        ("gpu7-nic0", "it has nvswitch, pbox, and links such as"),
        ("gpu0", "links such as"),
    ],
)
def test_an_unknown_name_is_refused_with_those_that_there_are(name, hint):
    with pytest.raises(TopologyError, match=f"hgx has no helper and no link called '{name}'") as error:
        without(parse_topology(HGX), [name])
    assert hint in str(error.value.hint)


def test_a_machine_without_helpers_says_so():
    with pytest.raises(TopologyError) as error:
        without(load_topology("ring:4"), ["nvswitch"])
    assert "it has no helpers, but links such as gpu0-gpu1" in str(error.value.hint)


@pytest.mark.parametrize(("count", "servers"), [(0, []), (1, ["pbox0"]), (3, ["pbox0", "pbox1", "pbox2"])])
def test_servers_of_a_file_are_as_many_as_requested(count, servers):
    machine = with_servers(parse_topology(HGX), count)
    assert helpers_of(machine) == FACES + servers
    assert machine.name == f"hgx with {count} server{'' if count == 1 else 's'}"
    ends = {(link.src, link.dst) for link in machine.links}
    assert all((name, "fabric") in ends and ("fabric", name) in ends for name in servers)


def test_servers_are_linked_to_the_fabric_as_nics_are_where_a_file_has_none():
    machine = with_servers(load_topology("dgx-h100", nodes=2), 2)
    assert helpers_of(machine)[-2:] == ["server0", "server1"]
    link = next(link for link in machine.links if link.src == "server0")
    nic = next(link for link in machine.links if link.src == "node0.nic0" and link.dst == "fabric")
    assert (link.dst, link.alpha_us, link.beta_us_per_mb) == ("fabric", nic.alpha_us, nic.beta_us_per_mb)


def test_servers_are_linked_to_the_one_switch_as_gpus_are():
    machine = with_servers(load_topology("switch:4"), 2)
    assert helpers_of(machine) == ["server0", "server1"]
    assert machine.path(0, 5).beta_us_per_mb == machine.path(0, 1).beta_us_per_mb


@pytest.mark.parametrize("count", [-1, 1.5, True, 10**9])
def test_numbers_that_are_none_are_refused(count):
    with pytest.raises(TopologyError, match="helpers must be"):
        with_servers(load_topology("switch:4"), count)


def test_servers_need_one_switch_to_be_linked_to():
    with pytest.raises(TopologyError, match="no one fabric or switch"):
        with_servers(load_topology("ring:4"), 1)


def test_a_machine_says_where_sums_are_made_other_than_at_gpus():
    assert parse_topology(HGX).sums_at == " with in-switch sums and sums at servers"
    assert load_topology("dgx-h100").sums_at == " with in-switch sums"
    assert without(load_topology("dgx-h100"), ["nvswitch"]).sums_at == ""
    assert without(load_topology("dgx-h100"), ["nvswitch.sum"]).sums_at == ""


@pytest.mark.parametrize("name", COLLECTIVES)
def test_switches_stay_where_something_is_summed_or_copied_and_servers_always(name):
    machine = parse_topology(HGX)
    used = as_used_by(machine, make_collective(name, 4, 1, None))
    idle = name in ("alltoall", "gather", "scatter")
    assert helpers_of(used) == ([] if idle else FACES) + ["pbox0", "pbox1"]


def test_an_alltoall_is_bounded_as_if_the_switch_could_not_sum_and_copy():
    with_it, without_it = (
        lower_bound(make_problem("alltoall", topology="dgx-h100", nodes=1, size="8KB", without=names).problem)
        for names in (None, "nvswitch")
    )
    assert with_it == without_it
    assert with_it.value_us > 2

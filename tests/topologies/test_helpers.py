"""Helpers of a machine's file: ranks without data, from the file through the network to a schedule."""

import numpy as np
import pytest

from taccl import synthesize
from taccl.errors import SketchError, TacclError, TopologyError
from taccl.sketch.apply import sketched
from taccl.sketch.model import Internode, Sketch
from taccl.topologies import parse_topology
from taccl.topologies.as_yaml import topology_text

STAR = """\
name: star
gpus: 4
helpers: [server]
links:
  - {from: gpus, to: server, alpha_us: 1, bandwidth_gbps: 10}
"""


def test_helpers_are_the_last_ranks():
    machine = parse_topology(STAR.replace("gpus: 4\nhelpers: [server]", "helpers: [server]\ngpus: 4"))
    assert [device.name for device in machine.gpus] == ["gpu0", "gpu1", "gpu2", "gpu3", "server"]
    assert (machine.num_ranks, machine.num_members, machine.num_helpers) == (5, 4, 1)


def test_a_prompt_shows_helpers():
    assert repr(parse_topology(STAR)) == "<star: 1 node, 4 GPUs, 1 helper, 8 links, serial>"


def test_no_path_passes_a_helper():
    machine = parse_topology(STAR)
    assert machine.path(0, 1) is None
    assert machine.path(0, 4) is not None


def test_helpers_of_nodes_come_behind_all_gpus():
    node = "\n".join("  " + line for line in STAR.strip().split("\n")[1:])
    machine = parse_topology(
        f"name: two\nnodes: 2\nnode:\n  nics: 1\n{node}\nfabric: {{alpha_us: 1, bandwidth_gbps: 10}}\n"
    )
    assert [device.name for device in machine.gpus[-2:]] == ["node0.server", "node1.server"]


def test_what_a_helper_cannot_do_reaches_the_network():
    machine = parse_topology(STAR.replace("[server]", "[server, {name: relay, sums: false, copies: false}]"))
    network = sketched(None, machine).topology
    assert network.num_helpers == 2
    assert network.may_sum.tolist() == network.may_copy.tolist() == [True] * 5 + [False]
    assert sketched(None, parse_topology(STAR)).topology.may_sum is None


@pytest.mark.parametrize("helpers", ["[server]", "1", "[server, {name: relay, sums: false}]"])
def test_a_machine_with_helpers_is_written_and_read_back(helpers):
    text = STAR.replace("[server]", helpers).replace("to: server", "to: helpers")
    machine = parse_topology(text)
    back = parse_topology(topology_text(machine))
    assert set(back.devices) == set(machine.devices)
    assert set(back.links) == set(machine.links)


def test_an_allreduce_through_a_server_takes_each_byte_once_each_way():
    result = synthesize(
        "allreduce", topology=parse_topology(STAR), size="1MB", chunks=1, effort=500, file=False
    )
    assert result.collective.counted_ranks == "4 ranks and 1 helper"
    assert result.schedule.problem.topology.num_helpers == 1
    sums_at_server = np.count_nonzero(result.schedule.dst == 4)
    assert sums_at_server == 4 * result.collective.num_chunks
    assert 104.86 < result.time_us < 140


def test_the_first_schedules_make_sums_at_the_server_one_after_another():
    """In two parts each: 1 + 8 * 13.1 us into the server, 8 alphas, and one more hop for the last sum."""
    result = synthesize("allreduce", topology=parse_topology(STAR), size="1MB", effort=300, file=False)
    assert result.time_us < 127


RELAY = """\
name: relayed
gpus: 3
helpers: [{name: relay, CANNOT}]
links:
  - {from: gpus, to: relay, alpha_us: 1, bandwidth_gbps: 10}
"""


@pytest.mark.parametrize("cannot", ["sums: false", "copies: false", "sums: false, copies: false"])
def test_an_allreduce_through_a_relay_whatever_it_cannot_do(cannot):
    machine = parse_topology(RELAY.replace("CANNOT", cannot))
    result = synthesize("allreduce", topology=machine, size="1MB", chunks=1, effort=200, file=False)
    result.schedule.check()
    assert result.time_us < 216


@pytest.mark.parametrize("target", ["all", "msccl", "executor", "rccl", "json"])
def test_targets_refuse_helpers_with_the_reason_and_say_how_to_leave_them_out(target):
    with pytest.raises(TacclError, match="its ranks all hold data, sum and copy") as caught:
        synthesize("allreduce", topology=parse_topology(STAR), size="1MB", target=target, effort=100)
    assert "--without nvswitch" in caught.value.hint


def test_a_sketch_that_chooses_links_is_refused():
    sketch = Sketch("s", internode=Internode("fully-connected"))
    with pytest.raises(SketchError, match="star has helpers"):
        sketched(sketch, parse_topology(STAR))


@pytest.mark.parametrize(
    ("helpers", "message"),
    [
        ("[{sums: false}]", "lacks the key 'name'"),
        ("[{name: a, adds: true}]", "unknown key 'adds'"),
        ("[{name: a, sums: 1}]", "must be true or false"),
        ("[gpu0]", "the name 'gpu0' is already given"),
    ],
)
def test_wrong_helpers_are_refused_with_their_line(helpers, message):
    with pytest.raises(TopologyError, match=message) as error:
        parse_topology(STAR.replace("[server]", helpers).replace("to: server", "to: helpers"))
    assert error.value.line == 3

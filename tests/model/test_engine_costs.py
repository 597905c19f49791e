"""A machine's executor as costs of its links, for engines that know alphas and betas only."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from taccl.api import make_problem, synthesize
from taccl.backend.simulate.executor import predict_us
from taccl.errors import TopologyError
from taccl.model.engine_costs import LINKS_ONLY, PACES, effective_network, hop_us, link_us_per_mb
from taccl.model.units import bandwidth_gbps, beta_from_bandwidth
from taccl.topologies import load_topology, parse_topology
from taccl.topologies.executor_section import executor_lines

MACHINE = Path(__file__).parents[1] / "data" / "machines" / "mi300x-8.yaml"
EXECUTOR = load_topology(MACHINE).executor
WIRE = beta_from_bandwidth(45.3)

#: GB/s of a link by 1, 2, 4 and 8 thread blocks on the measured node.
SPEEDS = {
    ("Simple", "in-phase"): (10.4, 20.8, 29, 36),
    ("Simple", "pipelined"): (10.4, 20.8, 41.5, 45),
    ("Simple", "one-way"): (20.8, 41.5, 45, 45),
    ("LL", "in-phase"): (1.6, 3.2, 6.4, 12.0),
    ("LL128", "in-phase"): (2.2, 4.5, 8.9, 17.8),
}


@pytest.mark.parametrize(("protocol", "pace"), SPEEDS)
def test_a_link_is_as_fast_as_the_slower_of_its_wire_and_its_thread_blocks(protocol, pace):
    costs = EXECUTOR.costs_of(protocol)
    times = [float(link_us_per_mb(costs, WIRE, blocks, pace)) for blocks in (1, 2, 4, 8)]
    assert [bandwidth_gbps(2**20, us) for us in times] == pytest.approx(SPEEDS[protocol, pace], rel=0.02)


def test_a_hop_sends_each_slice_and_takes_the_last():
    """With Simple, which has two slices in a piece, 3 overheads; with the others 2; and the link's alpha."""
    hops = [0.7 + hop_us(EXECUTOR.costs_of(name)) for name in ("Simple", "LL", "LL128")]
    assert hops == pytest.approx([3.95, 1.54, 2.2])


def test_a_hop_is_what_a_small_message_takes_to_come_over():
    """Executed, a broadcast of 64 bytes from one to another takes the launch, the link's alpha and a hop."""
    for name, costs in EXECUTOR.protocols.items():
        other = replace(costs, empty_slice_us=0.1, least_us=0.6)
        executor = replace(EXECUTOR, protocols={name: other})
        network = make_problem("broadcast", topology="full:2", size="64B").problem.topology
        program = synthesize("broadcast", topology="full:2", size="64B", chunks=1).files[0].program
        sends = replace(
            program,
            ranks=tuple(
                replace(
                    rank,
                    thread_blocks=tuple(
                        replace(block, steps=tuple(step for step in block.steps if step.op.value in "sr"))
                        for block in rank.thread_blocks
                    ),
                )
                for rank in program.ranks
            ),
        )
        time = predict_us(sends, network, executor, name, 64)
        alone = other.launch_us + float(network.alpha_us[0]) + hop_us(other)
        assert time == pytest.approx(alone, abs=0.05)


@pytest.mark.parametrize("pace", PACES)
def test_more_thread_blocks_are_never_slower_and_never_faster_than_the_wire(pace):
    for costs in EXECUTOR.protocols.values():
        times = [float(link_us_per_mb(costs, WIRE, blocks, pace)) for blocks in range(1, 65)]
        assert times == sorted(times, reverse=True)
        assert times[-1] >= WIRE * costs.shape.wire


SWITCHED = """\
name: switched
gpus: 3
switches: 1
links:
  - {from: gpus, to: switches, alpha_us: 1, bandwidth_gbps: 45.3}
"""


def test_links_that_share_a_port_may_fill_it_together():
    """A GPU's way into a switch is as fast as it was; each link has a port of its own, which is slower."""
    switched = parse_topology(SWITCHED + "\n".join(executor_lines(EXECUTOR)))
    network = make_problem("allgather", topology=switched, size="3MB").problem.topology
    assert network.executor == EXECUTOR
    seen = effective_network(network, "Simple", 1)
    assert seen.executor is None
    assert seen.num_ports == network.num_ports + network.num_links
    assert seen.beta_us_per_mb == pytest.approx(np.full(6, beta_from_bandwidth(10.4)))
    shared = [port for port in range(seen.num_ports) if len(seen.port_links[port]) == 2]
    assert len(shared) == network.num_ports
    link, port = seen.incidence
    assert seen.pair_betas[np.isin(port, shared)] == pytest.approx(WIRE)
    assert seen.alpha_us == pytest.approx(network.alpha_us + hop_us(EXECUTOR.costs_of("Simple")))
    assert len(link) == 6 * 3


def test_a_network_without_an_executor_stays_as_it_is():
    network = make_problem("allgather", topology="ring:4", size="1MB").problem.topology
    assert effective_network(network, "Simple", 4) is network


def test_engines_search_with_the_costs_of_the_protocol_and_instances_that_are_asked():
    """Two thread blocks on each link move twice the bytes; LL starts sooner and moves fewer."""
    quick = {"topology": MACHINE, "engine": "greedy", "gap": 0.95, "effort": 10, "chunks": 1}
    quick |= {"thread_blocks": "two-way"}
    one = synthesize("allgather", size="64MB", protocol="Simple", instances=1, **quick)
    two = synthesize("allgather", size="64MB", protocol="Simple", instances=2, **quick)
    costs = EXECUTOR.costs_of("Simple")
    for result, blocks in ((one, 1), (two, 2)):
        beta = float(link_us_per_mb(costs, WIRE, blocks))
        assert result.time_us == pytest.approx(0.7 + hop_us(costs) + 8 * beta)
        assert result.lower_bound_us <= result.time_us
        assert any(f"{blocks} thread block" in note and "Simple" in note for note in result.notes)
    simple, ll = (
        synthesize("allgather", size="8KB", protocol=name, instances=1, **quick) for name in ("Simple", "LL")
    )
    assert ll.time_us < simple.time_us


def test_what_knows_no_protocol_stays_with_the_links_and_says_so():
    stated = make_problem("allgather", topology=MACHINE, size="8MB")
    assert LINKS_ONLY in stated.notes
    assert stated.problem.topology.beta_us_per_mb == pytest.approx(WIRE)


def test_a_pace_or_number_that_is_none_is_refused():
    network = make_problem("allgather", topology=MACHINE, size="8MB").problem.topology
    with pytest.raises(TopologyError, match="unknown pace 'fast'"):
        effective_network(network, "Simple", 1, "fast")
    with pytest.raises(TopologyError, match="thread blocks of a link must be"):
        effective_network(network, "Simple", 0)
    only = replace(network, executor=replace(EXECUTOR, protocols={"LL": EXECUTOR.costs_of("LL")}))
    with pytest.raises(TopologyError, match="says nothing about the protocol Simple"):
        effective_network(only, "Simple", 1)


def test_one_way_thread_blocks_serve_links_at_their_pace():
    two, one = (
        synthesize(
            "allgather",
            topology=MACHINE,
            size="16MB",
            chunks=1,
            engine="greedy",
            effort=10,
            protocol="Simple",
            instances=1,
            thread_blocks=routes,
        )
        for routes in ("two-way", "one-way")
    )
    assert one.time_us < 0.55 * two.time_us
    assert any("1 one-way thread block of Simple" in note for note in one.notes)

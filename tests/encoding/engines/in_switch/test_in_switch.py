"""Each rank has its part summed at a switch, and multicasts it from there."""

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import examples

from taccl.api import make_problem
from taccl.encoding.engines.in_switch import named
from taccl.encoding.instance import Instance
from taccl.support.budget import Budget
from taccl.topologies import parse_topology


def machine(gpus: int, can: str = "[reduce-to-one, copy]"):
    """GPUs around a switch that sums and copies."""
    return parse_topology(
        f"name: star\ngpus: {gpus}\nswitches: 1\nlinks:\n"
        "  - {from: gpus, to: switch0, alpha_us: 1, bandwidth_gbps: 100}\n"
        f"helpers: [{{at: switch0, can: {can}, bandwidth_gbps: 100}}]\n"
    )


def schedules(collective: str, star, chunks: int = 1, **words):
    problem = make_problem(collective, topology=star, size="12MB", chunks=chunks, **words).problem
    return dict(named(Instance(problem), Budget.of_work(10_000)))


@settings(max_examples=examples(25), deadline=None)
@given(
    st.sampled_from(["allreduce", "reducescatter", "allgather", "broadcast", "reduce"]),
    st.integers(3, 4),
    st.integers(1, 5),
)
def test_they_are_valid_and_use_no_link_between_ranks(collective: str, gpus: int, chunks: int) -> None:
    found = schedules(collective, machine(gpus), chunks)
    assert set(found) == {"NVLS", "NVLS in groups"} | ({"NVLS in batches"} if chunks > 1 else set())
    for schedule in found.values():
        schedule.check()
        topology = schedule.problem.topology
        ends = zip(topology.src[schedule.link], topology.dst[schedule.link], strict=True)
        assert all(max(src, dst) >= gpus for src, dst in ends)


def test_groups_pay_an_alpha_at_each_step() -> None:
    """Three ranks, four chunks of each: one send a link and step, where chunk after chunk has four."""
    found = schedules("allreduce", machine(3), chunks=4)
    assert len(found["NVLS in groups"].sends) == 3 * 4
    assert len(found["NVLS"].sends) == 4 * 3 * (2 + 1 + 1 + 2)


def test_with_many_chunks_links_are_never_idle_for_long() -> None:
    """A rank sends two of three parts up and its own sum: as much as the buffer."""
    found = schedules("allreduce", machine(3), chunks=64)["NVLS"]
    moved_us = 12 * 10.48576  # 12 MB at 100 GB/s
    looped_us = moved_us / 3  # of what it gets of the sum, its own is read as well
    alphas_us = 2 * 64 * 3
    assert moved_us < found.makespan_us < 1.05 * (moved_us + looped_us) + alphas_us


@pytest.mark.parametrize("collective", ["alltoall", "gather", "scatter"])
def test_what_nobody_sums_or_copies_has_no_use_for_it(collective: str) -> None:
    assert schedules(collective, machine(3)) == {}


@pytest.mark.parametrize(
    ("can", "collective"), [("[copy]", "allreduce"), ("[reduce-to-one]", "allgather"), ("[copy]", "reduce")]
)
def test_a_switch_that_does_the_other_alone_is_no_use(can: str, collective: str) -> None:
    assert schedules(collective, machine(3, can)) == {}


def in_parts(chunks: int) -> list[str]:
    return ["groups", "batches"] if chunks > 1 else ["groups"]


def test_two_batches_overlap() -> None:
    """Three ranks: two parts go up, an owner gets their sum and multicasts the total, and two come down.

    Of eight steps of half a batch each, what the first copies goes on while the second is sent up.
    """
    found = schedules("allreduce", machine(3), chunks=2)
    part_us = 4 * 10.48576
    assert found["NVLS in groups"].makespan_us == pytest.approx(4 + (2 + 1 + 1 + 2) * part_us)
    assert found["NVLS in batches"].makespan_us == pytest.approx(7 + (2 + 1 + 1 + 2 / 2) * part_us)


def test_a_batch_crosses_while_the_next_is_summed() -> None:
    """Two nodes of three, whose NICs take as long as their switches."""
    problem = make_problem("allreduce", topology=rails(2, across_gbps=25), size="12MB", chunks=4).problem
    fastest_us: dict[str, float] = {}
    for name, schedule in named(Instance(problem), Budget.of_work(10_000)):
        fastest_us[name] = min(fastest_us.get(name, math.inf), schedule.makespan_us)
    assert fastest_us["NVLS along rails in batches"] < 0.75 * fastest_us["NVLS along rails in groups"]


def rails(nodes: int, gpus: int = 3, can: str = "[reduce-to-one, copy]", across_gbps: float = 50):
    """Nodes whose switches sum and copy, and a NIC for each GPU."""
    return parse_topology(
        f"name: rails\nnodes: {nodes}\noccupancy: serial\n"
        f"fabric: {{alpha_us: 3, bandwidth_gbps: {across_gbps}}}\n"
        f"node:\n  gpus: {gpus}\n  switches: [hub]\n  nics: {gpus}\n"
        f"  helpers: [{{at: hub, can: {can}, bandwidth_gbps: 100}}]\n  links:\n"
        "    - {from: gpus, to: switches, alpha_us: 0.5, bandwidth_gbps: 100}\n"
        "    - {from: gpus, to: nics, match: even, alpha_us: 0, bandwidth_gbps: 50}\n"
    )


@settings(max_examples=examples(12), deadline=None)
@given(
    st.sampled_from(["allreduce", "reducescatter", "allgather", "broadcast", "reduce"]),
    st.integers(2, 4),
    st.integers(3, 4),
    st.integers(1, 3),
)
def test_nodes_whose_switches_sum_exchange_sums_along_rails(
    collective: str, nodes: int, gpus: int, chunks: int
) -> None:
    found = schedules(collective, rails(nodes, gpus), chunks)
    names = {"NVLS along rails"} | ({"NVLS along rails, ring"} if nodes > 2 else set())
    assert set(found) == names | {f"{name} in {paces}" for name in names for paces in in_parts(chunks)}
    for schedule in found.values():
        schedule.check()
        topology = schedule.problem.topology
        src, dst = topology.src[schedule.link], topology.dst[schedule.link]
        is_between = topology.node_of[src] != topology.node_of[dst]
        assert (src[is_between] % gpus == dst[is_between] % gpus).all(), "from rail to rail"
        assert (is_between | (src >= nodes * gpus) | (dst >= nodes * gpus)).all(), "or through a switch"


def test_along_a_rail_each_nic_carries_the_least_there_is() -> None:
    """Two nodes of three: a third of 12 MB each way, which 64 chunks hide behind what the switches do."""
    found = schedules("allreduce", rails(2), chunks=64)["NVLS along rails"]
    inside_us = 12 * 10.48576  # up: two thirds, and a third to be multicast
    assert inside_us < found.makespan_us < 1.5 * inside_us + 64 * 6 * 2 * 0.5


def test_a_network_may_be_however_slow() -> None:
    """A chunk waits for all others at most, not for millions of turns: 4 MB of each rail cross each way."""
    found = schedules("allreduce", rails(2, across_gbps=1e-5), chunks=2)["NVLS along rails"]
    assert found.makespan_us == pytest.approx(4 * 2**20 / 10 / 1e-3, rel=1e-3)


@pytest.mark.parametrize("can", ["[copy]", "[reduce-to-one]"])
def test_a_switch_of_a_node_that_does_not_do_both_makes_no_allreduce(can: str) -> None:
    assert schedules("allreduce", rails(2, can=can)) == {}


def cluster(nodes: int, gpus: int = 2, can: str = "[reduce, copy]", nics: str = "gpus", **words):
    """Nodes of GPUs at a switch, with a link to a network that sums."""
    return parse_topology(
        f"name: cluster\nnodes: {nodes}\noccupancy: pipelined\nfabric: {{alpha_us: 4, bandwidth_gbps: 10}}\n"
        f"node:\n  gpus: {gpus}\n  switches: 1\n  nics: {gpus if nics == 'gpus' else 1}\n  links:\n"
        "    - {from: gpus, to: switches, alpha_us: 0.5, bandwidth_gbps: 100}\n"
        f"    - {{from: {nics}, to: nics, match: even, alpha_us: 0, bandwidth_gbps: 10}}\n"
        f"helpers: [{{at: fabric, can: {can}}}]\n"
    )


@settings(max_examples=examples(12), deadline=None)
@given(
    st.sampled_from(["allreduce", "reducescatter", "allgather"]),
    st.integers(3, 4),
    st.integers(2, 3),
    st.integers(1, 3),
    st.sampled_from(["[reduce, copy]", "[reduce-to-one, copy]"]),
    st.sampled_from(["gpus", "0"]),
)
def test_one_rank_of_each_node_goes_for_all_to_a_network_that_sums(
    collective: str, nodes: int, gpus: int, chunks: int, can: str, nics: str
) -> None:
    found = schedules(collective, cluster(nodes, gpus, can, nics), chunks)
    names = {"CollNet direct"} | ({"CollNet chain"} if collective == "allreduce" else set())
    names |= {"CollNet by each rank"} if nics == "gpus" else set()
    assert set(found) == names | {f"{name} in {paces}" for name in names for paces in in_parts(chunks)}
    for name in names - {"CollNet by each rank"}:
        schedule, topology = found[name], found[name].problem.topology
        is_between = (topology.node_of[topology.src] != topology.node_of[topology.dst])[schedule.link]
        most = 1 + (can == "[reduce-to-one, copy]")  # the owner's node gets the sum, and gives the total
        for ends in (topology.src, topology.dst):
            node = topology.node_of[ends[schedule.link]][is_between]
            once = Counter(zip(schedule.chunk[is_between].tolist(), node.tolist(), strict=True))
            assert max(many for (_, node), many in once.items() if node < nodes) <= most


def test_collnet_takes_as_long_as_by_hand() -> None:
    """Two nodes of two ranks: an alpha inside, half of one to the network and back, and inside again."""
    problem = make_problem("allreduce", topology=cluster(2), size="16B", chunks=1).problem
    found = dict(named(Instance(problem), Budget.of_work(10_000)))
    assert found["CollNet direct in groups"].makespan_us == pytest.approx(1 + 2 + 2 + 1, abs=0.01)
    assert found["CollNet by each rank"].makespan_us == pytest.approx(2 + 2, abs=0.01)


def test_a_chain_is_as_fast_as_the_network_allows() -> None:
    """Each NIC of a node sends half of the buffer and gets it; alone, each rank would send all of it."""
    problem = make_problem("allreduce", topology=cluster(4), size="64MB", chunks=32).problem
    found = dict(named(Instance(problem), Budget.of_work(10_000)))
    bound_us = 32 * 104.8576
    assert bound_us < found["CollNet chain"].makespan_us < 1.1 * bound_us
    assert found["CollNet by each rank"].makespan_us > 1.9 * bound_us


def test_one_rank_a_node_is_collnet_and_two_nodes_have_it() -> None:
    assert "CollNet" in schedules("allreduce", cluster(2, gpus=1))
    assert schedules("allreduce", cluster(2, gpus=1, can="[reduce-to-one, copy]")) == {}


def test_what_was_made_of_an_instance_is_there_without_time() -> None:
    instance = Instance(make_problem("allreduce", topology=machine(3), size="12MB", chunks=4).problem)
    first = dict(named(instance, Budget.of_work(1)))
    assert len(first) == 1
    every = dict(named(instance, Budget.of_work(10_000)))
    again = dict(named(instance, Budget.of_work(1)))
    assert set(again) == set(every) and all(again[name] is every[name] for name in every)

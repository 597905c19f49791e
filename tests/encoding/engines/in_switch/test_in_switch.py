"""Each rank has its part summed at a switch, and multicasts it from there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@given(
    st.sampled_from(["allreduce", "reducescatter", "allgather", "broadcast", "reduce"]),
    st.integers(3, 4),
    st.integers(1, 5),
)
def test_they_are_valid_and_use_no_link_between_ranks(collective: str, gpus: int, chunks: int) -> None:
    found = schedules(collective, machine(gpus), chunks)
    assert set(found) == {"NVLS", "NVLS in groups"}
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


def test_a_switch_in_each_of_two_nodes_reaches_nobody_else() -> None:
    assert schedules("allreduce", "dgx-h100", nodes=2) == {}

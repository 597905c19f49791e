"""Ports that are faster than the links that use them, on machines whose times a person can work out.

Two boxes of four GPUs are joined by a trunk, two CPUs with four GPUs each by a link of their own. Every link
of these machines has an alpha of 0.5 us, so from box to box it is 1.5 us; GPUs have 25 GB/s each way.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from small_problems import custom, machine, problem

from taccl.api import make_problem
from taccl.backend.lower import lower
from taccl.backend.simulate import simulate_program
from taccl.encoding.bounds import all_bounds, lower_bound
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.timing import Decision, in_order
from taccl.encoding.engines.registry import engine_named, names
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.solve import solve
from taccl.encoding.quotient import quotient
from taccl.encoding.symmetry.action import is_automorphism
from taccl.errors import SolverError
from taccl.model.automorphism import broken_by
from taccl.model.network import LogicalTopology, Occupancy
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget
from taccl.topologies import build_topology, load_topology, parse_topology

MACHINES = Path(__file__).parents[1] / "data" / "machines"
#: 64 MB at 25 and at 100 GB/s.
SLOW_US, FAST_US = 64 * 2**20 / 25e3, 64 * 2**20 / 100e3


def logical(name: str, occupancy: Occupancy = "serial") -> LogicalTopology:
    return make_problem(
        "allgather", topology=MACHINES / name, size="8MB", occupancy=occupancy
    ).problem.topology


def to_peers(topology: LogicalTopology, chunks: int = 1) -> Problem:
    """Each GPU of box 0 has 64 MB for its peer in box 1, in this many chunks; GPU 0's are the first."""
    moved = [([gpu], [gpu + 4], False) for gpu in range(4) for _ in range(chunks)]
    return Problem(topology, custom(8, moved), chunk_mb=64 / chunks)


def in_turns(moved: Problem) -> Schedule:
    """A chunk of each GPU in turn."""
    each = moved.num_chunks // 4
    return in_order(
        moved,
        [
            Decision((gpu * each + i,), moved.topology.link_index[gpu, gpu + 4])
            for i in range(each)
            for gpu in range(4)
        ],
    )


def test_a_path_keeps_each_of_its_links_busy_at_that_links_rate() -> None:
    trunk = logical("trunk.yaml")
    across, inside = trunk.link_index[0, 5], trunk.link_index[0, 1]
    ports = [trunk.port_names[port] for port in trunk.ports[across]]
    assert ports == ["gpu0 -> box0", "box0 -> box1", "box1 -> gpu5"]
    assert trunk.port_betas[across] == pytest.approx((41.94304, 10.48576, 41.94304))
    assert (trunk.alpha_us[across], trunk.beta_us_per_mb[across]) == pytest.approx((1.5, 41.94304))
    assert (trunk.alpha_us[inside], trunk.port_betas[inside]) == (1.0, pytest.approx((41.94304,) * 2))
    cpus = logical("two-cpus.yaml")
    assert cpus.port_betas[cpus.link_index[7, 0]] == pytest.approx((41.94304, 26.2144, 41.94304))


@pytest.mark.parametrize(
    "name", ["ndv2", "dgx2", "a100", "dgx2-teccl", "ndv2-teccl", "switch:8", "torus:4x4"]
)
def test_the_ports_of_published_machines_are_as_slow_as_their_links(name: str) -> None:
    assert make_problem("allgather", topology=name, size="64MB").problem.topology.port_betas is None


def test_a_port_that_a_slower_one_covers_adds_nothing() -> None:
    """Two GPUs share a NIC of 50 GB/s. One's own way to it is faster and left out, the other's is slower."""
    text = """
        name: m
        nodes: 2
        node:
          gpus: 2
          nics: 1
          links:
            - {from: gpu0, to: nics, alpha_us: 0, bandwidth_gbps: 100}
            - {from: gpu1, to: nics, alpha_us: 0, bandwidth_gbps: 25}
        fabric: {alpha_us: 2, bandwidth_gbps: 50}
    """
    network = make_problem("allgather", topology=parse_topology(text), size="4MB").problem.topology
    fast, slow = network.link_index[0, 2], network.link_index[1, 2]
    names = [[network.port_names[port] for port in network.ports[link]] for link in (fast, slow)]
    assert names == [["node0.nic0 -> fabric"], ["node0.gpu1 -> node0.nic0", "node0.nic0 -> fabric"]]
    assert network.port_betas[fast] == pytest.approx((20.97152,))
    assert network.port_betas[slow] == pytest.approx((41.94304, 20.97152))


def test_a_trunk_of_100_gbps_has_room_for_four_gpus_of_25() -> None:
    """As slow as a GPU, it took 4 x 2685.85 = 10743.42 us. Now GPU g starts when the trunk is through with
    the others: at g x 672.59 us, alpha being busy time, too. The last one ends at 4703.62.
    """
    trunk = logical("trunk.yaml")
    slow = in_turns(to_peers(replace(trunk, port_betas=None)))
    slow.check()
    assert slow.makespan_us == pytest.approx(4 * (1.5 + SLOW_US)) == pytest.approx(10743.42, abs=0.01)
    fast = in_turns(to_peers(trunk))
    fast.check()
    assert fast.makespan_us == pytest.approx(3 * (1.5 + FAST_US) + 1.5 + SLOW_US)
    assert fast.makespan_us == pytest.approx(4703.62, abs=0.01)


@pytest.mark.parametrize("chunks", [1, 4, 64, 256])
def test_the_finer_the_chunks_the_nearer_is_a_fast_trunk_to_the_time_of_one_gpu(chunks: int) -> None:
    """Pipelined: the chunks of four GPUs one after the other, and the last one's way. The bound is the same.

    All together it is 1.5 + 2684.35 us, and three turns of a chunk on the trunk: 2693.72 us with 256 chunks.
    """
    moved = to_peers(logical("trunk.yaml", "pipelined"), chunks)
    schedule = in_turns(moved)
    schedule.check()
    assert schedule.makespan_us == pytest.approx(1.5 + SLOW_US + 3 * FAST_US / chunks)
    proved = all_bounds(moved)
    assert proved[0].value_us == pytest.approx(schedule.makespan_us)
    any_chunks = [bound.value_us for bound in proved if bound.holds_for_any_chunks]
    assert max(any_chunks) == pytest.approx(SLOW_US)
    cut = next(bound for bound in proved if bound.kind == "cut")
    assert cut.value_us == pytest.approx(schedule.makespan_us)
    assert cut.witness == f"{4 * chunks} chunks beyond box0 -> box1 through box0 -> box1"
    if chunks == 256:
        assert schedule.makespan_us == pytest.approx(2693.72, abs=0.01)


def test_a_busy_trunk_is_counted_by_what_passes_it() -> None:
    schedule = in_turns(to_peers(logical("trunk.yaml")))
    topology = schedule.problem.topology
    busy = dict(zip(topology.port_names, schedule.port_busy_us.tolist(), strict=True))
    assert busy["box0 -> box1"] == pytest.approx(4 * (1.5 + FAST_US))
    assert busy["gpu0 -> box0"] == busy["box1 -> gpu4"] == pytest.approx(1.5 + SLOW_US)
    assert busy["box1 -> box0"] == 0.0


@pytest.mark.parametrize("occupancy", ["serial", "pipelined"])
def test_a_simulated_program_takes_the_trunk_in_turns_too(occupancy: Occupancy) -> None:
    schedule = in_turns(to_peers(logical("trunk.yaml", occupancy), 4))
    (lowered,) = lower(schedule)
    done = simulate_program(lowered.program, schedule.problem.topology, schedule.problem.chunk_mb)
    assert done.time_us == pytest.approx(schedule.makespan_us)
    assert done.port_busy_us == pytest.approx(schedule.port_busy_us)


def ring_allgather(gathered: Problem) -> Schedule:
    """Each rank passes on what it got from the rank before it."""
    ranks = gathered.num_ranks
    pieces = gathered.num_chunks // ranks
    return in_order(
        gathered,
        [
            Decision(
                ((rank - step) % ranks * pieces + i,), gathered.topology.link_index[rank, (rank + 1) % ranks]
            )
            for step in range(ranks - 1)
            for rank in range(ranks)
            for i in range(pieces)
        ],
    )


def test_on_two_cpus_a_plain_ring_gathers_1_gb_in_the_time_that_one_gpu_takes_to_receive_it() -> None:
    """Seven parts of 128 MB into each GPU at 25 GB/s, with an alpha of 1.5 us where it comes from the other
    CPU: 37591.46 us. The ring has one stream each way between the CPUs, whose link has room for 1.6.
    """
    gathered = make_problem("allgather", topology=MACHINES / "two-cpus.yaml", size="1GB").problem
    schedule = ring_allgather(gathered)
    schedule.check()
    assert schedule.makespan_us == pytest.approx(7 * (1.5 + 2 * SLOW_US))
    assert schedule.makespan_us == pytest.approx(37591.46, abs=0.01)
    bound = lower_bound(gathered)
    assert bound.value_us == pytest.approx(7 * 2 * SLOW_US + 3.0), "groups of 1, 2 and 4 chunks"
    assert 0 < 1 - bound.value_us / schedule.makespan_us < 3e-4


def test_between_two_cpus_an_all_to_all_takes_as_long_as_40_gbps_take() -> None:
    """Each way 16 chunks of 8 MB: 16 x 209.7 us are busy, the last of them 125.8 us longer on its way."""
    moved = make_problem("alltoall", topology=MACHINES / "two-cpus.yaml", size="64MB").problem
    busy, link_us = 8 * 26.2144, 8 * 41.94304
    proved = all_bounds(moved)
    cut = next(bound for bound in proved if bound.kind == "cut")
    assert cut.value_us >= 16 * busy + 1.5 + link_us - busy - 1e-6
    assert proved[0].value_us < 16 * (1.5 + link_us)


@cache
def behind_a_trunk(collective: str) -> tuple[Problem, float]:
    """A switch of 4 ranks whose routes in are twice as fast as their routes out, with a trunk; and the
    bound."""
    pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
    users = [[i for i, (a, _) in enumerate(pairs) if a == rank] for rank in range(4)]
    users += [[i for i, (_, b) in enumerate(pairs) if b == rank] for rank in range(4)]
    users += [[i for i, (a, b) in enumerate(pairs) if a < 2 <= b]]
    rates = [1.0] * 4 + [0.5] * 4 + [0.25]
    topology = machine(4, [(a, b, 0.5, 1.0) for a, b in pairs], shared=users, rates=rates)
    small = problem(topology, collective, 1)
    return small, lower_bound(small, Budget.of_work(1_000)).value_us


@pytest.mark.parametrize("engine", names()[1:])
@pytest.mark.parametrize("collective", ["allgather", "alltoall", "allreduce"])
def test_every_engine_keeps_the_rates_of_ports_and_the_bounds(engine: str, collective: str) -> None:
    small, bound_us = behind_a_trunk(collective)
    if not engine_named(engine).can(Instance(small)):
        with pytest.raises(SolverError, match="does not serve this problem"):
            next(solve(small, SearchOptions(engine=engine)))
        return
    best = np.inf
    for update in solve(small, SearchOptions(engine=engine, effort=60)):
        bound_us = max(bound_us, update.lower_bound_us)
        if update.schedule is not None:
            update.schedule.check()
            best = min(best, update.schedule.makespan_us)
        assert bound_us <= best + 1e-6
    assert bound_us > 0


def test_a_search_proves_how_long_a_trunk_takes() -> None:
    """Two ranks send a chunk each over links of 4 us through a trunk that takes 1 us: 4 + 1, and alphas."""
    links = [(0, 2, 0.0, 4.0), (1, 3, 0.0, 4.0), (2, 0, 0.0, 4.0), (3, 1, 0.0, 4.0)]
    topology = machine(4, links, shared=[(0, 1)], rates=[0.25])
    moved = Problem(topology, custom(4, [([0], [2], False), ([1], [3], False)]), 1.0)
    *_, last = solve(moved, SearchOptions(engine="cp", time_limit_s=5.0))
    assert max(lower_bound(moved).value_us, last.lower_bound_us) == pytest.approx(5.0)
    times = [
        u.schedule.makespan_us
        for u in solve(moved, SearchOptions(engine="greedy", time_limit_s=1.0))
        if u.schedule
    ]
    assert min(times) == pytest.approx(5.0)


def turned(fast: float, slow: float) -> Problem:
    """Ranks 0 and 1 send to 2 and 3 through ports of their own, which take so much of the links' time."""
    links = [(0, 2, 1.0, 4.0), (1, 3, 1.0, 4.0), (2, 0, 1.0, 4.0), (3, 1, 1.0, 4.0)]
    rates = [fast, slow, 1.0, 1.0]
    return problem(machine(4, links, shared=[(0,), (1,), (2,), (3,)], rates=rates), "allreduce")


def test_a_symmetry_takes_ports_to_ports_that_are_as_fast() -> None:
    swap = np.array([1, 0, 3, 2])
    assert is_automorphism(turned(0.5, 0.5), swap)
    assert not is_automorphism(turned(0.5, 0.25), swap)
    assert broken_by(swap, turned(0.5, 0.5).topology, turned(0.5, 0.5).limits) is None
    reason = broken_by(swap, turned(0.5, 0.25).topology, turned(0.5, 0.25).limits)
    assert reason is not None
    assert "port 'port 0' serves link 0 -> 2 at 2 us/MB" in reason
    assert "is served at 1" in reason


def test_ranks_are_in_one_orbit_only_if_their_ports_are_as_fast() -> None:
    def crossed(rate: float) -> Problem:
        links = [(r, (r + 1) % 4, 1.0, 2.0) for r in range(4)]
        shared = [(r,) for r in range(4)]
        return problem(machine(4, links, shared=shared, rates=[0.5, 0.5, 0.5, rate]), "allgather")

    assert quotient(crossed(0.5)) is not None
    assert quotient(crossed(0.25)) is None


def test_parallel_links_of_a_machine_carry_twice_as_much() -> None:
    text = "name: m\ngpus: 2\nlinks:\n" + 2 * "  - {pairs: [0-1], alpha_us: 1, bandwidth_gbps: 25}\n"
    one = make_problem("allgather", topology=parse_topology(text), size="128MB").problem
    assert one.topology.num_links == 2
    assert lower_bound(one).value_us == pytest.approx(1 + SLOW_US / 2)


def test_a_profile_replaces_the_rates_of_ports_with_its_own(tmp_path: Path) -> None:
    """Measured costs are of whole routes, so no port of the machine is faster than its links."""
    profile = tmp_path / "topo-dgx2-1MB.json"
    profile.write_text(
        '{"name": "dgx2_1MB", "gpus_per_node": 16, "alpha": 0.7, "node_betas_list": [8], "node_invbws_list": '
        '[8], "nics_per_node": 8, "remote_invbw": 105, "remote_alpha": 1.7, "remote_beta": 106}'
    )
    machine_of = load_topology("dgx2", nodes=2, profile=profile)
    assert make_problem("allgather", topology=machine_of).problem.topology.port_betas is None
    assert build_topology("dgx2").links != machine_of.links

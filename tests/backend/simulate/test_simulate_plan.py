"""Times of plans: what is on a napkin, and what they share, wait for and pay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import switched
from plan_mutations import without
from switched import nvls_allreduce

from taccl.backend.lower_plan import PlanLowering
from taccl.backend.mscclpp import read_plan
from taccl.backend.plan import BlockChannels, BlockRemotes, Channel, ExecutionPlan, OpName, PlanBlock
from taccl.backend.simulate import moves_only_packets, simulate_plan
from taccl.backend.simulate.plan.work import Packets
from taccl.backend.target import LoweringOptions
from taccl.errors import TopologyError, VerificationError
from taccl.model.executor import SHAPES, Executor, ProtocolCosts
from tests.backend.plans import (
    ALPHA,
    BETA,
    DATA,
    NOP,
    everyone,
    exchange_of_packets,
    plan_of,
    with_operations,
)


def time_us(plan: ExecutionPlan, **options) -> float:
    return simulate_plan(plan, everyone(plan.num_ranks), 1.0, **options).time_us


def test_napkin_plans_take_what_is_on_the_napkin() -> None:
    """Handshake, bytes, alpha: of the AllGather once, of the relay and the AllReduce twice."""
    assert time_us(plan_of("napkin-allgather_2")) == pytest.approx(ALPHA + BETA + ALPHA)
    assert time_us(plan_of("napkin-relay_3")) == pytest.approx(ALPHA + 2 * (BETA + ALPHA))
    assert time_us(plan_of("napkin-allreduce_2")) == pytest.approx(ALPHA + 2 * (BETA + ALPHA))


def test_packets_need_no_signals_and_take_twice_the_bytes() -> None:
    plan = exchange_of_packets(double_scratch=True)
    assert time_us(plan) == pytest.approx(2 * BETA + ALPHA)
    assert moves_only_packets(plan)
    assert not moves_only_packets(plan_of("napkin-allgather_2"))


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda path: path.stem)
def test_times_grow_with_the_size_and_never_fall_below_an_alpha(path: Path) -> None:
    plan = read_plan(path)
    times = [simulate_plan(plan, everyone(plan.num_ranks), chunk).time_us for chunk in (0.001, 0.1, 10)]
    assert ALPHA < times[0] < times[1] < times[2]


def test_blocks_that_put_over_one_link_share_it() -> None:
    plan = plan_of("napkin-allgather_2")
    ranks = []
    for rank in plan.ranks:
        put = rank.blocks[0].operations[3]
        second = PlanBlock(
            1, (put,), (BlockChannels(Channel.MEMORY, (0,)),), (BlockRemotes(Channel.MEMORY, (0,)),)
        )
        ranks.append(replace(rank, blocks=(*rank.blocks, second)))
    twice = simulate_plan(replace(plan, ranks=tuple(ranks)), everyone(2), 1.0)
    assert twice.time_us == pytest.approx(2 * BETA + ALPHA)
    assert twice.port_bytes == pytest.approx([2 * 2**20] * 2)


def test_a_proxy_takes_its_time_for_each_push() -> None:
    plan = plan_of("napkin-relay_3")
    # on the longest way: a signal, then twice a put
    assert time_us(plan, proxy_us=3.0) == pytest.approx(time_us(plan) + 3 * 3.0)


def test_pulling_costs_an_alpha_and_a_flush_another() -> None:
    plan = plan_of("napkin-relay_3")
    operations = plan.ranks[1].blocks[0].operations
    quick = with_operations(
        plan, 1, (*operations[:3], replace(operations[3], name=OpName.PUT_SIGNAL), *operations[4:])
    )
    slow, fast = (simulate_plan(each, everyone(3), 1.0) for each in (plan, quick))
    row = np.flatnonzero((slow.rank == 1) & (slow.step == 3))[0]
    assert slow.end_us[row] - slow.start_us[row] == pytest.approx(BETA + ALPHA)
    assert fast.end_us[row] == fast.start_us[row]


COSTS = ProtocolCosts(
    launch_us=5.0,
    hop_us=0.5,
    slice_us=0.0,
    block_gbps=2**20 / 40e3,
    piece_bytes=2**20,
    shape=SHAPES["Simple"],
)


def test_the_executor_adds_launch_hops_slow_blocks_and_sums() -> None:
    executor = Executor({"Simple": COSTS}, reduce_us=1.0, reduce_gbps=1e6)
    plan = plan_of("napkin-allgather_2")
    network = everyone(2, executor=executor)
    run = simulate_plan(plan, network, 1.0)
    assert run.launch_us == 5.0
    # a block moves a MB in 40 us, slower than the link; it copies in 1 us and a little
    assert run.time_us == pytest.approx(5 + 1.5 + 40 + 1 + 1.5, abs=0.01)
    assert simulate_plan(plan, network, 1.0, links_only=True).time_us == pytest.approx(12.0)
    with pytest.raises(TopologyError, match="says nothing about the protocol LL"):
        simulate_plan(exchange_of_packets(double_scratch=True), network, 1.0)


def test_more_blocks_than_run_at_once_have_no_time() -> None:
    executor = Executor({"Simple": COSTS}, reduce_us=1.0, reduce_gbps=1e6, thread_blocks=1)
    plan = plan_of("napkin-allgather_2")
    first = plan.ranks[0]
    ranks = (replace(first, blocks=(*first.blocks, PlanBlock(1, (NOP,)))), plan.ranks[1])
    with pytest.raises(VerificationError, match="2 thread blocks, but a GPU of the machine runs 1"):
        simulate_plan(replace(plan, ranks=ranks), everyone(2, executor=executor), 1.0)


def test_a_plan_that_hangs_has_no_time() -> None:
    with pytest.raises(VerificationError, match="hangs, so it has no time") as caught:
        time_us(without(plan_of("napkin-allgather_2"), 0, 0, 6))
    assert caught.value.findings == ("rank 1, thread block 0, operation 7 (wait) waits for ever",)


def test_ranks_that_no_link_joins_are_refused() -> None:
    with pytest.raises(TopologyError, match="has no link"):
        simulate_plan(plan_of("napkin-relay_3"), everyone(2), 1.0)


def test_packets_are_there_when_all_of_them_are() -> None:
    packets = Packets()
    packets.add(0, 10)
    packets.add(20, 30)
    assert packets.cover(0, 10)
    assert not packets.cover(5, 25)
    packets.add(10, 20)
    assert packets.cover(0, 30)


def test_a_switch_sums_n_into_one_and_copies_one_to_all_at_once() -> None:
    """Each way carries S (1 + 1/n); next to that signals before and after, and two hops of the sum."""
    for gpus, loops_back in ((4, True), (4, False), (8, True)):
        lowering = PlanLowering(nvls_allreduce(gpus), LoweringOptions())
        network = switched.switched(gpus, loops_back=loops_back)
        run = simulate_plan(lowering.plan(lowering.switching), network, 1.0)
        assert run.time_us == pytest.approx(switched.BETA * (gpus + 1) + 4 * switched.ALPHA)
        ways = run.port_bytes[: 2 * gpus] / 2**20
        assert ways == pytest.approx([gpus + 1.0] * 2 * gpus)


def test_a_way_back_that_the_link_of_a_face_has_already_is_not_counted_again() -> None:
    schedule = nvls_allreduce(4)
    lowering = PlanLowering(schedule, LoweringOptions())
    plan, topology = lowering.plan(lowering.switching), schedule.problem.topology
    ports = list(topology.ports)
    for member in range(4):
        for ends in ((4, member), (member, 5)):
            ports[topology.link_index[ends]] = (member, 4 + member)
    run = simulate_plan(plan, replace(topology, ports=tuple(ports)), 1.0)
    assert run.port_bytes[:8] / 2**20 == pytest.approx([5.0] * 8)
    assert run.time_us == pytest.approx(switched.BETA * 5 + 4 * switched.ALPHA, rel=0.2)


def test_where_no_switch_sums_its_operations_move_bytes_one_by_one() -> None:
    schedule = nvls_allreduce(4)
    lowering = PlanLowering(schedule, LoweringOptions())
    run = simulate_plan(lowering.plan(lowering.switching), everyone(4), 1.0)
    assert len(run.moves) == 4 * 2 * 3


def test_a_thread_block_moves_a_sum_and_a_store_and_not_the_parts() -> None:
    executor = Executor({"Simple": COSTS}, reduce_us=1.0, reduce_gbps=1e6)
    schedule = nvls_allreduce(4, executor=executor)
    lowering = PlanLowering(schedule, LoweringOptions())
    run = simulate_plan(lowering.plan(lowering.switching), schedule.problem.topology, 1.0)
    # a block moves a MB in 40 us, slower than the links; a hop more for the signal, the sum, and the store
    assert run.time_us == pytest.approx(5 + 2 * 40 + 4 * switched.ALPHA + 3 * 0.5)

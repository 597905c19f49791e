from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import block, nop, program, ring_allreduce, step
from small_schedules import by_hand, network, program_of, ring_allgather
from strategies import schedules
from studies import examples

from taccl.backend.lower import lower
from taccl.backend.program import Op, Protocol
from taccl.backend.simulate import Simulation, simulate_program
from taccl.backend.verify.msccl_xml import verify_program
from taccl.errors import TacclError, TopologyError, VerificationError
from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.schedule import Schedule, Send, schedule_from_sends

#: Chunks of 1 MB, alpha 1 us, beta 1 us/MB.
PAIR = network(2, [(0, 1), (1, 0)])


def one_way(*sends: object, receiver: object = None, **changes: object):
    """Rank 0 runs `sends`, rank 1 receives as often."""
    receives = [step("r", f"o{n}", count=each.count) for n, each in enumerate(sends)]
    return program(
        "broadcast", 8, (block(0, 1, -1, *sends),), (receiver or block(0, -1, 0, *receives),), **changes
    )


def times(simulation: Simulation, op: Op) -> list[tuple[float, float]]:
    rows = [row for row in range(len(simulation)) if simulation.op(row) is op]
    return [(float(simulation.start_us[row]), float(simulation.end_us[row])) for row in rows]


def sharing(topology: LogicalTopology, *ports: tuple[int, ...]) -> LogicalTopology:
    names = tuple(f"port {port}" for port in range(1 + max(max(each) for each in ports)))
    return replace(topology, ports=ports, port_names=names)


def test_a_send_takes_alpha_and_beta_for_each_of_its_chunks() -> None:
    done = simulate_program(one_way(step("s", "i0", count=3)), PAIR, 2.0)
    assert done.time_us == 1 + 3 * 2
    assert times(done, Op.SEND) == times(done, Op.RECV) == [(0, 7)]
    assert done.link.tolist() == [0, 0]
    assert done.source.tolist() == [-1, 0]
    assert done.port_busy_us.tolist() == [7, 0]
    assert done.utilisation.tolist() == [1, 0]


def test_a_step_waits_for_what_it_depends_on_and_nops_have_no_row() -> None:
    made = program(
        "allgather",
        4,
        (
            block(0, 1, -1, nop((1, 0)), step("s", "i0", wait=(1, 0))),
            block(1, -1, 1, step("r", "o2", tells=True)),
        ),
        (block(0, 0, -1, step("s", "i0")), block(1, -1, 0, step("r", "o0"))),
    )
    done = simulate_program(made, PAIR, 1.0)
    assert done.time_us == 4
    assert len(done) == 4
    assert times(done, Op.SEND) == [(2, 4), (0, 2)]
    assert done.step.tolist() == [1, 0, 0, 0]


def test_links_that_share_a_port_are_served_one_after_the_other() -> None:
    blocks = (block(0, 1, -1, step("s", "i0")), block(1, 2, -1, step("s", "i0")))
    made = program("broadcast", 1, blocks, *[(block(0, -1, 0, step("r", "o0")),)] * 2)
    apart = network(3, [(0, 1), (0, 2)])
    assert simulate_program(made, apart, 1.0).time_us == 2
    together = simulate_program(made, sharing(apart, (0, 2), (1, 2)), 1.0)
    assert times(together, Op.SEND) == [(0, 2), (2, 4)]
    assert together.port_busy_us.tolist() == [2, 2, 4]


def test_pipelined_ports_are_free_again_after_beta() -> None:
    made = one_way(step("s", "i0"), step("s", "i1"))
    assert simulate_program(made, PAIR, 1.0).time_us == 4
    done = simulate_program(made, replace(PAIR, occupancy="pipelined"), 1.0)
    assert times(done, Op.SEND) == [(0, 2), (1, 3)]
    assert done.done_us.tolist() == [1, 2, 2, 3]


@pytest.mark.parametrize(("slots", "time_us"), [(1, 12), (2, 7), (None, 7), (3, 6)])
def test_a_full_connection_keeps_its_sender_waiting(slots: int | None, time_us: float) -> None:
    made = one_way(*(step("s", f"i{n}") for n in range(4)))
    slow = replace(PAIR, alpha_us=np.full(2, 2.0), occupancy="pipelined")
    assert simulate_program(made, slow, 1.0, slots=slots).time_us == time_us


def test_a_send_larger_than_its_connection_waits_for_its_receiver() -> None:
    late = block(0, 0, 0, step("s", "i0"), step("r", "o0", count=4))
    made = program("allgather", 16, (block(0, 1, 1, step("s", "i0", count=4), step("r", "o8")),), (late,))
    small = simulate_program(made, PAIR, 0.5)
    assert times(small, Op.SEND) == [(0, 3), (0, 1.5)]
    large = simulate_program(made, PAIR, 2.0)
    assert times(large, Op.SEND) == [(3, 12), (0, 3)]


def test_a_program_that_hangs_has_no_time() -> None:
    both = [(block(0, 1 - r, 1 - r, *[step("s", "i0")] * 3, *[step("r", "o0")] * 3),) for r in range(2)]
    made = program("allgather", 8, *both)
    with pytest.raises(VerificationError, match=r"with 2 slots.* hangs") as error:
        simulate_program(made, PAIR, 1.0)
    assert (
        "rank 0, thread block 0, step 2 (s) waits for room on channel 0 from rank 0 to rank 1"
        in error.value.findings
    )
    assert simulate_program(made, PAIR, 1.0, slots=3).time_us == 6


def test_steps_without_another_end_are_named() -> None:
    made = program("broadcast", 1, (block(0, 1, -1, step("s", "i0")),), (block(0, -1, -1),))
    with pytest.raises(VerificationError, match="cannot run") as error:
        simulate_program(made, PAIR, 1.0)
    assert "sends to rank 1 on channel 0" in error.value.findings[0]
    lost = program("broadcast", 1, (block(0, -1, -1, step("s", "i0")),), (block(0, -1, -1),))
    with pytest.raises(VerificationError, match="its thread block has nobody to send to"):
        simulate_program(lost, PAIR, 1.0)


def test_a_send_between_ranks_that_no_link_joins_names_both_and_the_step() -> None:
    made = one_way(step("s", "i0"))
    with pytest.raises(TopologyError, match=r"thread block 0, step 0 \(s\) sends from rank 0 to rank 1"):
        simulate_program(made, network(2, [(1, 0)]), 1.0)
    with pytest.raises(TopologyError, match="is for 2 ranks, but small has 3"):
        simulate_program(made, network(3, [(0, 1)]), 1.0)


@pytest.mark.parametrize("wrong", [{"chunk_mb": 0.0}, {"slots": 0}, {"copy_us_per_mb": -1.0}])
def test_impossible_wishes_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(TacclError, match="must"):
        simulate_program(one_way(step("s", "i0")), PAIR, **{"chunk_mb": 1.0} | wrong)


def test_fused_steps_pass_on_what_they_have_received_whole() -> None:
    ring = network(4, [(rank, (rank + 1) % 4) for rank in range(4)])
    assert simulate_program(ring_allreduce(4), ring, 1.0).time_us == 2 * 3 * 2


def test_flags_take_bandwidth_only_where_a_protocol_is_asked_for() -> None:
    made = one_way(step("s", "i0"), protocol=Protocol.LL)
    assert simulate_program(made, PAIR, 1.5).time_us == 2.5
    assert simulate_program(made, PAIR, 1.5, protocol=Protocol.LL).time_us == 4
    assert simulate_program(made, PAIR, 1.5, protocol=Protocol.LL128).time_us == pytest.approx(2.6)
    assert simulate_program(made, PAIR, 1.5, protocol=Protocol.SIMPLE).time_us == 2.5


def test_copies_cost_what_one_says() -> None:
    made = one_way(
        step("s", "i0"), receiver=block(0, -1, 0, step("r", "s0"), step("cpy", "s0", "o0")), scratch=1
    )
    assert simulate_program(made, PAIR, 2.0).time_us == 3
    done = simulate_program(made, PAIR, 2.0, copy_us_per_mb=0.25)
    assert done.time_us == 3.5
    assert times(done, Op.COPY) == [(3, 3.5)]


def test_ports_go_to_the_longest_way_ahead_or_to_the_first_come() -> None:
    """Ranks 0 and 1 send to rank 2 through one port, and it has to pass on what comes from rank 1."""
    made = program(
        "allreduce",
        4,
        (block(0, 2, -1, step("s", "i0")),),
        (block(0, 2, -1, step("s", "i0")),),
        (block(0, -1, 0, step("r", "o0")), block(1, 3, 1, step("rcs", "o1"))),
        (block(0, -1, 2, step("r", "o1")),),
    )
    joined = sharing(network(4, [(0, 2), (1, 2), (2, 3)]), (0,), (0,), (1,))
    assert simulate_program(made, joined, 1.0).time_us == 4
    assert simulate_program(made, joined, 1.0, arbitration="first-come").time_us == 6


def test_instances_take_turns_at_a_port() -> None:
    schedule = by_hand(make_collective("broadcast", 2, 2), [(0, 0, 1, (0,), False), (2, 0, 1, (1,), False)])
    made = lower(schedule, instances=2)[0].program
    done = simulate_program(made, schedule.problem.topology, 0.5)
    sends = sorted((start, int(done.thread_block[row])) for row, start in _sends(done))
    assert [start for start, _ in sends] == [0, 1.5, 3, 4.5]
    assert sends[0][1] == sends[2][1] != sends[1][1] == sends[3][1]


def _sends(done: Simulation) -> list[tuple[int, float]]:
    return [(row, float(done.start_us[row])) for row in range(len(done)) if done.op(row) is Op.SEND]


def test_a_group_is_one_send_of_a_ring() -> None:
    schedule = ring_allgather(4, pieces=3)
    done = simulate_program(program_of(schedule), schedule.problem.topology, 1.0)
    assert done.time_us == schedule.makespan_us


def test_sends_of_one_rank_go_through_a_shared_port_in_the_schedules_order() -> None:
    """The last send of rank 0 is the one that has to go on: late, it would delay the end."""
    links = [(0, 1), (0, 2), (0, 3), (3, 4)]
    topology = sharing(network(5, links), (0, 4), (1, 4), (2, 4), (3,))
    problem = replace(by_hand(make_collective("broadcast", 2), [(0, 0, 1, (0,), False)]).problem)
    problem = replace(problem, topology=topology, collective=make_collective("broadcast", 5))
    sends = [Send((0,), 2, 0.0), Send((0,), 1, 2.0), Send((0,), 0, 4.0), Send((0,), 3, 2.0)]
    schedule = schedule_from_sends(problem, sends)
    schedule.check()
    made = lower(schedule)[0].program
    assert verify_program(made).ok
    for arbitration in ("urgent", "first-come"):
        assert simulate_program(made, topology, 1.0, arbitration=arbitration).time_us == 6


@settings(max_examples=examples(30), deadline=None)
@given(schedule=schedules(), runtimes=st.sampled_from(["all", "executor"]))
def test_where_latency_is_occupancy_a_program_takes_no_longer_than_its_schedule(
    schedule: Schedule, runtimes: str
) -> None:
    """Links that take no time are left out: nothing orders what happens on them at one moment.

    So are fast ports: a file cannot say that a send may start once another has left one of its ports.
    """
    topology = schedule.problem.topology
    took = topology.duration_us(np.arange(topology.num_links), 1.0)
    if topology.occupancy == "pipelined" or topology.port_betas is not None or (took == 0).any():
        return
    for lowered in lower(schedule, runtimes=runtimes):
        for arbitration in ("urgent", "first-come"):
            done = simulate_program(lowered.program, topology, 1.0, arbitration=arbitration)
            assert done.time_us <= schedule.makespan_us + 1e-6


@settings(max_examples=40, deadline=None)
@given(schedule=schedules())
def test_what_is_simulated_keeps_the_rules_of_the_cost_model(schedule: Schedule) -> None:
    topology = schedule.problem.topology
    done = simulate_program(lower(schedule)[0].program, topology, 1.0)
    sends = np.flatnonzero((done.link >= 0) & (done.source < 0))
    assert len(sends) == len(schedule.sends)
    lasts = done.end_us[sends] - done.start_us[sends]
    alpha, beta = topology.alpha_us[done.link[sends]], topology.beta_us_per_mb[done.link[sends]]
    size_mb = np.divide(lasts - alpha, beta, out=np.zeros(len(sends)), where=beta > 0)
    served, pair = topology.pairs_of(done.link[sends])
    begin = done.start_us[sends[served]]
    until = begin + topology.port_busy_us(pair, size_mb[served])
    assert (until <= done.done_us[sends[served]] + 1e-6).all()
    for port in range(topology.num_ports):
        here = topology.incidence[1][pair] == port
        for row, after in pairwise(sorted(zip(begin[here], until[here], strict=True))):
            assert row[1] <= after[0] + 1e-6
    receives = np.flatnonzero(done.source >= 0)
    assert (done.end_us[receives] >= done.end_us[done.source[receives]]).all()
    assert (done.ready_us <= done.start_us).all()
    assert (done.start_us <= done.end_us).all()
    assert done.end_us.max(initial=0.0) == done.time_us

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import block, edit, program, ring_allreduce, step
from small_schedules import by_hand, network, program_of, relayed_alltoall, ring_allgather
from strategies import random_network, random_schedule, schedules
from studies import examples

from taccl.backend.lower import lower
from taccl.backend.program import Op
from taccl.backend.show import describe_schedule, program_timeline, schedule_timeline, to_trace
from taccl.backend.show.critical import critical_sends
from taccl.backend.show.timeline import KINDS, SEND, tracks
from taccl.backend.simulate import simulate_program
from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import SavedSchedule, Schedule, Send, schedule_from_sends
from taccl.model.units import MB


def one_way_out(occupancy: str) -> LogicalTopology:
    """Rank 0 sends to 1 and 2 through one port."""
    return replace(network(3, [(0, 1), (0, 2)]), ports=((0,), (0,)), port_names=("out",), occupancy=occupancy)


def sent_one_after_the_other(occupancy: str) -> Schedule:
    problem = Problem(one_way_out(occupancy), make_collective("broadcast", 3), chunk_mb=1.0)
    later = 2.0 if occupancy == "serial" else 1.0
    return schedule_from_sends(problem, [Send((0,), 0, 0.0), Send((0,), 1, later)])


def test_each_transfer_is_a_bar_with_its_times_bytes_and_source() -> None:
    schedule = ring_allgather(3, pieces=2)
    timeline = schedule_timeline(SavedSchedule(schedule))
    bars = timeline.bars
    assert len(bars) == timeline.transfers == len(schedule)
    shown = Counter(
        zip(bars.link.tolist(), bars.number.tolist(), bars.start.tolist(), bars.end.tolist(), strict=True)
    )
    sent = zip(
        schedule.link.tolist(),
        schedule.chunk.tolist(),
        schedule.start_us.tolist(),
        schedule.end_us.tolist(),
        strict=True,
    )
    assert shown == Counter(sent)
    assert (bars.source == schedule.problem.collective.owner[bars.number]).all()
    assert (bars.bytes == MB).all()
    assert (timeline.lane_rank[bars.lane] == schedule.problem.topology.src[bars.link]).all()
    assert (bars.peer == schedule.problem.topology.dst[bars.link]).all()


def test_chunks_of_one_send_share_its_track() -> None:
    bars = schedule_timeline(SavedSchedule(relayed_alltoall(grouped=True))).bars
    crossing = bars.slots == 4
    assert crossing.sum() == 8
    assert sorted(bars.slot[crossing].tolist()) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert (bars.track == 0).all()


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 6)), min_size=1, max_size=25))
def test_intervals_of_one_track_do_not_overlap(rows: list[tuple[int, int, int]]) -> None:
    lane, start, length = np.array(rows).T
    end = (start + length).astype(float)
    track = tracks(lane, start.astype(float), end)
    for a in range(len(rows)):
        for b in range(a):
            if (lane[a], track[a]) == (lane[b], track[b]):
                assert end[a] <= start[b] or end[b] <= start[a]


@st.composite
def prompt_schedules(draw: st.DrawFn) -> Schedule:
    """Valid schedules in which all sends take time and start as soon as ports and chunks allow."""
    dice = random.Random(draw(st.integers(0, 2**32 - 1)))
    name, ranks = draw(st.sampled_from(COLLECTIVES)), draw(st.integers(2, 5))
    network = random_network(ranks, dice)
    betas = network.port_betas
    slower = replace(
        network,
        alpha_us=network.alpha_us + 1,
        beta_us_per_mb=network.beta_us_per_mb + 1,
        port_betas=betas and tuple(tuple(beta + 1 for beta in each) for each in betas),
    )
    return random_schedule(make_collective(name, ranks, draw(st.integers(1, 2))), slower, dice)


@settings(max_examples=examples(20), deadline=None)
@given(schedule=prompt_schedules())
def test_the_critical_path_leads_without_a_gap_from_the_start_to_the_end(schedule: Schedule) -> None:
    path, sends = critical_sends(schedule), schedule.sends
    assert sends.end_us[path[-1]] == schedule.makespan_us
    assert sends.start_us[path[0]] == 0.0
    topology = schedule.problem.topology
    send, pair = topology.pairs_of(sends.link)
    busy = topology.port_busy_us(pair, sends.count[send] * schedule.problem.chunk_mb)
    for before, after in pairwise(path):
        freed = sends.start_us[before] + busy[send == before]
        assert sends.start_us[after] in (sends.end_us[before], *freed.tolist())


@settings(max_examples=examples(20), deadline=None)
@given(schedule=schedules())
def test_every_schedule_has_a_critical_path_in_the_order_of_time(schedule: Schedule) -> None:
    path, sends = critical_sends(schedule), schedule.sends
    assert len(set(path.tolist())) == len(path)
    assert (len(path) == 0) == (len(schedule) == 0)
    assert (np.diff(sends.start_us[path]) >= 0).all()


def test_on_a_ring_the_critical_path_follows_a_chunk() -> None:
    schedule = ring_allgather(4)
    path = critical_sends(schedule)
    chunks = schedule.chunk[schedule.sends.first_row[path]]
    assert len(path) == 3
    assert len(set(chunks.tolist())) == 1


def test_a_port_is_a_reason_to_wait_until_it_is_free() -> None:
    for occupancy in ("serial", "pipelined"):
        schedule = sent_one_after_the_other(occupancy)
        schedule.check()
        assert critical_sends(schedule).tolist() == [0, 1]


def test_a_step_of_a_program_is_a_bar_and_waits_are_none() -> None:
    made = program_of(ring_allgather(3))
    timeline = program_timeline(made)
    steps = [step for rank in made.ranks for block in rank.thread_blocks for step in block.steps]
    assert len(timeline.bars) == sum(step.op is not Op.NOP for step in steps)
    assert timeline.unit == "step"
    assert "No times are known" in timeline.notes[0]


def test_the_transfers_of_a_lowered_schedule_are_those_of_the_schedule() -> None:
    for schedule in (ring_allgather(4, pieces=2), relayed_alltoall(grouped=True)):
        timeline = program_timeline(program_of(schedule))
        bars = timeline.bars
        assert timeline.transfers == len(schedule)
        sends = bars.kind == SEND
        assert set(bars.source[sends].tolist()) == set(schedule.problem.collective.owner.tolist())
        sent, received = timeline.arrows
        assert len(sent) == sends.sum()
        assert (bars.label[sent] == bars.label[received]).all()
        assert (bars.source[sent] == bars.source[received]).all()


def test_without_times_a_ring_takes_a_step_per_hop() -> None:
    timeline = program_timeline(ring_allreduce(4))
    assert timeline.span == 2 * (4 - 1) + 1  # the last hop is received after it was sent on
    assert {KINDS[kind] for kind in timeline.bars.kind} == {"send", "receive", "receive and send"}


def test_a_sum_is_called_after_the_rank_whose_part_it_is() -> None:
    timeline = program_timeline(ring_allreduce(4))
    words = {timeline.labels[label] for label in timeline.bars.label}
    assert "the sum of chunk 3 over 4 ranks" in words
    assert set(timeline.bars.source.tolist()) == {0, 1, 2, 3}


def test_times_come_from_the_simulation() -> None:
    schedule = ring_allgather(4, pieces=2)
    program = program_of(schedule)
    simulation = simulate_program(program, schedule.problem.topology, 1.0)
    timeline = program_timeline(program, simulation, [("time", "9.00 us")], ["a remark"])
    assert timeline.unit == "us"
    assert timeline.span == simulation.time_us
    assert timeline.bars.critical.any()
    assert timeline.notes == ("a remark",)
    assert ("time", "9.00 us") in timeline.facts
    sends = timeline.bars.kind == SEND
    assert sorted(timeline.bars.end[sends].tolist()) == sorted(schedule.sends.end_us.tolist())
    assert (timeline.bars.bytes[sends] == 2 * MB).all()


def test_the_critical_path_of_a_simulation_leads_to_its_end() -> None:
    schedule = sent_one_after_the_other("serial")
    program = program_of(schedule)
    timeline = program_timeline(program, simulate_program(program, schedule.problem.topology, 1.0))
    bars = timeline.bars
    critical = np.flatnonzero(bars.critical & (bars.kind == SEND))
    assert bars.start[critical].min() == 0.0
    assert bars.end[critical].max() == timeline.span == 4.0
    assert len(critical) == 2


def test_steps_that_can_never_run_are_left_out_and_counted() -> None:
    stuck = edit(ring_allreduce(3), 0, 0, 0, depends=(0, 4))
    timeline = program_timeline(stuck)
    assert len(timeline.bars) < 15
    assert any("can never run" in note for note in timeline.notes)


def test_a_program_that_reaches_outside_of_its_buffers_is_shown_without_contents() -> None:
    wild = edit(ring_allreduce(3), 0, 0, 0, src_offset=99)
    timeline = program_timeline(wild)
    assert len(timeline.bars) == 15
    assert set(timeline.bars.source.tolist()) == {-1}
    assert any("outside of their buffers" in note for note in timeline.notes)


def test_what_nobody_wrote_is_called_so() -> None:
    made = program(
        "allgather",
        2,
        (block(0, 1, 1, step("s", "o1"), step("r", "o1")),),
        (block(0, 0, 0, step("s", "i0"), step("r", "o0")),),
    )
    timeline = program_timeline(made)
    assert "memory that nobody wrote" in timeline.labels


def test_a_schedule_by_hand_has_a_lane_per_link_in_use() -> None:
    schedule = by_hand(make_collective("broadcast", 3), [(0.0, 0, 2, (0,), False), (2.0, 2, 1, (0,), False)])
    timeline = schedule_timeline(SavedSchedule(schedule))
    assert timeline.lane_name == ("0 → 2", "2 → 1")
    assert timeline.lane_rank.tolist() == [0, 2]
    assert timeline.bars.critical.all()


@settings(max_examples=40, deadline=None)
@given(schedule=prompt_schedules())
def test_the_critical_path_of_a_simulation_has_no_gap(schedule: Schedule) -> None:
    (lowered, *_) = lower(schedule)
    timeline = program_timeline(
        lowered.program, simulate_program(lowered.program, schedule.problem.topology, 1.0)
    )
    bars = timeline.bars
    reached = 0.0
    for bar in sorted(np.flatnonzero(bars.critical), key=lambda bar: bars.start[bar]):
        assert bars.start[bar] <= reached + 1e-9
        reached = max(reached, bars.end[bar])
    assert abs(reached - timeline.span) < 1e-9


def test_computing_has_grey_bars_before_the_links_of_each_rank() -> None:
    """Two ranks: each makes its part, rank 1 works on the sum, and both use it."""
    chunk = make_collective("allreduce", 2).only(np.array([True, False]), "one")
    problem = Problem(
        network(2, [(0, 1), (1, 0)]),
        chunk,
        1.0,
        ready_us=np.array([3.0, 4.0]),
        tail_us=np.array([2.0, 2.0]),
        sum_work_us=np.array([5.0]),
    )
    took_us = float(problem.topology.duration_us(np.array([0]), np.array([1.0]))[0])
    at_root_us = 3.0 + took_us
    sends = [Send((0,), 0, 3.0, True), Send((0,), 1, max(at_root_us, 4.0) + 5.0)]
    schedule = schedule_from_sends(problem, sends)
    schedule.check()
    timeline = schedule_timeline(SavedSchedule(schedule))
    bars, compute = timeline.bars, KINDS.index("compute")
    assert timeline.lane_name == ("computing", "0 → 1", "computing", "1 → 0")
    shown = bars.kind == compute
    assert set(bars.source[shown]) == {-1}
    words = [
        (timeline.lane_rank[bars.lane[row]], timeline.labels[bars.label[row]])
        for row in np.flatnonzero(shown)
    ]
    assert [(rank, said.split()[0]) for rank, said in words] == [
        *[(0, "makes"), (0, "uses")],
        *[(1, "makes"), (1, "works"), (1, "uses")],
    ]
    assert bars.end[shown].max() == timeline.span == schedule.makespan_us
    assert "COMPUTES" in "\n".join(describe_schedule(SavedSchedule(schedule)))
    assert '"cat":"compute"' in to_trace(timeline)

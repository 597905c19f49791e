import json
from collections import defaultdict
from itertools import pairwise

from hypothesis import given, settings
from programs import ring_allreduce
from small_schedules import program_of, relayed_alltoall, ring_allgather
from strategies import schedules

from taccl.backend.show import program_timeline, schedule_timeline, to_trace
from taccl.backend.show.timeline import Timeline
from taccl.backend.simulate import simulate_program
from taccl.model.schedule import SavedSchedule, Schedule


def events_of(timeline: Timeline) -> dict[str, list[dict]]:
    """The events of a trace by their phase."""
    events = defaultdict(list)
    for event in json.loads(to_trace(timeline))["traceEvents"]:
        events[event["ph"]].append(event)
    return events


def test_a_transfer_is_a_slice_at_both_ends_joined_by_an_arrow() -> None:
    schedule = ring_allgather(3)
    events = events_of(schedule_timeline(SavedSchedule(schedule)))
    assert len(events["X"]) == 2 * len(schedule)
    assert len(events["s"]) == len(events["f"]) == len(schedule)
    finish = {event["id"]: event for event in events["f"]}
    topology = schedule.problem.topology
    ends = sorted((event["pid"], finish[event["id"]]["pid"]) for event in events["s"])
    assert ends == sorted((int(topology.src[link]), int(topology.dst[link])) for link in schedule.link)
    spans = defaultdict(list)
    for event in events["X"]:
        spans[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for event in events["s"] + events["f"]:
        assert any(start < event["ts"] < end for start, end in spans[event["pid"], event["tid"]])


def test_a_process_is_a_rank_and_a_thread_is_named() -> None:
    events = events_of(program_timeline(program_of(ring_allgather(3))))
    names = {event["pid"]: event["args"]["name"] for event in events["M"] if event["name"] == "process_name"}
    assert names == {rank: f"rank {rank} (node 0)" for rank in range(3)}
    threads = {(e["pid"], e["tid"]) for e in events["M"] if e["name"] == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in events["X"]} <= threads


def test_a_step_of_a_program_is_a_slice_and_each_receive_has_an_arrow() -> None:
    timeline = program_timeline(ring_allreduce(4))
    events = events_of(timeline)
    assert len(events["X"]) == len(timeline.bars)
    assert len(events["s"]) == len(events["f"]) == 4 * 6
    assert "No times are known" in json.loads(to_trace(timeline))["otherData"]["note"]


def test_times_are_those_of_the_simulation() -> None:
    schedule = relayed_alltoall(grouped=True)
    program = program_of(schedule)
    simulation = simulate_program(program, schedule.problem.topology, 1.0)
    slices = events_of(program_timeline(program, simulation))["X"]
    assert max(event["ts"] + event["dur"] for event in slices) == simulation.time_us


@settings(max_examples=40, deadline=None)
@given(schedule=schedules())
def test_slices_of_one_thread_never_overlap_by_part(schedule: Schedule) -> None:
    lanes = defaultdict(list)
    for event in events_of(schedule_timeline(SavedSchedule(schedule)))["X"]:
        lanes[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in lanes.values():
        distinct = sorted(set(spans))
        for before, after in pairwise(distinct):
            assert after[0] >= before[1] - 1e-9

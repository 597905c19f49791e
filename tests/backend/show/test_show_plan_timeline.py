"""A plan as bars: what moved over which link when, what waited, and why it took so long."""

import numpy as np
import pytest
from plan_examples import PLANS, pulling_reducescatter, shared_allgather
from plans import RELAY as RELAY_NAME
from plans import everyone, plan_of

from taccl.backend.plan import ExecutionPlan
from taccl.backend.show import plan_timeline
from taccl.backend.show.timeline import COPY, KINDS, READ, SEND, WAIT
from taccl.backend.simulate import simulate_plan
from taccl.model.units import MB

RELAY = plan_of(RELAY_NAME)


def test_a_relay_is_two_transfers_one_after_the_other() -> None:
    """Links of 1 us + 10 us/MB: rank 0 hears at 1, and rank 1 at 12, which sends it on."""
    timeline = plan_timeline(RELAY, simulate_plan(RELAY, everyone(3), 1.0))
    bars = timeline.bars
    sends = np.flatnonzero(bars.kind == SEND)
    assert [(bars.start[bar], bars.end[bar], bars.peer[bar]) for bar in sends] == [(1, 11, 1), (12, 22, 2)]
    assert [timeline.lane_name[bars.lane[bar]] for bar in sends] == [
        *("port channel 0: to 1", "port channel 1: to 2")
    ]
    assert bars.critical[sends].all()
    assert timeline.transfers == 2
    assert timeline.span == 23
    assert {KINDS[kind] for kind in bars.kind} == {"send", "copy", "wait"}


def test_a_wait_is_joined_to_what_it_waited_for() -> None:
    timeline = plan_timeline(RELAY, simulate_plan(RELAY, everyone(3), 1.0))
    sent, waited = timeline.arrows
    assert set(timeline.bars.kind[waited]) == {WAIT}
    assert (timeline.bars.end[sent] <= timeline.bars.end[waited]).all()
    pairs = {
        (timeline.bars.peer[a], timeline.lane_rank[timeline.bars.lane[b]])
        for a, b in zip(sent, waited, strict=True)
    }
    assert pairs == {(1, 1), (2, 2)}


def test_who_reads_has_the_bar_and_the_bytes_come_from_the_other() -> None:
    plan = pulling_reducescatter()
    bars = (timeline := plan_timeline(plan, simulate_plan(plan, everyone(plan.num_ranks), 1.0))).bars
    reads = bars.kind == READ
    assert reads.any()
    assert timeline.topology is not None
    assert (timeline.topology.dst[bars.link[reads]] == timeline.lane_rank[bars.lane[reads]]).all()
    assert (timeline.topology.src[bars.link[reads]] == bars.peer[reads]).all()


def test_without_a_machine_a_chunk_takes_a_step() -> None:
    timeline = plan_timeline(RELAY)
    assert (timeline.unit, timeline.span, timeline.topology) == ("step", 2.0, None)
    assert any("No times are known" in note for note in timeline.notes)


def test_bars_have_the_colour_of_whose_part_they_move() -> None:
    bars = (timeline := plan_timeline(shared_allgather())).bars
    own = (bars.kind == SEND) | (bars.kind == COPY)
    assert own.any()
    assert (bars.source[own] == timeline.lane_rank[bars.lane[own]]).all()


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_what_is_drawn_is_what_was_simulated(plan: ExecutionPlan) -> None:
    ran = simulate_plan(plan, everyone(plan.num_ranks), 64 / MB)  # pipelines of few turns
    timeline = plan_timeline(plan, ran)
    bars = timeline.bars
    links = np.zeros(ran.topology.num_links)
    np.add.at(links, bars.link[bars.link >= 0], bars.bytes[bars.link >= 0])
    assert links == pytest.approx(ran.port_bytes)  # a port per link here
    assert (bars.end <= timeline.span + 1e-9).all()
    assert (np.diff(bars.lane) >= 0).all()
    for lane, track in {*zip(bars.lane.tolist(), bars.track.tolist(), strict=True)}:
        here = (bars.lane == lane) & (bars.track == track)
        assert (bars.end[here][:-1] <= bars.start[here][1:] + 1e-6).all()
    assert bars.critical.any()

"""A schedule on a machine that is no longer as it was."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl import make_problem, synthesize
from taccl.encoding.core.mending import mended, share_kept
from taccl.errors import ScheduleError


def scheduled(collective, machine, **more):
    words = {"topology": machine, "size": "1MB", "chunks": 1, "executor": False}
    found = synthesize(collective, file=False, engine="greedy", effort=50, **words, **more)
    return found.schedule, words


def broken(collective, words, *names):
    return make_problem(collective, without=names, **words).problem


def test_where_nothing_changed_the_schedule_stays():
    old, words = scheduled("allreduce", "ring:4")
    same = mended(old, make_problem("allreduce", **words).problem)
    assert share_kept(old, same) == 1.0
    assert same.makespan_us == pytest.approx(old.makespan_us)


def test_a_send_over_a_link_that_is_gone_goes_round():
    old, words = scheduled("broadcast", "ring:4")
    new = mended(old, broken("broadcast", words, "gpu0-gpu1"))
    new.check()
    over = set(zip(new.src.tolist(), new.dst.tolist(), strict=True))
    assert over == {(0, 3), (3, 2), (2, 1)}


def test_a_slow_link_is_left_where_a_way_round_is_faster():
    old, words = scheduled("broadcast", "full:3")
    now = make_problem("broadcast", **words).problem
    slow = now.topology.beta_us_per_mb * np.where((now.topology.src == 0) & (now.topology.dst == 1), 9, 1)
    new = mended(old, replace(now, topology=replace(now.topology, beta_us_per_mb=slow)))
    new.check()
    assert (0, 1) not in set(zip(new.src.tolist(), new.dst.tolist(), strict=True))


def test_where_nothing_leads_any_more_it_is_said():
    old, words = scheduled("allgather", "ring:3")
    now = make_problem("allgather", **words).problem
    links = now.topology.dst != 2
    cut = replace(
        now.topology,
        src=now.topology.src[links],
        dst=now.topology.dst[links],
        alpha_us=now.topology.alpha_us[links],
        beta_us_per_mb=now.topology.beta_us_per_mb[links],
        ports=tuple(ports for ports, left in zip(now.topology.ports, links, strict=True) if left),
    )
    with pytest.raises(ScheduleError, match="nothing leads from rank"):
        mended(old, replace(now, topology=cut))


def test_a_machine_of_another_size_is_refused():
    old, words = scheduled("allgather", "ring:4")
    with pytest.raises(ScheduleError, match="for 4 ranks"):
        mended(old, make_problem("allgather", **words | {"topology": "ring:5"}).problem)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(("allgather", "reducescatter", "allreduce", "alltoall", "broadcast", "reduce")),
    st.sampled_from(("ring:5", "torus:3x3", "full:4")),
    st.data(),
)
def test_whatever_link_is_gone_the_schedule_is_valid_again(collective, machine, data):
    old, words = scheduled(collective, machine)
    topology = old.problem.topology
    link = data.draw(st.integers(0, topology.num_links - 1))
    names = [f"gpu{topology.src[link]}", f"gpu{topology.dst[link]}"]
    new = mended(old, broken(collective, words, "->".join(names)))
    new.check()
    gone = (new.src == topology.src[link]) & (new.dst == topology.dst[link])
    assert not gone.any()


@pytest.mark.parametrize("machine", ["torus:3x3", "full:3"])
def test_a_rank_gets_no_partial_sum_twice(machine):
    """Small AllReduces, in which everybody sends what it has to everybody, and a link is gone."""
    words = {"topology": machine, "size": "9KB", "chunks": 1, "executor": False}
    old = synthesize("allreduce", file=False, effort=200, **words).schedule
    now = make_problem("allreduce", without=("gpu1->gpu0",), **words).problem
    mended(old, now).check()

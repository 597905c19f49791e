"""The bound from what is passed on inside a node until the end."""

from __future__ import annotations

import pytest
from brute_force import fastest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import full, machine, problem

from taccl import make_problem
from taccl.encoding.bounds import lower_bound
from taccl.encoding.bounds.cut import CUT
from taccl.encoding.bounds.relay import RELAY, _Way
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.hierarchical import hierarchical
from taccl.encoding.instance import Instance
from taccl.support.budget import Budget


def way(chunks: int, most: int = 99) -> _Way:
    """Chunks that come in at one in a microsecond with an alpha as long, and are passed on as fast to one."""
    return _Way(chunks, others=1, most=most, rate=1.0, alpha=1.0, inside=((1, 0.0, 1.0),))


def test_one_send_is_passed_on_after_it_came() -> None:
    assert way(1).least_us(Budget(60)) == pytest.approx(1 + 1 + 1)


def test_of_two_sends_the_last_is_small_enough_to_be_passed_on() -> None:
    # In one send: an alpha, 3 to come in and 3 to be passed on. In two of 2 and 1: 3 + 2, and then 1.
    assert way(3).least_us(Budget(60)) == pytest.approx(6)


def test_sends_of_one_chunk_pay_an_alpha_each() -> None:
    assert way(3, most=1).least_us(Budget(60)) == pytest.approx(3 + 3 + 1)


def test_what_comes_in_twice_at_the_end_leaves_time_to_pass_on_the_rest() -> None:
    """Of 4 chunks two come to both ranks, and two only to the one that passes them on meanwhile, slowly.

    The last two sends bring nothing first, and all before them is over two chunks before the end.
    """
    links = [(0, 1, 0.01, 1.0), (0, 2, 0.01, 1.0), (1, 2, 0.01, 2.5)]
    requested = problem(machine(3, links, shared=[[0, 1]], node_of=[0, 1, 1]), "broadcast", 4)
    proof = lower_bound(requested, bounds=[RELAY])
    assert proof.kind == RELAY.name
    assert proof.value_us == pytest.approx(6.03)
    assert fastest(requested).makespan_us == pytest.approx(6.04)


def test_it_says_nothing_where_no_time_is_left_and_of_a_single_node() -> None:
    assert way(3).least_us(Budget(0)) == 0
    assert lower_bound(problem(full(3), "allgather", 1), bounds=[RELAY]).kind != RELAY.name


def test_a_switch_that_copies_passes_nothing_on_faster_than_ranks_can_get_it() -> None:
    """Of what GPUs pass on, only links to those who want it count, and none into the switch."""
    with_it, without_it = (
        lower_bound(
            make_problem("allgather", topology="dgx-h100", nodes=3, size="1GB", without=names).problem,
            bounds=[RELAY],
        ).value_us
        for names in (None, "nvswitch")
    )
    assert without_it * (1 - 1e-3) < with_it <= without_it


@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from(["allgather", "reducescatter", "allreduce"]),
    st.sampled_from([("dgx-h100", 3), ("a100", 2), ("ndv2", 3)]),
    st.sampled_from(["64KB", "64MB"]),
    st.sampled_from([1, 2]),
)
def test_no_schedule_is_faster(name: str, machine: tuple[str, int], size: str, chunks: int) -> None:
    without = "nvswitch" if machine[0] == "dgx-h100" else None
    keywords = {"topology": machine[0], "nodes": machine[1], "without": without}
    requested = make_problem(name, size=size, chunks=chunks, **keywords).problem
    (update,) = hierarchical(Instance(requested), SearchOptions(), Budget.of_work(50), None)
    assert update.schedule is not None
    assert 0 < lower_bound(requested, bounds=[RELAY]).value_us <= update.schedule.makespan_us


def test_it_says_more_than_the_cut_where_inside_is_hardly_faster() -> None:
    keywords = {"topology": "dgx-h100", "nodes": 12, "without": "nvswitch"}
    requested = make_problem("allgather", size="96MB", chunks=2, **keywords).problem
    assert (
        lower_bound(requested, bounds=[RELAY]).value_us > 1.02 * lower_bound(requested, bounds=[CUT]).value_us
    )

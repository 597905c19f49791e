"""A program executed thread block by thread block: the model of docs/cost-model.md, "The executor"."""

import math
from dataclasses import replace

import mi300x
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import block, program, ring_allreduce, step

from taccl.backend.simulate.executor import Prepared, predict_us
from taccl.backend.simulate.executor.events import run_events
from taccl.errors import TacclError, TopologyError, VerificationError
from taccl.model.executor import SHAPES, Executor, ProtocolCosts
from taccl.model.network import LogicalTopology
from taccl.model.units import MB, beta_from_bandwidth

#: Sizes of calls, and what an implementation of the model predicts for the programs of the measured node.
SIZES = (2**14, 2**20, 2**24, 2**26)
PREDICTED = {
    "ag_allpair_simple_x_4": (10.2, 14.6, 81.5, 296.0),
    "ag_ring_simple_2_2": (34.3, 66.8, 563.7, 2128.7),
    "ag_ring_simple_8_2": (34.3, 66.8, 563.7, 1547.4),
    "ag_ring_ll_2_2": (17.7, 186.5, 2893.9, 11557.4),
    "ag_ring_LL128_8_2": (227.6, 312.7, 776.1, 2266.4),
    "ar_allpair_ll_x_2": (13.4, 97.4, 1448.3, 5779.1),
    "ar_allpair_simple_x_4": (19.1, 29.1, 181.7, 670.6),
}

#: Launch 5, hop 1, 0.5 a slice, a thread block moves a byte in 1 ns, a piece is 64 KiB.
SIMPLE = ProtocolCosts(5.0, 1.0, 0.5, 1.0, 2**16, SHAPES["Simple"])
LL = ProtocolCosts(5.0, 1.0, 0.5, 1.0, 2**16, replace(SHAPES["LL"], wire=1.0))
PLAIN = Executor({"Simple": SIMPLE, "LL": LL}, reduce_us=3.0, reduce_gbps=1.0)
KB_US = 1.024  # what 1 KiB costs a thread block


def pair(gbps=1e3, links=((0, 1), (1, 0)), ports=None, alpha_us=0.0):
    """Ranks joined by links, each its own port unless said otherwise."""
    ports = tuple((link,) for link in range(len(links))) if ports is None else ports
    return LogicalTopology(
        name="pair",
        node_of=np.zeros(1 + max(map(max, links)), dtype=int),
        src=np.array([src for src, _ in links]),
        dst=np.array([dst for _, dst in links]),
        alpha_us=np.full(len(links), alpha_us),
        beta_us_per_mb=np.full(len(links), beta_from_bandwidth(gbps)),
        ports=ports,
        port_names=tuple(f"port {port}" for port in range(1 + max(map(max, ports)))),
    )


def one_send(chunks=1):
    return program(
        "broadcast",
        chunks,
        [block(0, 1, -1, step("s", "i0", count=chunks))],
        [block(0, -1, 0, step("r", "o0", count=chunks))],
    )


@pytest.mark.parametrize("name", PREDICTED)
def test_measured_programs_are_predicted_as_the_model_says(name):
    """Within 1%: the numbers of the machine are rounded."""
    requested = mi300x.program(name)
    predicted = [
        predict_us(requested, mi300x.mesh(), mi300x.executor(), requested.protocol.value, size)
        for size in SIZES
    ]
    assert predicted == pytest.approx(PREDICTED[name], rel=0.01)


def test_costs_that_are_whole_numbers_do_not_compile_the_loop_again():
    """It takes 15 seconds, and Python's users write 3 for 3.0."""
    times = predict_us(one_send(), pair(), PLAIN, "Simple", 2**16)
    compiled = run_events.signatures
    costs = replace(SIMPLE, launch_us=5, hop_us=1, least_us=0, empty_slice_us=0, block_gbps=1)
    whole = replace(PLAIN, protocols={"Simple": costs}, reduce_us=3, reduce_gbps=1, copy_us=3, room_us=0)
    assert predict_us(one_send(), pair(), replace(whole, link_sharpness=9), "Simple", 2**16) == times
    assert run_events.signatures == compiled


def test_a_simple_piece_is_two_slices_that_are_stored_before_they_are_taken():
    """Slices of 32 KiB each: two sends, the last one seen, taken."""
    sends = 2 * (0.5 + 32 * KB_US)
    assert predict_us(one_send(), pair(), PLAIN, "Simple", 2**16) == pytest.approx(
        5 + sends + 1 + 0.5 + 32 * KB_US
    )


def test_a_small_simple_piece_still_costs_two_slices():
    """All of 1 KiB is in the first; the second is sent, seen and taken empty."""
    time = predict_us(one_send(), pair(), PLAIN, "Simple", 2**10)
    assert time == pytest.approx(5 + (0.5 + KB_US) + 1 + (0.5 + KB_US) + 0.5)


def test_an_empty_slice_may_take_less_and_few_bytes_a_time_of_their_own():
    """1 KiB takes 3 us for its bytes at either end; the empty slice takes 0.1 us."""
    costs = replace(SIMPLE, empty_slice_us=0.1, least_us=3.0)
    time = predict_us(one_send(), pair(), replace(PLAIN, protocols={"Simple": costs}), "Simple", 2**10)
    assert time == pytest.approx(5 + (0.5 + 3) + 1 + (0.5 + 3) + 0.1)
    large = predict_us(one_send(), pair(), replace(PLAIN, protocols={"Simple": costs}), "Simple", 2**16)
    assert large == pytest.approx(predict_us(one_send(), pair(), PLAIN, "Simple", 2**16))


def test_with_ll_a_receive_begins_while_the_send_is_under_way():
    """It sees the first bytes a hop after they leave, and takes them while the rest comes."""
    time = predict_us(one_send(), pair(), PLAIN, "LL", 2**16)
    assert time == pytest.approx(5 + 0.5 + 1 + 0.5 + 64 * KB_US)


def test_the_alpha_of_a_link_is_added_to_each_hop():
    slow = pair(alpha_us=2.0)
    assert predict_us(one_send(), slow, PLAIN, "LL", 2**16) == pytest.approx(
        predict_us(one_send(), pair(), PLAIN, "LL", 2**16) + 2
    )


def test_a_link_slower_than_a_thread_block_sets_the_pace():
    """At half the speed the flight takes twice as long, and the receive waits for its end."""
    time = predict_us(one_send(), pair(gbps=0.5), PLAIN, "LL", 2**16)
    assert time == pytest.approx(5 + 0.5 + 2 * 64 * KB_US + 1)


@pytest.mark.parametrize(("links", "expected"), [(1.0, 2.0), (2.0, 1.0), (4.0, 1.0)])
def test_thread_blocks_share_a_link_that_is_not_fast_enough_for_both(links, expected):
    """Two at once over one link: it is full at twice the speed of one."""
    both = program(
        "broadcast",
        2,
        [block(i, 1, -1, step("s", f"i{i}"), channel=i) for i in range(2)],
        [block(i, -1, 0, step("r", f"o{i}"), channel=i) for i in range(2)],
    )
    time = predict_us(both, pair(gbps=links), PLAIN, "LL", 2**17)
    flight = expected * 64 * KB_US
    assert time == pytest.approx(5 + 0.5 + max(flight + 1, 1 + 0.5 + 64 * KB_US))


@pytest.mark.parametrize(("links", "slower"), [(1.0, 2**0.25), (2.0, (1 + 0.5**4) ** 0.25), (1e3, 1.0)])
def test_a_link_that_is_not_sharp_slows_down_before_it_is_full(links, slower):
    """Of both rates the 4-norm: where they are equal, its fourth root of two."""
    soft = replace(PLAIN, link_sharpness=4.0)
    time = predict_us(one_send(), pair(gbps=links), soft, "LL", 2**16)
    assert time == pytest.approx(5 + 0.5 + max(slower * 64 * KB_US + 1, 1.5 + 64 * KB_US))


def test_a_sender_looks_for_room_when_what_it_knew_to_be_free_is_full():
    """Of 20 slices 8 fit; it looks before the 9th, finds nearly all taken, and looks once more later."""
    looks = replace(PLAIN, room_us=10.0)
    many = program(
        "broadcast",
        1,
        [block(0, 1, -1, *[step("s", "i0")] * 20)],
        [block(0, -1, 0, *[step("r", "o0")] * 20)],
    )
    times = [predict_us(many, pair(), each, "LL", 2**10) for each in (PLAIN, looks)]
    assert times[1] - times[0] == pytest.approx(2 * 10.0)
    assert predict_us(one_send(), pair(), looks, "LL", 2**10) == predict_us(
        one_send(), pair(), PLAIN, "LL", 2**10
    )


def test_links_that_share_a_port_share_its_bandwidth():
    """One rank sends to two through one port out, which is as fast as one thread block."""
    fan = program(
        "broadcast",
        1,
        [block(i, i + 1, -1, step("s", "i0")) for i in range(2)],
        *([block(0, -1, 0, step("r", "o0"))] for _ in range(2)),
    )
    apart = pair(gbps=1.0, links=((0, 1), (0, 2)))
    shared = pair(gbps=1.0, links=((0, 1), (0, 2)), ports=((0,), (0,)))
    assert predict_us(fan, apart, PLAIN, "LL", 2**16) == pytest.approx(5 + 0.5 + 1.5 + 64 * KB_US)
    assert predict_us(fan, shared, PLAIN, "LL", 2**16) == pytest.approx(5 + 0.5 + 128 * KB_US + 1)


def test_a_receive_costs_a_thread_block_as_much_as_a_send():
    """A relay moves each byte twice; two thread blocks, one for each direction, move it at once."""
    chain = [(0, 1), (1, 2)]
    one = program(
        "broadcast",
        1,
        [block(0, 1, -1, step("s", "i0"))],
        [block(0, 2, 0, step("r", "o0"), step("s", "o0"))],
        [block(0, -1, 1, step("r", "o0"))],
    )
    two = replace(
        one,
        ranks=(
            one.ranks[0],
            replace(
                one.ranks[1],
                thread_blocks=(
                    block(0, -1, 0, step("r", "o0", tells=True)),
                    block(1, 2, -1, step("s", "o0", wait=(0, 0))),
                ),
            ),
            one.ranks[2],
        ),
    )
    size = 64 * 2**16  # 64 rounds
    both_directions = predict_us(one, pair(links=chain), PLAIN, "LL", size)
    one_way = predict_us(two, pair(links=chain), PLAIN, "LL", size)
    assert both_directions / one_way == pytest.approx(2, rel=0.05)


def test_merged_sums_take_their_overhead_once():
    """Two sources into one target, by the two steps that a runtime merges: 3 us and twice the bytes."""
    two = block(0, -1, -1, step("re", "i0", "i2"), step("re", "i1", "i2"))
    time = predict_us(program("allreduce", 3, [two], [two]), pair(), PLAIN, "LL", 3 * 2**10)
    assert time == pytest.approx(5 + 3 + 2 * KB_US)


def test_a_fused_step_is_one_pass():
    """A relay that receives and sends in one step moves each byte once."""
    fused = program(
        "broadcast",
        1,
        [block(0, 1, -1, step("s", "i0"))],
        [block(0, 2, 0, step("rcs", "o0"))],
        [block(0, -1, 1, step("r", "o0"))],
    )
    network = pair(links=((0, 1), (1, 2)))
    time = predict_us(fused, network, PLAIN, "LL", 2**16)
    assert time == pytest.approx(5 + 3 * 0.5 + 2 * 1 + 64 * KB_US)


def test_many_rounds_go_on_as_the_last_half_of_those_executed():
    """The remainder within 2% of all rounds, for a ring whose pipeline fills slowly."""
    ring = ring_allreduce(4)
    links = tuple((rank, (rank + 1) % 4) for rank in range(4))
    prepared = Prepared.of(ring, pair(gbps=1.0, links=links))
    size = 4 * 300.5 * 2**16
    shortened, whole = prepared.run(PLAIN, "LL", size), prepared.run(PLAIN, "LL", size, rounds=1000)
    assert (shortened.rounds, shortened.executed_rounds, whole.executed_rounds) == (301, 128, 301)
    assert shortened.time_us == pytest.approx(whole.time_us, rel=0.02)


@pytest.mark.parametrize(("size_mb", "ends"), [(32, True), (64, False)])
def test_the_program_that_hung_on_the_machine_hangs_at_the_size_where_it_did(size_mb, ends):
    requested = mi300x.program("ar_allpair_simple_x_1")
    time = predict_us(requested, mi300x.mesh(), mi300x.executor(), "Simple", size_mb * MB)
    assert math.isfinite(time) == ends


@pytest.mark.parametrize(("size_mb", "ends"), [(128, True), (256, False)])
def test_the_other_one_does_too(size_mb, ends):
    requested = mi300x.program("ar_allpair_simple_x_4")
    time = predict_us(requested, mi300x.mesh(), mi300x.executor(), "Simple", size_mb * MB)
    assert math.isfinite(time) == ends


@given(
    size=st.integers(1, 2**24),
    gbps=st.floats(0.1, 100),
    protocol=st.sampled_from(["Simple", "LL"]),
    ranks=st.integers(2, 5),
)
def test_slower_parts_never_make_it_faster_and_wires_carry_what_they_can(size, gbps, protocol, ranks):
    """A ring of one thread block a rank, all in step."""
    links = tuple((rank, (rank + 1) % ranks) for rank in range(ranks))
    ring = ring_allreduce(ranks)
    prepared = Prepared.of(ring, pair(gbps=gbps, links=links))
    run = prepared.run(PLAIN, protocol, size)
    slower = replace(PLAIN, protocols={protocol: replace(PLAIN.protocols[protocol], slice_us=0.7)})
    assert prepared.predict_us(slower, protocol, size) >= run.time_us * (1 - 1e-9)
    through_a_link = size * 2 * (ranks - 1) / ranks
    assert run.time_us >= 5 + through_a_link / gbps / 1e3
    if run.rounds == run.executed_rounds:
        assert run.port_bytes == pytest.approx(np.full(ranks, through_a_link))


def test_an_unknown_protocol_and_a_program_that_does_not_fit_are_refused():
    with pytest.raises(TopologyError, match="says nothing about the protocol LL128"):
        predict_us(one_send(), pair(), PLAIN, "LL128", 2**10)
    with pytest.raises(TopologyError, match="no link from 0 to 1"):
        predict_us(one_send(), pair(links=((1, 0),)), PLAIN, "LL", 2**10)
    with pytest.raises(TopologyError, match="is for 2 ranks"):
        predict_us(one_send(), pair(links=((0, 2),)), PLAIN, "LL", 2**10)
    with pytest.raises(TacclError, match="more than 0 bytes"):
        predict_us(one_send(), pair(), PLAIN, "LL", 0)
    with pytest.raises(VerificationError, match="cannot run"):
        predict_us(one_send(chunks=0), pair(), PLAIN, "LL", 2**10)

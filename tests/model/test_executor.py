"""What executing costs: numbers that can be, and refusals of those that cannot."""

from dataclasses import replace

import pytest

from taccl.errors import TopologyError
from taccl.model.executor import SHAPES, Executor, ProtocolCosts, Shape

LL = ProtocolCosts(4.7, 0.4, 0.22, 3.2, 2**14, SHAPES["LL"])


def test_an_executor_knows_the_costs_of_its_protocols() -> None:
    known = Executor({"LL": LL}, reduce_us=4.9, reduce_gbps=22.9)
    assert known.costs_of("LL") is LL
    assert LL.block_us_per_byte == pytest.approx(1 / 3.2e3)
    with pytest.raises(TopologyError, match="says nothing about the protocol Simple"):
        known.costs_of("Simple")


def test_flags_take_their_share_of_the_wire() -> None:
    """A flag as long as the data with LL; 8 bytes of 128 with LL128; none with Simple."""
    assert [SHAPES[name].wire for name in ("Simple", "LL", "LL128")] == [1, 2, 128 / 120]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"launch_us": -1}, "launch_us must be from 0"),
        ({"hop_us": float("nan")}, "hop_us must be"),
        ({"slice_us": "1"}, "slice_us must be"),
        ({"empty_slice_us": -1}, "empty_slice_us must be"),
        ({"least_us": -1}, "least_us must be"),
        ({"sleep_after_us": -1, "wake_us": 1}, "sleep_after_us must be"),
        ({"sleep_after_us": 1, "wake_us": -1}, "wake_us must be"),
        ({"wake_us": 1}, "wake_us says nothing without sleep_after_us"),
        ({"block_gbps": 0}, "block_gbps must be"),
        ({"piece_bytes": 0}, "piece_bytes must be a whole number from 1"),
        ({"piece_bytes": 1.5}, "piece_bytes must be a whole number"),
        ({"shape": "LL"}, "must be a Shape"),
        ({"shape": Shape(2, 0, 1, False, 1.0)}, "slots must be a whole number from 2"),
        ({"shape": Shape(0, 0, 1, False, 1.0)}, "slices must be a whole number from 1"),
        ({"shape": Shape(1, -1, 1, False, 1.0)}, "least_slice_bytes must be"),
        ({"shape": Shape(1, 0, 1, False, 0.5)}, "wire must be from 1"),
    ],
    ids=str,
)
def test_costs_that_cannot_be_are_refused(wrong: dict, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        replace(LL, **wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"protocols": {}}, "costs for one protocol or more"),
        ({"protocols": {"ll": LL}}, "unknown protocol 'll'"),
        ({"protocols": {"LL": 1}}, "the costs of LL must be ProtocolCosts"),
        ({"reduce_us": -1}, "reduce_us must be"),
        ({"reduce_gbps": 0}, "reduce_gbps must be"),
        ({"copy_us": -1}, "copy_us must be"),
        ({"copy_gbps": float("inf")}, "copy_gbps must be"),
        ({"thread_blocks": 0}, "thread_blocks must be"),
        ({"room_us": -1}, "room_us must be"),
        ({"link_sharpness": 0.5}, "link_sharpness must be"),
    ],
    ids=str,
)
def test_executors_that_cannot_be_are_refused(wrong: dict, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        replace(Executor({"LL": LL}, 1.0, 10.0), **wrong)


def test_who_sleeps_after_a_while_has_to_be_woken() -> None:
    sleepy = replace(LL, launch_us=100.0, sleep_after_us=250.0, wake_us=20.0)
    assert [sleepy.call_us(run_us) for run_us in (0, 150, 151)] == [100, 250, 271]
    assert LL.call_us(1000) == 1004.7

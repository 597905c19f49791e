"""Logs of several benchmarks below each other: each is read for itself, as from a file of its own."""

from dataclasses import replace

import pytest
from benchmark_outputs import (
    DEVICES,
    HEADER,
    MORE,
    MPIGRAPH,
    P2P,
    ROW,
    SENDRECV,
    TRANSFERBENCH,
    nvbandwidth,
    perftest,
)

from taccl.calibration.benchmarks.facts import Measured
from taccl.calibration.benchmarks.registry import FORMATS, parse_measured
from taccl.errors import MeasurementError

NCCL = (
    SENDRECV + "# nThread 1 nGpus 1\n# Using devices\n" + DEVICES.format(other="n014") + HEADER + ROW + MORE
)
ALLREDUCE = (
    NCCL.replace("sendrecv", "all_reduce")
    + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 8.4\n#\n"
)
OSU = "# OSU MPI Latency Test v7.0\n# Size          Latency (us)\n1   3.28\n2   3.30\n4   3.31\n8   3.40\n"
IDLE = "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\nP2P Connectivity Matrix\n     D\\D     0     1\n"
CONNECTED = IDLE + "     0\t     1     1\n     1\t     1     1\n" + P2P
OUTPUTS = {
    "nccl-tests": ALLREDUCE,
    "osu": OSU,
    "p2p-bandwidth": CONNECTED,
    "nvbandwidth": nvbandwidth("->"),
    "perftest": perftest("MB/sec"),
    "transferbench": TRANSFERBENCH,
    "mpigraph": MPIGRAPH,
}


def facts(measured: Measured) -> tuple[object, ...]:
    """All that is reported, but for lines."""
    sweeps = [
        replace(each, line=0, points=tuple(replace(point, line=0) for point in each.points), fault=None)
        for each in measured.sweeps
    ]
    return sweeps, [replace(each, line=0) for each in measured.matrices]


@pytest.mark.parametrize("second", OUTPUTS)
@pytest.mark.parametrize("first", OUTPUTS)
def test_two_benchmarks_in_one_log_tell_what_two_logs_tell(first: str, second: str) -> None:
    if first == second:
        return
    one, other = parse_measured(OUTPUTS[first]), parse_measured(OUTPUTS[second])
    both = parse_measured(OUTPUTS[first] + OUTPUTS[second])
    assert both.formats == (first, second)
    sweeps, matrices = facts(both)
    assert sweeps == facts(one)[0] + facts(other)[0]
    assert matrices == facts(one)[1] + facts(other)[1]
    assert both.warnings == (*one.warnings, *other.warnings)


def test_a_log_of_a_job_that_ran_several_of_each_under_a_launcher() -> None:
    text = NCCL + ALLREDUCE + OSU + NCCL + CONNECTED
    noisy = "".join(
        f"[1,0]<stdout>:{line}\nn013:7841:7842 [0] NCCL INFO Channel 00 : 0[0] -> 1[1]\n"
        for line in text.splitlines()
    )
    for log in (text, noisy):
        reported = parse_measured(log, "job.log")
        assert reported.formats == ("nccl-tests", "osu", "p2p-bandwidth")
        assert [sweep.test for sweep in reported.sweeps] == [
            "sendrecv",
            "all_reduce",
            "MPI Latency",
            "sendrecv",
        ]
        assert [len(sweep.points) for sweep in reported.sweeps] == [4, 4, 4, 4]
        assert len(reported.matrices) == 2


def test_lines_keep_their_numbers() -> None:
    reported = parse_measured(NCCL + OSU, "job.log")
    lines = (NCCL + OSU).splitlines()
    assert all(
        str(point.size_bytes) in lines[point.line - 1] for sweep in reported.sweeps for point in sweep.points
    )


def test_one_that_is_damaged_beside_another_is_left_out_and_told() -> None:
    reported = parse_measured(OSU + SENDRECV + HEADER, "job.log")
    assert [sweep.tool for sweep in reported.sweeps] == ["osu"]
    assert "nccl-tests and rccl-tests, text is left out: there is a header" in reported.warnings[-1]
    assert reported.warnings[-1].startswith("job.log:8: ")


def test_where_all_are_damaged_both_are_named_with_their_lines() -> None:
    with pytest.raises(MeasurementError) as refused:
        parse_measured(
            "# OSU MPI Latency Test\n# Size          Latency (us)\n" + SENDRECV + HEADER, "job.log"
        )
    assert "point to point from line 1, nccl-tests and rccl-tests, text from line 3" in refused.value.hint


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_format_is_told_from_every_other(name: str) -> None:
    """Otherwise a log of one benchmark would be taken apart."""
    assert [each.name for each in FORMATS if each.looks_like(OUTPUTS[name])] == [name]

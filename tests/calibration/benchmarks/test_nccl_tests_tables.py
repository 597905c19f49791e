"""The tables of nccl-tests, of all versions and as launchers tear them."""

import json

import pytest
from benchmark_outputs import CSV, DEVICES, HEADER, MORE, ROW, SENDRECV, as_json

from taccl.calibration.benchmarks.facts import Sweep
from taccl.calibration.benchmarks.registry import parse_measured
from taccl.errors import MeasurementError

OLD_HEADER = "#  size count   type  redop   time  algbw  busbw  error   time  algbw  busbw  error\n"


def only(text: str) -> Sweep:
    (sweep,) = parse_measured(text).sweeps
    return sweep


def times(text: str) -> list[tuple[int, float]]:
    return [(point.size_bytes, point.time_us) for point in only(text).points]


def test_both_halves_of_a_row_are_times_of_its_size_with_its_line() -> None:
    sweep = only(HEADER + ROW)
    assert times(HEADER + ROW) == [(1048576, 148.09), (1048576, 141.44)]
    assert [point.line for point in sweep.points] == [3, 3]
    assert [point.in_place for point in sweep.points] == [False, True]
    assert [point.wrong for point in sweep.points] == [0, None]


def test_every_format_says_which_calls_are_in_place_and_whether_values_were_checked() -> None:
    assert [(point.in_place, point.wrong) for point in only(CSV).points] == [
        (False, 0),
        (False, 0),
        (True, 0),
    ]
    (record,) = only(f"[{RECORD}]").points
    assert (record.in_place, record.wrong) == (False, None)
    (of_json,) = only(as_json(time=12.5, nwrong=2)).points
    assert (of_json.in_place, of_json.wrong) == (False, 2)
    unchecked = only(HEADER + ROW.replace("      0  141.44", "    N/A  141.44"))
    assert [point.wrong for point in unchecked.points] == [None, None]


def test_an_old_table_has_no_root_and_a_column_of_errors_that_are_no_faults() -> None:
    header = OLD_HEADER
    row = "    4     1  float    sum   8.48   0.00   0.00  1e-07   8.34   0.00   0.00  0e+00\n"
    assert times(header + row) == [(4, 8.48), (4, 8.34)]
    assert only(header + row).fault is None


def test_a_collective_without_an_operation_leaves_its_column_empty() -> None:
    header = OLD_HEADER
    row = "   32     1  float         89.00   0.00   0.00    N/A  85.13   0.00   0.00    N/A\n"
    assert times(header + row) == [(32, 89.00), (32, 85.13)]


@pytest.mark.parametrize(
    "torn",
    [
        ROW.replace("sum    -1", "sum    -1[1,0]<stdout>:"),
        ROW.replace("  148.09", "n013:7841:7842 [0] NCCL INFO Channel 00/1 : 1[81000] -> 0[81000]\n  148.09"),
        ROW.replace("      0  141.44", "      0\n[1,0]<stdout>:  141.44"),
        "[1,0]<stdout>:" + ROW,
        "0: " + ROW,
        "\x1b[0m" + ROW.replace("\n", "\r\n"),
        "n013:7841:7841 [0] NCCL INFO comm 0x5a36f60 rank 0 nranks 2\n" + ROW,
    ],
)
def test_a_row_is_whole_again_whatever_stands_in_it(torn: str) -> None:
    assert times(HEADER + torn + MORE) == times(HEADER + ROW + MORE)


def test_a_row_that_stays_cut_is_left_out_and_told_with_its_line() -> None:
    measured = parse_measured(HEADER + ROW[:60] + "\n" + MORE, "run.log")
    assert [point.size_bytes for point in measured.sweeps[0].points] == [2097152, 2097152]
    assert measured.warnings == ("run.log:3: a row of this table is cut; it is left out",)


def test_wrong_values_are_a_fault_with_its_line() -> None:
    wrong = ROW.replace("      0  141.44", "      3  141.44")
    assert only(HEADER + wrong).fault == ("3 wrong values", 3)
    failed = HEADER + ROW + "# Out of bounds values : 7 FAILED\n"
    assert only(failed).fault == ("7 values were out of bounds", 4)
    assert only(HEADER + ROW + "# Out of bounds values : 0 OK\n").fault is None


@pytest.mark.parametrize(("other", "scope"), [("n014", "nodes"), ("n013", "gpus")])
def test_the_hosts_of_a_sendrecv_tell_whom_it_joins(other: str, scope: str) -> None:
    sweep = only(SENDRECV + DEVICES.format(other=other) + HEADER + ROW)
    assert (sweep.scope, sweep.collective, sweep.timing, sweep.ranks) == (scope, None, "launched", 2)


def test_a_ring_of_sends_in_and_between_nodes_is_of_both_kinds() -> None:
    more = DEVICES.format(other="n013") + DEVICES.format(other="n014").replace("Rank  0", "Rank  2").replace(
        "Rank  1", "Rank  3"
    )
    sweep = only(SENDRECV + more + HEADER + ROW)
    assert sweep.scope == "mixed"
    assert "slowest edge" in sweep.notes[0]


def test_two_runs_in_one_log_are_two_sweeps() -> None:
    run = "# nThread 1 nGpus 1 minBytes 8\n" + HEADER + ROW
    text = "$ ./build/all_gather_perf -b 1M\n" + run + "$ ./build/sendrecv_perf -b 1M\n" + run
    assert [sweep.test for sweep in parse_measured(text).sweeps] == ["all_gather", "sendrecv"]


@pytest.mark.parametrize("odd", ["1e-300", "1e300"])
def test_a_time_that_nothing_takes_is_left_out_and_told(odd: str) -> None:
    measured = parse_measured(HEADER + ROW.replace("148.09", odd), "x")
    assert [point.time_us for point in measured.sweeps[0].points] == [141.44]
    assert measured.warnings[0].startswith("x:3: ")


def test_a_header_alone_is_an_error_with_its_line() -> None:
    with pytest.raises(MeasurementError, match=r"x\.log:1: .*no row with a time"):
        parse_measured(HEADER, "x.log")


def test_json_tells_what_the_text_tells() -> None:
    sweep = only(as_json(time=12.5, bus_bw=0.33, nwrong="0"))
    assert (sweep.scope, sweep.test, sweep.busbw_gbps) == ("nodes", "sendrecv", (0.33, 4096))
    assert times(as_json(time=12.5)) == [(4096, 12.5)]


def test_of_repeats_in_json_the_median_counts() -> None:
    assert times(as_json(time=12.5, min_us=9.0, p50_us=10.0)) == [(4096, 10.0)]


def test_wrong_values_in_json_are_a_fault() -> None:
    fault = only(as_json(time=12.5, nwrong=2)).fault
    assert fault is not None
    assert fault[0] == "2 wrong values"


RECORD = (
    '{"numCycle":0, "name":"SendRecv", "nodes":1, "ranks":1, "ranksPerNode":1, "gpusPerRank":8, "size":1024, '
    '"type":"float", "redop":"none", "inPlace":0, "time":21.500000, "algBw":0.1, "busBw":0.1, "wrong":"N/A"}'
)


def test_one_process_with_eight_gpus_is_eight_ranks_of_one_node() -> None:
    sweep = only(f"[{RECORD}]")
    assert (sweep.test, sweep.scope, sweep.ranks, sweep.fault) == ("sendrecv", "gpus", 8, None)
    wrong = only(f"[{RECORD.replace('N/A', '3')}]")
    assert wrong.fault is not None
    assert wrong.fault[0] == "3 wrong values"


def test_rows_of_rccl_tests_as_csv_and_as_json() -> None:
    sweep = only(CSV)
    assert (sweep.scope, sweep.test) == ("nodes", "sendrecv")
    names, *rows = [line.split(",") for line in CSV.splitlines()]
    text = "[" + ",\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in rows) + "]"
    assert times(text) == times(CSV) == [(1024, 21.5), (2048, 22.5), (2048, 22.0)]


def test_times_of_the_cpu_are_no_times_of_the_data() -> None:
    sweep = only(HEADER.replace(" time", " cputime") + ROW)
    assert sweep.fault is not None
    assert "CPU" in sweep.fault[0]
    fault = only(as_json(cpu_time=4.0)).fault
    assert fault is not None
    assert "CPU" in fault[0]


def test_a_timestamp_behind_a_row_is_no_column() -> None:
    header = HEADER.replace("#wrong\n", "#wrong           timestamp\n")
    assert "timestamp" in header
    assert times(header + ROW.replace("\n", "  2025-11-02 10:00:00\n")) == times(HEADER + ROW)


def test_a_rank_that_is_alone_tells_no_link() -> None:
    (first, _) = DEVICES.splitlines()
    sweep = only(f"{first}\n" + HEADER + ROW)
    assert sweep.fault is not None
    assert "one rank" in sweep.fault[0]


def test_a_list_of_devices_with_a_gap_still_counts_its_ranks() -> None:
    first, second = DEVICES.splitlines()
    sweep = only(f"{SENDRECV}\n{first}\n{second.replace('Rank  1', 'Rank 15')}\n" + HEADER + ROW)
    assert (sweep.ranks, sweep.scope) == (16, None)


def json_of_processes(gpus: int, ranks: list[int], hosts: list[str]) -> str:
    """As nccl-tests writes it: devices in `config`, of each process its first GPU."""
    devices = [{"rank": rank, "hostname": host} for rank, host in zip(ranks, hosts, strict=True)]
    half = {"time": 12.5, "alg_bw": 0.1, "bus_bw": 0.1, "nwrong": None}
    row = {"size": 1024, "root": "    -1", "out_of_place": half, "in_place": None}
    row["out_of_place_per_iter"] = {"min_us": 9.0, "p50_us": 11.0, "times_us": [9.0, 11.0, 17.5]}
    args = [r"\/x\/sendrecv_perf"]
    config = {"nthreads": 1, "ngpus": gpus, "devices": devices}
    text = json.dumps({"version": 2, "args": args, "env": [], "config": config, "results": [row]})
    return text.replace(r"\\/", r"\/")


def test_devices_of_json_stand_in_its_configuration() -> None:
    sweep = only(json_of_processes(1, [0, 1], ["a", "b"]))
    assert (sweep.test, sweep.scope, sweep.ranks) == ("sendrecv", "nodes", 2)


def test_a_process_of_json_lists_one_of_its_gpus() -> None:
    assert only(json_of_processes(8, [0], ["a"])).ranks == 8
    sweep = only(json_of_processes(4, [0, 4], ["a", "b"]))
    assert (sweep.scope, sweep.ranks) == ("mixed", 8)
    assert only(json_of_processes(2, [0, 1], ["a", "a"])).ranks == 2  # all are listed


def test_iterations_of_json_stand_beside_the_half_they_belong_to() -> None:
    assert times(json_of_processes(1, [0, 1], ["a", "b"])) == [(1024, 11.0)]


def test_json_that_is_cut_is_told_as_such() -> None:
    with pytest.raises(MeasurementError, match="cut or damaged"):
        parse_measured(json_of_processes(1, [0, 1], ["a", "b"])[:-20])


def test_an_asterisk_behind_an_error_is_a_fault_with_its_line() -> None:
    row = "    4     1  float    sum   8.48   0.00   0.00  3e+02*  8.34   0.00   0.00  0e+00\n"
    assert only(OLD_HEADER + row).fault == ("results are off by more than they may be", 2)

"""What each format means: arrows, units, both directions, and what is damaged."""

from pathlib import Path

import pytest
from benchmark_outputs import MPIGRAPH, P2P, TRANSFERBENCH, nvbandwidth, perftest, perftest_json

from taccl.calibration.benchmarks.facts import Matrix, Sweep
from taccl.calibration.benchmarks.findings import findings
from taccl.calibration.benchmarks.registry import parse_measured, read_measured
from taccl.errors import MeasurementError


def matrices(text: str) -> tuple[Matrix, ...]:
    return parse_measured(text).matrices


def only(text: str) -> Sweep:
    (sweep,) = parse_measured(text).sweeps
    return sweep


# ---------------------------------------------------------------- nvbandwidth


def test_data_goes_as_the_arrow_says() -> None:
    assert matrices(nvbandwidth("->"))[0].pairs() == {(0, 1): 10.0, (1, 0): 20.0}
    assert matrices(nvbandwidth("<-"))[0].pairs() == {(1, 0): 10.0, (0, 1): 20.0}


def test_both_ways_are_told_apart_from_one() -> None:
    (total,) = matrices(nvbandwidth("<->", "device_to_device_bidirectional_memcpy_read_ce", "Total "))
    assert (total.both_directions, total.sums_directions) == (True, True)
    (read,) = matrices(nvbandwidth("<->", "device_to_device_bidirectional_memcpy_read_ce", "Read1 "))
    assert (read.both_directions, read.sums_directions) == (True, False)


def test_the_first_versions_name_columns_before_rows() -> None:
    text = nvbandwidth("->").replace("Running ", "Running benchmark ")
    (matrix,) = matrices(text.replace("GPU(row) -> GPU(column)", "GPU(columns) <- GPU(rows)"))
    assert matrix.pairs() == {(0, 1): 10.0, (1, 0): 20.0}
    (host,) = matrices(text.replace("GPU(row) -> GPU(column)", "GPU(columns) <- CPU(rows)"))
    assert host.ends == "host to gpu"
    assert host.pairs()[1, 0] == 20.0


def test_the_tables_of_one_test_are_told_apart() -> None:
    test = "device_to_device_bidirectional_memcpy_read_ce"
    several = "".join(nvbandwidth("<->", test, f"{name} ") for name in ("Read1", "Read2", "Total"))
    assert [each.test for each in matrices(several)] == [
        f"{test} {name}" for name in ("read1", "read2", "total")
    ]


def test_a_row_of_another_length_is_an_error_with_its_line() -> None:
    with pytest.raises(MeasurementError, match=r"x:5: a row has 1 cells"):
        parse_measured(nvbandwidth("->").replace("N/A     10.00", "10.00"), "x")


def test_latencies_in_ns_become_us() -> None:
    text = nvbandwidth("<->", "device_to_device_latency_sm").replace("bandwidth (GB/s)", "(ns)")
    (matrix,) = matrices(text)
    assert matrix.quantity == "latency_us"
    assert matrix.pairs()[0, 1] == pytest.approx(0.01)


def test_an_error_of_a_test_case_is_told() -> None:
    measured = parse_measured(nvbandwidth("->") + "Running all_to_one_write_ce.\nERROR: out of memory\n", "x")
    assert measured.warnings == ("x:10: all_to_one_write_ce failed; it is left out",)


# ---------------------------------------------------------------- p2pBandwidthLatencyTest


def test_a_gpu_with_itself_and_the_time_of_the_cpu_are_no_links() -> None:
    bandwidth, latency = matrices(P2P)
    assert bandwidth.pairs() == {(0, 1): 22.23, (1, 0): 22.32}
    assert latency.pairs() == {(0, 1): 1.12, (1, 0): 1.14}
    assert bandwidth.peer is True


def test_a_paste_that_ends_in_a_matrix_keeps_its_whole_rows_and_says_so() -> None:
    measured = parse_measured("\n".join(P2P.splitlines()[:3]), "x")
    assert measured.matrices[0].pairs() == {(0, 1): 22.23}
    assert measured.warnings == ("x:1: the matrix has 1 whole rows of 2; the others are left out",)


def test_writes_and_reads_are_not_repeats_of_each_other() -> None:
    several = matrices(P2P + P2P.replace("P2P Writes", "P2P Reads"))
    assert len({each.test for each in several}) == len(several) == 4


def test_gpus_without_peer_access_are_told() -> None:
    table = "P2P Connectivity Matrix\n     D\\D     0     1\n     0       1     0\n     1       0     1\n"
    (warning,) = parse_measured(table + P2P, "x").warnings
    assert warning.startswith("x:1: no peer access: 0-1, 1-0;")


@pytest.mark.parametrize("before", ["2026-06-15T07:17:01.123Z ", "n013: ", "> ", "[1,0]<stdout>:", "3: "])
def test_what_stands_before_each_line_is_no_part_of_it(before: str) -> None:
    lines = [before + line for line in P2P.splitlines()]
    assert [each.pairs() for each in matrices("\n".join(lines))] == [each.pairs() for each in matrices(P2P)]


def test_a_row_with_too_many_cells_is_an_error_with_its_line() -> None:
    with pytest.raises(MeasurementError, match="x:3: a row has 3 cells"):
        parse_measured(P2P.replace("801.28  22.23", "801.28  22.23 5"), "x")


# ---------------------------------------------------------------- OSU


def test_bandwidths_of_osu_are_of_10_to_the_6_bytes_and_sums_of_all_pairs() -> None:
    text = (
        "# OSU MPI Multiple Bandwidth / Message Rate Test v5.7\n# [ pairs: 4 ] [ window size: 64 ]\n"
        "# Size                  MB/s        Messages/s\n1000000 4000 5\n"
    )
    sweep = only(text)
    assert sweep.pairs == 4
    assert sweep.points[0].time_us == pytest.approx(1000)  # each pair moves 1 GB/s
    assert sweep.timing == "back to back"


def test_both_ways_of_osu_are_shared_out() -> None:
    text = "# OSU MPI Bi-Directional Bandwidth Test v7.2\n# Size      Bandwidth (MB/s)\n1000000 2000\n"
    assert only(text).points[0].time_us == pytest.approx(1000)


def test_columns_behind_the_first_are_left_alone() -> None:
    text = "# OSU MPI-CUDA Latency Test v7.4\n# Size      Latency (us)    P50 Tail Lat(us)\n8  2.5  2.4\n"
    assert only(text).points[0].time_us == 2.5


def test_a_collective_of_osu_is_no_message() -> None:
    text = "# OSU MPI Allreduce Latency Test v7.2\n# Size       Avg Latency(us)\n8   12.5\n"
    assert only(text).collective == "MPI Allreduce Latency"


# ---------------------------------------------------------------- perftest


@pytest.mark.parametrize(
    ("unit", "time_us"), [("MB/sec", 1250), ("MiB/sec", 1250), ("Gb/sec", 2**20 / 100e9 * 1e6)]
)
def test_the_units_of_perftest(unit: str, time_us: float) -> None:
    assert only(perftest(unit)).points[0].time_us == pytest.approx(time_us)


def test_an_unknown_unit_is_an_error_with_its_line() -> None:
    with pytest.raises(MeasurementError, match="x:2: a bandwidth in KB/sec is not known"):
        parse_measured(perftest("KB/sec"), "x")


def test_both_directions_of_perftest_are_shared_out() -> None:
    assert only(perftest("MB/sec", "RDMA_Write Bidirectional BW Test")).points[0].time_us == pytest.approx(
        2500
    )


def test_a_read_is_there_and_back() -> None:
    text = (
        "                    RDMA_Read Latency Test\n"
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\n"
        " 2       1000          5.35           11.78        5.50           5.50\n"
    )
    assert only(text).points[0].time_us == pytest.approx(2.75)
    assert only(text.replace("Read", "Write")).points[0].time_us == pytest.approx(5.5)


# ---------------------------------------------------------------- TransferBench


@pytest.mark.parametrize("text", [TRANSFERBENCH, TRANSFERBENCH.replace("     ", ",")])
def test_gpus_and_hosts_of_transferbench(text: str) -> None:
    found = {(each.ends, each.both_directions): each.pairs() for each in matrices(text)}
    assert found["gpu to gpu", False] == {(0, 1): 64.58, (1, 0): 66.52}
    assert found["gpu to gpu", True] == {(0, 1): 62.40}
    assert found["host to gpu", False] == {(0, 0): 17.32, (0, 1): 16.97}
    assert found["gpu to host", False] == {(0, 0): 23.83, (1, 0): 24.05}


def test_the_size_of_a_copy_is_kept() -> None:
    assert {each.size_bytes for each in matrices(TRANSFERBENCH)} == {4194304}


# ---------------------------------------------------------------- mpiGraph


def test_ranks_of_one_host_are_no_pair_of_nodes_and_mb_are_of_2_to_the_20() -> None:
    (matrix,) = matrices(MPIGRAPH)
    assert len(matrix.pairs()) == 10
    assert matrix.pairs()[2, 3] == pytest.approx(0.4194304)
    assert (matrix.at_once, matrix.size_bytes) == (True, 16384)


def test_slow_pairs_of_ranks_are_told() -> None:
    (warning,) = findings(parse_measured(MPIGRAPH, "x")).warnings
    assert warning == "x:6: ranks 2>3 move less than 0.8 of 1.049 GB/s"


# ---------------------------------------------------------------- none of them


def test_what_no_benchmark_printed_is_refused() -> None:
    with pytest.raises(MeasurementError, match="x:1: no known benchmark printed this"):
        parse_measured("hello\n", "x")


# ---------------------------------------------------------------- what real outputs had


def test_the_tail_of_a_log_of_nvbandwidth_has_its_name_behind_the_matrix() -> None:
    whole = nvbandwidth("->")
    (matrix,) = matrices(whole[whole.index("memcpy") :])
    assert (matrix.test, matrix.cells) == ("device_to_device_memcpy_write_ce", ((None, 10.0), (20.0, None)))


def test_json_of_nvbandwidth_may_follow_other_lines_which_count() -> None:
    case = (
        '{"name": "device_to_device_memcpy_read_ce", "status": "Passed", "bandwidth_description": '
        '"memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)", '
        '"bandwidth_matrix": [["N/A", "5"], ["6", "N/A"]]}'
    )
    local = '{"name": "device_local_copy", "status": "Passed", "bandwidth_description": '
    local += '"memcpy local GPU(column) bandwidth (GB/s)", "bandwidth_matrix": [["1700"]]}'
    text = f'+ nvbandwidth -j\n{{\n "nvbandwidth" :\n {{ "testcases" : [\n{case},\n{local}]\n}}\n}}\ndone\n'
    measured = parse_measured(text, "x")
    (matrix,) = measured.matrices
    assert (matrix.line, matrix.cells) == (5, ((None, 5.0), (6.0, None)))
    assert not measured.warnings


def test_a_run_of_nvbandwidth_that_failed_tells_why() -> None:
    text = '{\n"nvbandwidth" : {\n"error" : "no CUDA-capable device is detected",\n"version" : "v0.6"}\n}'
    with pytest.raises(MeasurementError, match="x:3: nvbandwidth failed: no CUDA-capable"):
        parse_measured(text, "x")


@pytest.mark.parametrize(
    "before", ["[0] ", "[prterun-n013-7841@1,0]<stdout>: ", "2026-06-15T07:17:01.123456789Z stdout F "]
)
def test_further_marks_of_launchers_and_of_kubernetes(before: str) -> None:
    text = "# OSU MPI Latency Test v7.5\n# Size       Avg Latency(us)\n1     2.37\n8    2.40\n"
    marked = "".join(before + line + "\n" for line in text.splitlines())
    assert [point.time_us for point in only(marked).points] == [2.37, 2.40]


def test_decimal_commas_are_refused_with_their_line() -> None:
    text = "# OSU MPI Latency Test v7.5\n# Size       Avg Latency(us)\n1     2,37\n8    2,40\n"
    with pytest.raises(MeasurementError, match=r"x:3: these numbers have decimal commas"):
        parse_measured(text, "x")


def test_a_message_of_nccl_in_osu_is_a_call_that_is_launched() -> None:
    sweep = only("# OSU NCCL-CUDA Latency Test v7.5\n# Size       Avg Latency(us)\n1     24.8\n")
    assert (sweep.timing, sweep.collective) == ("launched", None)


def test_both_ports_of_a_card_are_two_at_once() -> None:
    title = "RDMA_Write BW Test\n Dual-port       : ON          Device         : mlx5_0"
    sweep = only(perftest("Gb/sec", title))
    assert sweep.pairs == 2
    assert sweep.points[0].time_us == pytest.approx(2 * only(perftest("Gb/sec")).points[0].time_us)


@pytest.mark.parametrize(("bandwidth", "bytes_per_us"), [(2229.27, 2337.6), (18.70, 2337.5)])
def test_the_rate_of_messages_tells_the_unit_of_perftests_json(bandwidth: float, bytes_per_us: float) -> None:
    sweep = only(perftest_json(65536, bandwidth, 0.035668))
    assert (sweep.test, sweep.scope, sweep.timing) == ("RDMA_Write BW", "nodes", "back to back")
    assert sweep.points[0].time_us == pytest.approx(65536 / bytes_per_us, rel=1e-3)


def test_a_bandwidth_of_no_known_unit_is_refused() -> None:
    with pytest.raises(MeasurementError, match="does not tell whether"):
        parse_measured(perftest_json(65536, 2229.27, 0.5))


def test_files_of_single_sizes_are_one_sweep_and_keys_need_no_quotes() -> None:
    info = "test_info: {\ntest: RDMA_Read_Latency_Test,\n},\n"
    text = f"{{\n{info}results: {{\nMsgSize: 128,\nt_typical: 2.42,\n}},\n}}\n"
    sweep = only(text)
    assert (sweep.test, sweep.points[0].time_us) == ("RDMA_Read Latency", 1.21)


A2A = """\
Summary: [268435456 bytes per Transfer] [GFX:8] [1 Read(s) 1 Write(s)]
SRC\\DST  GPU 00     GPU 01     GPU 02        STotal      Actual
GPU 00      N/A     50.000     51.000       101.000      100.000
GPU 01   51.000        N/A     52.000       103.000      102.000
GPU 02   52.000     53.000        N/A       105.000      104.000

RTotal  103.000    103.000    103.000       309.000     100.000     104.000
"""


def test_all_to_all_of_transferbench_tells_ports_and_no_links() -> None:
    (matrix,) = matrices(A2A)
    assert (matrix.ends, matrix.at_once, matrix.size_bytes) == ("gpu totals", True, 2**28)
    assert matrix.cells == ((101.0, 103.0, 105.0),)


def test_tables_of_nics_of_transferbench_are_refused_with_their_line() -> None:
    text = "  │SRC+EXE\\DST │        │  Rank 00  │\n  │       │ NIC Device     │ bnxt_re0   │\n"
    with pytest.raises(MeasurementError, match=r"x:2: .*NICs are not read"):
        parse_measured(text, "x")


def test_a_matrix_of_mpigraph_that_is_cut_keeps_its_whole_rows_and_says_so() -> None:
    cut = MPIGRAPH[: MPIGRAPH.index("b:2 to") + 15]
    measured = parse_measured(cut, "x")
    assert len(measured.matrices[0].cells) == 2
    assert "2 rows of 4" in measured.warnings[0]


def test_mpigraph_is_known_without_its_first_line() -> None:
    assert matrices(MPIGRAPH[MPIGRAPH.index("Send") :]) != ()


def test_other_output_between_the_rows_of_a_matrix_is_no_end_of_it() -> None:
    torn = P2P.replace("     1  22.32", "srun: warning: can't run 1 processes on 2 nodes\n     1  22.32")
    assert matrices(torn)[0].pairs() == matrices(P2P)[0].pairs()


@pytest.mark.parametrize("text", [P2P, MPIGRAPH, nvbandwidth("->"), TRANSFERBENCH])
def test_colours_and_indents_are_no_part_of_a_line(text: str) -> None:
    coloured = "".join(f"    \x1b[32m{line}\x1b[0m\n" for line in text.splitlines())
    assert [matrix.pairs() for matrix in matrices(coloured)] == [matrix.pairs() for matrix in matrices(text)]


def test_both_ways_at_once_tell_each_way_where_nothing_else_does() -> None:
    title = "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)"
    only_both = P2P[: P2P.index("P2P=Enabled Latency")].replace(
        title, "Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)"
    )
    (quantity,) = findings(parse_measured(only_both)).quantities
    assert (quantity.name, quantity.value) == ("gbps", pytest.approx((22.23 + 22.32) / 4))
    assert all("both at once" not in each.note for each in findings(parse_measured(P2P)).quantities)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_shells_write_in_several_encodings(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "p2p.txt"
    path.write_bytes(P2P.replace("\n", "\r\n").encode(encoding))
    assert read_measured(path).matrices[0].pairs() == matrices(P2P)[0].pairs()


def test_an_output_that_tells_no_link_says_so() -> None:
    one_gpu = (
        "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0\n     0 801.28\n"
    )
    assert findings(parse_measured(one_gpu)).warnings == ("nothing in the output tells the cost of a link",)


def test_lists_of_devices_are_no_decimal_commas() -> None:
    text = "GPUs 0,1\nGPUs 2,3\n# OSU MPI Latency Test v7.5\n# Size       Avg Latency(us)\n1     2.37\n"
    assert only(text).points[0].time_us == 2.37

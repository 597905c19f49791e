import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.model.problem import Problem

Taccl = Callable[..., Result]
NODES = ("--sketch", "ndv2-sk-1", "--size", "16MB")
#: Three GPUs on a switch that sums and copies, as an NVSwitch does.
TRIO = """name: trio
occupancy: pipelined
node:
  gpus: 3
  switches: [nvswitch]
  links: [{from: gpus, to: nvswitch, alpha_us: 0.35, bandwidth_gbps: 370.8}]
  helpers: [{at: nvswitch, can: [reduce-to-one, copy], bandwidth_gbps: 309}]
"""


@pytest.fixture(autouse=True)
def no_engine_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def solve(problem: Problem, options: SearchOptions, *rest: object) -> Iterator[Update]:
        raise AssertionError("an engine was requested")
        yield

    monkeypatch.setattr("taccl.synthesis.search.solve", solve)


def test_each_bound_stands_with_its_bandwidths_and_witness_those_for_any_chunks_first(taccl: Taccl) -> None:
    done = taccl("bound", *NODES)
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "allgather, 16 ranks, on ndv2 (ndv2-sk-1): 16MB in chunks of 1MB"
    assert lines[4].split()[:6] == ["bound", "time(us)", "algbw(GB/s)", "busbw(GB/s)", "holds", "for"]
    rows = [(float(line.split()[1]), "this chunk count" in line) for line in lines[5:18]]
    assert rows == sorted(rows, key=lambda row: (row[1], -row[0]))
    assert [line.split()[0] for line in lines[5:14]] == [
        *("cut", "volume", "relay", "strength", "gather-time", "latency", "broadcast-time"),
        *("staged-cut", "cut"),
    ]


def test_it_says_what_the_limit_is_and_what_moves_it(taccl: Taccl) -> None:
    """First for any number of chunks, so that a library is compared with what holds for it, too."""
    first, second = taccl("bound", *NODES).stdout.splitlines()[1:3]
    assert first.startswith("no schedule is faster than 840.00 us for any chunk count: 8 MB into node 0")
    assert second.startswith(
        "no schedule is faster than 917.40 us for this chunk count: 8 chunks into node 0"
    )
    assert "what moves it: more or faster links" in first


def test_a_library_that_cuts_finer_is_compared_with_what_holds_for_any_chunks(taccl: Taccl) -> None:
    """NCCL takes 6733 us there, and with one chunk a rank no schedule takes less than 7117."""
    requested = (
        "--topology",
        "a3-mega",
        "--nodes",
        "2",
        "--collective",
        "allreduce",
        "--size",
        "1GB",
        "--json",
    )
    shown = json.loads(taccl("bound", *requested).stdout)
    assert shown["any_chunks_bound_us"] < 6733 < shown["lower_bound_us"]
    assert shown["any_chunks_bound_source"] == "1024 MB into node 0 through 8 ports"
    of_any = [each["lower_bound_us"] for each in shown["bounds"] if each["holds_for_any_chunks"]]
    assert shown["any_chunks_bound_us"] == max(of_any)


def test_json_has_the_same_with_units(taccl: Taccl) -> None:
    shown = json.loads(taccl("bound", *NODES, "--collective", "alltoall", "--json").stdout)
    assert (shown["collective"], shown["ranks"], shown["size_bytes"]) == ("alltoall", 16, 16 * 2**20)
    first = shown["bounds"][0]
    assert (shown["lower_bound_us"], shown["bound_source"]) == (first["lower_bound_us"], first["witness"])
    assert first["algbw_gbps"] == pytest.approx(16 * 2**20 / first["lower_bound_us"] / 1e3)
    assert first["busbw_gbps"] == pytest.approx(first["algbw_gbps"] * 15 / 16)
    assert {each["kind"] for each in shown["bounds"] if each["holds_for_any_chunks"]} == {
        "broadcast-time",
        "cut",
        "flow",
        "gather-time",
        "latency",
        "volume",
        "waits",
    }


def test_it_is_the_bound_that_synthesize_reports(taccl: Taccl, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = json.loads(taccl("bound", "--topology", "ring:3", "--size", "3MB", "--json").stdout)
    monkeypatch.undo()
    words = [
        "--topology",
        "ring:3",
        "--size",
        "3MB",
        "--engine",
        "greedy",
        "--gap",
        0.01,
        "--no-file",
        "--json",
    ]
    result = json.loads(taccl("synthesize", *words, "-q").stdout)
    assert (result["lower_bound_us"], result["bound_source"]) == (
        shown["lower_bound_us"],
        shown["bound_source"],
    )


def test_bad_requests_end_with_one_line(taccl: Taccl) -> None:
    for words in (["--size", "1MB"], ["--topology", "ring:3"], [*NODES, "--root", "1"]):
        done = taccl("bound", *words)
        assert done.exit_code == 2
        assert done.stderr.startswith("error: ")


EXECUTED = """\
name: executed
gpus: 2
links:
  - {pairs: [0-1], alpha_us: 1, bandwidth_gbps: 20}
executor:
  reduce_us: 5
  reduce_gbps: 20
  protocols:
    LL: {launch_us: 5, hop_us: 0.5, slice_us: 0.25, block_gbps: 4, piece: 16KB}
"""


def test_with_a_protocol_what_executing_costs_is_in_them_and_the_launch_is_told_apart(taccl: Taccl) -> None:
    """Two one-way blocks of 4 GB/s take 131 us for the 1 MB of one rank, and a hop 2 us."""
    Path("executed.yaml").write_text(EXECUTED)
    requested = ("bound", "--topology", "executed.yaml", "--size", "2MB", "--protocol", "LL")
    shown = json.loads(taccl(*requested, "--instances", "2", "--json").stdout)
    assert shown["lower_bound_us"] == pytest.approx(2 + 1048.576 / 8)
    assert (shown["protocol"], shown["instances"], shown["thread_blocks"]) == ("LL", 2, None)
    assert shown["launch_us"] == 5
    assert shown["any_file_bound_us"] > 5
    said = taccl(*requested, "--instances", "2").stdout
    assert "costs are those of 2 one-way thread blocks of LL on each link" in said
    of_files = "no file of LL with this chunk count and 2 instances, executed, takes less than"
    assert f"{of_files} {shown['any_file_bound_us']:.2f} us (5 us of launch, then" in said
    assert "no file of LL with this chunk count, executed, takes less than" in taccl(*requested).stdout
    two_way = json.loads(taccl(*requested, "--instances", "2", "--thread-blocks", "two-way", "--json").stdout)
    assert two_way["lower_bound_us"] == pytest.approx(2 + 1048.576 / 4)


def test_instances_without_a_protocol_are_refused(taccl: Taccl) -> None:
    done = taccl("bound", "--topology", "ring:3", "--size", "3MB", "--instances", "2")
    assert done.exit_code == 2
    assert "--protocol Simple" in done.stderr


def test_the_bound_is_shown_for_each_number_of_servers(taccl: Taccl) -> None:
    done = taccl(
        "bound", "--topology", "switch:4", "--collective", "allreduce", "--size", "64MB", "--helpers", "0..2"
    )
    assert done.exit_code == 0
    first, header, *rows = done.stdout.splitlines()
    assert first == "allreduce, 4 ranks, on switch:4, 64MB in any number of chunks"
    assert header.split()[:3] == ["servers", "bound(us)", "busbw(GB/s)"]
    assert [row.split()[0] for row in rows] == ["0", "1", "2"]
    speedups = [float(row.split()[3].removesuffix("x")) for row in rows]
    assert speedups[0] == 1.0 < speedups[1] < speedups[2]


@pytest.mark.parametrize("helpers", ["8..0", "many", "-1", "1..", "0..99999"])
def test_numbers_of_servers_that_are_none_are_refused(taccl: Taccl, helpers: str) -> None:
    done = taccl("bound", "--topology", "switch:4", "--helpers", helpers)
    assert done.exit_code == 2
    assert "is neither a number nor a range such as 0..8" in done.stderr


def test_a_bound_without_a_helper_or_link_names_what_is_left_out(taccl: Taccl) -> None:
    done = taccl("bound", "--topology", "ring:4", "--without", "gpu0-gpu1", "--size", "1MB")
    assert "on ring:4 without gpu0-gpu1" in done.stdout
    refused = taccl("bound", "--topology", "ring:4", "--without", "nvswitch", "--size", "1MB")
    assert refused.exit_code == 2
    assert "ring:4 has no helper and no link called 'nvswitch'" in refused.stderr


def test_bounds_say_that_they_are_of_a_machine_with_in_switch_sums(taccl: Taccl) -> None:
    Path("trio.yaml").write_text(TRIO)
    with_sums = taccl("bound", "--topology", "trio.yaml", "--collective", "allreduce", "--size", "3MB")
    assert "on trio with in-switch sums: 3MB" in with_sums.stdout
    copies = taccl("bound", "--topology", "trio.yaml", "--size", "3MB")
    assert "on trio: 3MB" in copies.stdout

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import Result

from taccl.cli.main import main
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.portfolio.solve import solve as real_solve
from taccl.errors import FileError, ProgramLimitError, VerificationError
from taccl.model.problem import Problem
from taccl.model.schedule import read_schedule
from taccl.model.units import format_count

Taccl = Callable[..., Result]

#: A machine, an engine and a gap with which a search ends at once.
QUICK = ("--engine", "greedy", "--gap", "0.9", "--time-limit", "10")
PROMISED = {
    *("collective", "topology", "sketch", "ranks", "nodes", "size_bytes", "chunk_bytes", "chunks_per_rank"),
    *("engine", "transfers", "time_us", "lower_bound_us", "gap", "algbw_gbps", "busbw_gbps"),
    *("solve_s", "status", "verified", "files", "schedule"),
}
RING = ("--topology", "ring:3", "--size", "3MB", *QUICK)


def test_the_result_goes_to_standard_output_with_bound_and_gap_beside_the_time(taccl: Taccl) -> None:
    done = taccl("synthesize", *RING, "-o", "ag.xml")
    assert done.exit_code == 0, done.stderr
    labels = [line.split("  ")[0].strip() for line in done.stdout.splitlines() if line[:1].strip()]
    start = labels.index("time")
    assert labels[start : start + 5] == ["time", "lower bound", "gap", "algbw", "busbw"]
    assert "wrote ag.xml" in done.stdout
    assert "MSCCL_XML_FILES" in done.stdout
    assert Path("ag.xml").read_text().startswith("<algo ")


def test_a_search_that_ends_before_other_bounds_says_what_holds_for_any_chunks_all_the_same(
    taccl: Taccl,
) -> None:
    shown = json.loads(taccl("synthesize", *RING, "--json", "--no-file").stdout)
    assert 0 < shown["any_chunks_bound_us"] <= shown["lower_bound_us"] * (1 + 1e-9)
    assert "into rank" in shown["any_chunks_bound_source"]


def test_progress_goes_to_standard_error_and_quiet_silences_it(taccl: Taccl) -> None:
    loud, quiet = taccl("synthesize", *RING), taccl("synthesize", *RING, "-q")
    assert "time" in loud.stderr
    assert "bound" in loud.stderr
    assert quiet.stderr == ""
    assert "lower bound" in quiet.stdout


def first_schedule(problem: Problem, options: SearchOptions) -> Update:
    """The first schedule of the engines, as if nothing were proven about it yet."""
    return replace(next(real_solve(problem, options)), lower_bound_us=0.0)


def test_verbose_shows_news_that_are_no_improvement_too(
    taccl: Taccl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def schedule_then_bound(problem: Problem, options: SearchOptions, *rest: object) -> Iterator[Update]:
        yield first_schedule(problem, options)
        yield Update("bound", None, 1.0, "latency")

    monkeypatch.setattr("taccl.synthesis.search.solve", schedule_then_bound)
    plain, verbose = taccl("synthesize", *RING), taccl("synthesize", *RING, "-v")
    assert len(plain.stderr.splitlines()) == 1
    assert len(verbose.stderr.splitlines()) == 2


def test_json_is_one_object_with_the_promised_keys(taccl: Taccl) -> None:
    done = taccl("synthesize", *RING, "--json", "-o", "ag.xml", "--schedule", "ag.json")
    result = json.loads(done.stdout)
    assert PROMISED <= set(result)
    assert result["collective"] == "allgather"
    assert (result["ranks"], result["nodes"]) == (3, 1)
    assert (result["size_bytes"], result["chunk_bytes"]) == (3 * 2**20, 2**20)
    assert result["gap"] == pytest.approx((result["time_us"] - result["lower_bound_us"]) / result["time_us"])
    assert result["algbw_gbps"] == pytest.approx(result["size_bytes"] / result["time_us"] / 1e3)
    assert (result["verified"], result["checked"]) == (True, ["schedule", "xml"])
    assert (result["files"][0]["path"], result["schedule"]) == ("ag.xml", "ag.json")
    assert json.loads(Path("ag.json").read_text())


def test_letters_that_no_reader_takes_are_dashes_in_the_name_of_the_program(taccl: Taccl) -> None:
    links = "[{pairs: [0-1], alpha_us: 1, bandwidth_gbps: 10}]"
    Path("odd.yaml").write_text(f"name: 'a<b>&\"c\"/../\u00e9: x'\ngpus: 2\nlinks: {links}\n")
    done = taccl("synthesize", "--topology", "odd.yaml", "--size", "2MB", *QUICK, "-o", "ag.xml")
    assert done.exit_code == 0, done.stderr
    assert '<algo name="taccl-allgather-a-b-c-..-: x" ' in Path("ag.xml").read_text()
    assert "a<b>" in done.stdout


def test_reduce_scatter_for_all_runtimes_has_two_files_and_says_so(taccl: Taccl) -> None:
    done = taccl("synthesize", *RING, "--collective", "reducescatter", "-o", "rs.xml", "--json")
    result = json.loads(done.stdout)
    assert result["files"] == [
        {"path": "rs.xml", "format": "xml", "readers": ["executor", "rccl"]},
        {"path": "rs.msccl.xml", "format": "xml", "readers": ["msccl"]},
    ]
    assert taccl("verify", "rs.xml", "rs.msccl.xml").exit_code == 0
    assert 'coll="reducescatter"' in Path("rs.xml").read_text()
    assert 'coll="reduce_scatter"' in Path("rs.msccl.xml").read_text()


def test_one_target_has_one_file(taccl: Taccl) -> None:
    done = taccl("synthesize", *RING, "--collective", "reduce-scatter", "--target", "msccl", "-o", "rs.xml")
    assert done.exit_code == 0, done.stderr
    assert [path.name for path in Path().iterdir()] == ["rs.xml"]


def test_without_a_file_the_schedule_is_checked_all_the_same(taccl: Taccl) -> None:
    result = json.loads(taccl("synthesize", *RING, "--no-file", "--json").stdout)
    assert result["files"] == []
    assert (result["verified"], result["checked"]) == (True, ["schedule"])


def test_without_an_output_nothing_is_written_and_the_user_is_told(taccl: Taccl) -> None:
    done = taccl("synthesize", *RING)
    assert "-o FILE" in done.stdout
    assert not list(Path().iterdir())


@pytest.mark.parametrize("collective", ["allreduce", "alltoall", "broadcast", "reduce", "gather", "scatter"])
def test_every_collective_yields_a_verified_file(taccl: Taccl, collective: str) -> None:
    done = taccl("synthesize", *RING, "--collective", collective, "-o", "c.xml", "--json")
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["verified"] is True
    for reader in result["files"][0]["readers"]:
        assert taccl("verify", "c.xml", "--target", reader).exit_code == 0


def test_a_custom_collective_comes_from_a_file(taccl: Taccl) -> None:
    Path("shift.yaml").write_text(
        "collective: shift\nranks: 3\nchunks:\n"
        "  - {from: 0, to: 1}\n  - {from: 1, to: 2}\n  - {from: 2, to: 0}\n"
    )
    done = taccl("synthesize", *RING, "--collective", "shift.yaml", "-o", "s.xml", "--json")
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["collective"], result["transfers"]) == ("shift", 3)
    assert result["verified"] is True


def test_a_published_sketch_brings_its_machine_nodes_and_size(taccl: Taccl) -> None:
    words = ("--sketch", "ndv2-n1-sk-1", *QUICK[:4], "--effort", "100", "--no-file", "--json")
    result = json.loads(taccl("synthesize", *words).stdout)
    assert (result["topology"], result["nodes"], result["ranks"]) == ("ndv2", 1, 8)
    assert result["size_bytes"] == 8 * 2**20


def test_without_a_sketch_the_number_of_chunks_is_chosen_and_a_note_says_so(taccl: Taccl) -> None:
    """A broadcast of 48 MB along a line gains by cutting; with one chunk, each link waits for all of it."""
    line = (
        "--collective",
        "broadcast",
        "--topology",
        "ring-oneway:3",
        "--size",
        "48MB",
        "--no-file",
        "--json",
    )
    quick = ("--engine", "greedy", "--gap", "0.1", "--effort", "20000")
    chosen = json.loads(taccl("synthesize", *line, *quick).stdout)
    one = json.loads(taccl("synthesize", *line, *quick, "--chunks", "1").stdout)
    assert chosen["chunks_per_rank"] > 1
    assert chosen["time_us"] < one["time_us"]
    assert any(note.startswith("chunks per rank: ") for note in chosen["notes"])
    assert one["chunks_per_rank"] == 1 and one["chunks_tried"] == [] and one["notes"] == []


def test_an_effort_gives_the_same_answer_twice_and_is_told(taccl: Taccl) -> None:
    words = ("--topology", "ring:4", "--collective", "alltoall", "--size", "1MB", "--no-file", "--json")
    first, second = (
        json.loads(taccl("synthesize", *words, "--effort", "500", "--seed", "3").stdout) for _ in "12"
    )
    assert first["effort"] == 500
    first.pop("solve_s"), second.pop("solve_s")
    assert first == second


@pytest.mark.parametrize("effort", ["0", "-5"])
def test_an_effort_is_at_least_one_unit(taccl: Taccl, effort: str) -> None:
    done = taccl("synthesize", "--topology", "ring:3", "--size", "3MB", "--effort", effort)
    assert done.exit_code == 2
    assert "effort" in done.stderr


def test_json_says_what_each_engine_did_and_which_did_not_serve(taccl: Taccl) -> None:
    words = (
        "--topology",
        "ring:4",
        "--size",
        "4MB",
        "--chunks",
        "1",
        "--no-file",
        "--gap",
        "0",
        "--time-limit",
    )
    shown = json.loads(taccl("synthesize", *words, "5", "--engine", "greedy", "--json").stdout)
    (greedy,) = [each for each in shown["engines"] if each["name"] == "greedy"]
    assert greedy["time_us"] is None or greedy["time_us"] >= shown["lower_bound_us"]
    assert all(each["reason"] for each in shown["declined"])
    assert shown["failures"] == []


def test_an_engine_that_was_asked_for_and_does_not_serve_is_bad_input_with_its_reason(taccl: Taccl) -> None:
    ring = ("--topology", "ring:4", "--size", "4MB", "--collective", "alltoall")
    for chunks in (("--chunks", "1"), ()):
        done = taccl("synthesize", *ring, "--engine", "hierarchical", "--no-file", *chunks)
        assert done.exit_code == 2
        assert "hierarchical does not serve this problem: " in done.stderr
        assert "--explain-stages" in done.stderr


def test_the_stages_are_a_table_of_what_runs_and_why_the_rest_does_not(
    taccl: Taccl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def searched(*requested: object) -> NoReturn:
        raise AssertionError("nothing is to be searched")

    monkeypatch.setattr("taccl.synthesis.search.solve", searched)
    done = taccl("synthesize", "--topology", "ring:4", "--size", "4MB", "--explain-stages")
    assert done.exit_code == 0, done.stderr
    rows = {line.split()[1]: line for line in done.stdout.splitlines() if line.startswith("whole")}
    assert rows["routes"].split()[2:4] == ["improve", "yes"]
    assert "a node is all there is" in rows["hierarchical"]
    one = taccl("synthesize", "--topology", "ring:4", "--size", "4MB", "--engine", "milp", "--explain-stages")
    assert [line.split()[1] for line in one.stdout.splitlines()[2:]] == ["textbook", "milp"]


@pytest.mark.parametrize("more", [("--json",), ("-o", "a.xml"), ("--schedule", "s.json")])
def test_a_plan_writes_nothing(taccl: Taccl, more: tuple[str, ...]) -> None:
    done = taccl("synthesize", "--topology", "ring:4", "--size", "4MB", "--explain-stages", *more)
    assert done.exit_code == 2
    assert "--explain-stages" in done.stderr
    assert not Path("a.xml").exists() and not Path("s.json").exists()


def test_verbose_says_which_engines_did_not_run_and_why(taccl: Taccl) -> None:
    words = ("--topology", "ring:4", "--size", "4MB", "--chunks", "2", "--no-file", "--effort", "300")
    done = taccl("synthesize", *words, "-v")
    assert "owners did not run: " in done.stderr


def test_ctrl_c_keeps_the_best_schedule_so_far(taccl: Taccl, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(problem: Problem, options: SearchOptions, *rest: object) -> Iterator[Update]:
        yield first_schedule(problem, options)
        raise KeyboardInterrupt

    monkeypatch.setattr("taccl.synthesis.search.solve", stopped)
    # Work is counted, and no time: a search whose time is up before the first schedule ends as "late".
    words = ("--topology", "ring:3", "--size", "3MB", "--engine", "greedy", "--effort", "1000")
    done = taccl("synthesize", *words, "-o", "ag.xml", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["status"] == "interrupted"
    assert Path("ag.xml").exists()


def test_ctrl_c_before_any_schedule_exits_130_and_keeps_the_file_that_was_there(
    taccl: Taccl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(problem: Problem, options: SearchOptions, *rest: object) -> Iterator[Update]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("taccl.synthesis.search.solve", stopped)
    Path("ag.xml").write_text("old")
    done = taccl("synthesize", *RING, "-o", "ag.xml")
    assert done.exit_code == 130
    assert "interrupted" in done.stderr
    assert done.stdout == ""
    assert Path("ag.xml").read_text() == "old"


def test_no_solver_writes_to_the_standard_output_of_the_process(capfd: pytest.CaptureFixture[str]) -> None:
    """Solvers are not Python: what they print would not pass through `sys.stdout`."""
    words = [
        "--topology",
        "ring:4",
        "--collective",
        "alltoall",
        "--size",
        "3MB",
        "--chunks",
        "1",
        "--effort",
        "200",
    ]
    for engine in ("cp", "milp"):
        main(["synthesize", *words, "--engine", engine, "--no-file", "--json", "-q"], standalone_mode=False)
        output, errors = capfd.readouterr()
        assert engine in {each["name"] for each in json.loads(output)["engines"]}
        assert errors == ""


#: A search that ends by itself.
FEW = ("--topology", "ring:3", "--size", "3MB", "--chunks", "1", "--effort", "300", "--no-executor")


def without_file(monkeypatch: pytest.MonkeyPatch, fault: BaseException) -> None:
    """No target makes a file: each attempt ends so."""

    def ends(*args: object, **options: object) -> NoReturn:
        raise fault

    monkeypatch.setattr("taccl.synthesis.emit.files_of", ends)


def test_a_schedule_that_no_file_can_hold_is_kept_where_it_was_asked_for(
    taccl: Taccl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(*args: object, **options: object) -> NoReturn:
        raise ProgramLimitError("too many steps", hint="fewer --chunks")

    monkeypatch.setattr("taccl.backend.targets.msccl_xml.lower", too_large)
    path = tmp_path / "a.json"
    done = taccl(
        "synthesize", "--topology", "ring:3", "--size", "3MB", "--time-limit", "2", "--schedule", str(path)
    )
    assert done.exit_code == 4
    assert f"the schedule is kept in {path}" in " ".join(done.stderr.split())
    read_schedule(path).schedule.check()


@pytest.mark.parametrize("target", ["all", "mscclpp", "json"])
@pytest.mark.parametrize(
    "fault", [ProgramLimitError("too many steps"), VerificationError("is refused"), MemoryError("no room")]
)
def test_what_has_no_file_is_reported_before_the_error_in_every_format(
    taccl: Taccl, monkeypatch: pytest.MonkeyPatch, target: str, fault: Exception
) -> None:
    """The time next to its bound, and what it leaves out: a search may have taken long."""
    without_file(monkeypatch, fault)
    done = taccl("synthesize", *FEW, "--target", target, "-o", "a.out")
    assert done.exit_code == 4
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    of_schedule = lines["schedule" if "file" in lines else "time"]  # next to it, the time of a file
    assert " us  (links alone: no launch" in of_schedule
    assert lines["lower"].startswith("lower bound")
    assert lines["verified"].endswith("schedule (no file could be made)")
    assert str(fault) in done.stderr
    assert not Path("a.out").exists()


@pytest.mark.parametrize(
    "fault", [MemoryError(), ImportError("x.so: failed to map segment from shared object")]
)
def test_what_was_found_is_reported_where_memory_is_too_little_to_write_it(
    taccl: Taccl, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def no_room(*args: object) -> NoReturn:
        raise fault

    monkeypatch.setattr("taccl.cli.synthesize.write_schedule", no_room)
    done = taccl("synthesize", *FEW, "--no-file", "--schedule", "s.json")
    assert done.exit_code == 2
    assert "lower bound" in done.stdout
    assert "\nerror: out of memory" in done.stderr


def test_where_the_file_was_to_go_to_standard_output_the_report_does_not(
    taccl: Taccl, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_file(monkeypatch, ProgramLimitError("too many steps"))
    done = taccl("synthesize", *FEW, "--target", "json", "-o", "-")
    assert (done.exit_code, done.stdout) == (4, "")
    assert done.stderr.index("lower bound") < done.stderr.index("error: too many steps")


def test_as_json_what_has_no_file_is_an_object_that_is_not_verified(
    taccl: Taccl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_file(monkeypatch, ProgramLimitError("too many steps"))
    path = tmp_path / "s.json"
    done = taccl("synthesize", *FEW, "--json", "-o", "a.xml", "--schedule", str(path))
    assert done.exit_code == 4
    shown = json.loads(done.stdout)
    assert (shown["verified"], shown["files"], shown["schedule"]) == (False, [], str(path))
    assert shown["time_us"] >= shown["lower_bound_us"] > 0
    read_schedule(path).schedule.check()


def test_the_reason_why_there_is_no_file_comes_with_why_its_schedule_is_not_kept(
    taccl: Taccl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> NoReturn:
        raise FileError("no space is left", path="s.json")

    without_file(monkeypatch, ProgramLimitError("too many steps"))
    monkeypatch.setattr("taccl.cli.kept.write_schedule", full)
    done = taccl("synthesize", *FEW, "-o", "a.xml", "--schedule", str(tmp_path / "s.json"))
    assert done.exit_code == 4
    assert "lower bound" in done.stdout
    assert "error: too many steps" in done.stderr and "no space is left" in done.stderr


def test_who_interrupts_the_making_of_a_file_twice_has_the_report(
    taccl: Taccl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_file(monkeypatch, KeyboardInterrupt())
    path = tmp_path / "s.json"
    done = taccl("synthesize", *FEW, "-o", "a.xml", "--schedule", str(path))
    assert done.exit_code == 130
    assert "lower bound" in done.stdout and "no file could be made" in done.stdout
    assert f"error: interrupted; no file was made; the schedule is kept in {path}" in done.stderr
    read_schedule(path).schedule.check()
    assert not Path("a.xml").exists()


def test_thread_blocks_of_a_file_may_be_one_way(taccl: Taccl) -> None:
    done = taccl("synthesize", *RING, "--chunks", "1", "--thread-blocks", "one-way", "-o", "ag.xml", "-q")
    assert done.exit_code == 0, done.stderr
    blocks = [line for line in Path("ag.xml").read_text().splitlines() if "<tb " in line]
    assert blocks and all('send="-1"' in line or 'recv="-1"' in line for line in blocks)
    wrong = taccl("synthesize", *RING, "--thread-blocks", "both")
    assert wrong.exit_code == 2
    assert "one-way" in wrong.stderr


def test_a_schedule_as_parquet_is_shown_and_simulated_and_damage_in_it_is_told(taccl: Taccl) -> None:
    done = taccl("synthesize", *RING, "--no-file", "--schedule", "ag.parquet")
    assert done.exit_code == 0
    assert Path("ag.parquet").read_bytes().startswith(b"PAR1")
    for command in ("show", "simulate"):
        assert taccl(command, "ag.parquet").exit_code == 0
    Path("ag.parquet").write_bytes(Path("ag.parquet").read_bytes()[:-20])
    for command in ("show", "simulate"):
        damaged = taccl(command, "ag.parquet")
        assert damaged.exit_code == 2
        assert "error: ag.parquet: this is not a Parquet file that can be read" in damaged.stderr


def test_each_number_of_servers_has_a_row_and_the_fastest_is_written(taccl: Taccl) -> None:
    words = ("--topology", "switch:4", "--collective", "allreduce", "--size", "4MB", "--chunks", "1", "-q")
    options = (
        "--helpers",
        "0..2",
        "--engine",
        "routes",
        "--effort",
        "200",
        "--target",
        "placement",
        "-o",
        "placement.json",
    )
    done = taccl("synthesize", *words, *options, "--json")
    rows = json.loads(done.stdout)["servers"]
    assert [row["helpers"] for row in rows] == [0, 1, 2]
    least = min(row["time_us"] for row in rows)
    assert json.loads(done.stdout)["time_us"] == least
    first = next(row for row in rows if row["time_us"] == least)
    assert json.loads(done.stdout)["topology"] == f"switch:4 with {format_count(first['helpers'], 'server')}"
    assert all(row["lower_bound_us"] <= row["time_us"] for row in rows)
    assert taccl("verify", "placement.json").exit_code == 0
    refused = taccl("synthesize", *words, "--helpers", "0..2", "--explain-stages")
    assert (refused.exit_code, "one machine" in refused.stderr) == (2, True)

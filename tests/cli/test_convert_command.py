"""`taccl convert`, and `--target mscclpp`: plans from schedules and from MSCCL-XML, on the command line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from taccl import convert_file
from taccl.backend.msccl_xml import to_xml
from taccl.backend.program import Program
from taccl.errors import TacclError
from tests.backend.programs import block, program, ring_allgather, ring_allreduce, step
from tests.cli.conftest import Taccl

DATA = Path(__file__).parents[1] / "data" / "xml"


def written(name: str, made: Program) -> Path:
    Path(name).write_text(to_xml(made))
    return Path(name)


def test_a_file_becomes_a_plan_that_is_right(taccl: Taccl) -> None:
    written("ar.xml", ring_allreduce(3))
    done = taccl("convert", "ar.xml", "-o", "ar.json")
    assert done.exit_code == 0, done.stderr
    assert "wrote ar.json: allreduce, 3 ranks, 3 thread blocks" in done.stdout
    assert "in place" in done.stdout
    assert taccl("verify", "ar.json").exit_code == 0


def test_on_standard_output_there_is_the_plan_alone(taccl: Taccl) -> None:
    written("ag.xml", ring_allgather(2))
    done = taccl("convert", "ag.xml", "-o", "-")
    assert json.loads(done.stdout)["collective"] == "allgather"
    assert "wrote standard output" in done.stderr


def test_ranks_of_several_nodes_go_through_ports(taccl: Taccl) -> None:
    written("ag.xml", ring_allgather(4))
    assert taccl("convert", "ag.xml", "-o", "ag.json", "--ranks-per-node", "2").exit_code == 0
    kinds = {
        row["channel_type"]
        for gpu in json.loads(Path("ag.json").read_text())["gpus"]
        for row in gpu["channels"]
    }
    assert kinds == {"memory", "port"}
    refused = taccl("convert", "ag.xml", "-o", "b.json", "--ranks-per-node", "3")
    assert (refused.exit_code, "3 ranks per node, and 4 ranks in all" in refused.stderr) == (2, True)
    assert not Path("b.json").exists()


def test_a_file_for_both_ways_becomes_a_plan_for_one_of_them(taccl: Taccl) -> None:
    written("ag.xml", replace(ring_allgather(3), in_place=True))
    for words, said in (
        ((), "out of place"),
        (("--in-place",), "in place"),
        (("--out-of-place",), "out of place"),
    ):
        done = taccl("convert", "ag.xml", "-o", "ag.json", *words)
        assert f"serves calls in place and out of place, the plan only those {said}\n" in done.stdout
        assert taccl("verify", "ag.json").exit_code == 0


def test_a_file_that_is_wrong_is_not_converted(taccl: Taccl) -> None:
    wrong = program("allgather", 2, (block(0, 1, -1, step("s", "i0")),), (block(0, -1, 0, step("r", "o1")),))
    written("ag.xml", wrong)
    refused = taccl("convert", "ag.xml", "-o", "ag.json")
    assert (refused.exit_code, "the file is wrong, so it is not converted" in refused.stderr) == (4, True)
    assert not Path("ag.json").exists()


def test_what_is_no_xml_is_not_converted(taccl: Taccl) -> None:
    written("ag.xml", ring_allgather(2))
    assert taccl("convert", "ag.xml", "-o", "ag.json").exit_code == 0
    refused = taccl("convert", "ag.json", "-o", "b.json")
    assert (refused.exit_code, "give an MSCCL-XML file" in refused.stderr) == (2, True)
    assert taccl("convert", "missing.xml", "-o", "b.json").exit_code == 2
    assert taccl("convert", "ag.xml", "-o", "ag.xml").exit_code == 2


@pytest.mark.parametrize("collective", ["gather", "reduce"])
def test_collectives_that_mscclpp_has_no_call_for_are_refused_before_the_search(
    taccl: Taccl, collective: str
) -> None:
    given = ("synthesize", "--topology", "ring:3", "--size", "3MB", "-q", "--target", "mscclpp")
    refused = taccl(*given, "--collective", collective, "-o", "a.json")
    assert (refused.exit_code, f"MSCCL++ has no {collective}" in refused.stderr) == (2, True), refused.stderr
    assert not Path("a.json").exists()


def test_a_size_that_is_not_cut_into_whole_units_is_refused_before_the_search(taccl: Taccl) -> None:
    given = (
        "synthesize",
        "--topology",
        "ring:3",
        "--chunks",
        "1",
        "-q",
        "--target",
        "mscclpp",
        "-o",
        "a.json",
    )
    refused = taccl(*given, "--size", "120", "--collective", "allgather")
    assert (refused.exit_code, "--size 144" in refused.stderr) == (2, True), refused.stderr


def test_a_schedule_becomes_a_plan_that_is_right_and_says_how_it_is_run(taccl: Taccl) -> None:
    given = ("synthesize", "--topology", "ring:3", "--size", "3MB", "--engine", "greedy", "--gap", "0.9")
    done = taccl(*given, "--collective", "allgather", "--target", "mscclpp", "-o", "a.json")
    assert done.exit_code == 0, done.stderr
    assert "serves calls of 1536KB to 6MB" in done.stdout
    assert "executor_test.py" in done.stdout
    assert taccl("verify", "a.json").exit_code == 0


@pytest.mark.parametrize(
    "name",
    [
        "mscclang-allgather_recursive_doubling_8",
        "mscclang-allreduce_a100_ring_8",
        "mscclang-hierarchical_allreduce_8x2",
        "mscclang-alltoall_two_step_2x8",
        "sched-ncv4-ag_hier_4_LL",
        "sched-ndv4-a2a2ll",
        "taccl-ndv2x2-allgather-sk1-1MB",
    ],
)
def test_files_of_others_become_plans(name: str) -> None:
    assert convert_file(DATA / f"{name}.xml").plan.num_ranks > 1


def test_files_of_others_that_are_wrong_do_not() -> None:
    with pytest.raises(TacclError, match="not converted"):
        convert_file(DATA / "mscclang-pipeline_a100_ring_8.xml")


def test_a_schedule_becomes_a_plan_for_the_calls_that_are_asked_for(taccl: Taccl) -> None:
    words = ("--topology", "ring:2", "--size", "2MB", "--chunks", "1", "--effort", "100", "-q")
    done = taccl("synthesize", *words, "--target", "mscclpp", "--in-place", "-o", "ag.json")
    assert done.exit_code == 0, done.stderr
    assert "multiples of 32 bytes, in place" in done.stdout
    assert json.loads(Path("ag.json").read_text())["inplace"] is True


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--target", "mscclpp", "--collective", "alltoall"), "no plan does an alltoall in place"),
        ((), "say themselves which calls they serve"),
    ],
)
def test_calls_in_place_are_refused_before_any_search_where_no_file_is_for_them_alone(
    words: tuple[str, ...], said: str, taccl: Taccl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taccl.synthesis.search.solve", None)
    done = taccl("synthesize", "--topology", "ring:2", "--size", "2MB", "--in-place", *words, "-o", "a.file")
    assert (done.exit_code, said in done.stderr) == (2, True)
    assert not Path("a.file").exists()

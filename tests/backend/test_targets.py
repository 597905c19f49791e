"""Targets are values: those that are built in, and one from outside through the API and the command line."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result
from toy_target import LISTING, Listing, read, write

import taccl as package
from taccl import make_collective, make_problem, synthesize
from taccl.backend.limits import LIMITS
from taccl.backend.lower import lower
from taccl.backend.msccl_xml.reader import begins_as_program
from taccl.backend.target import AnyTarget, Lowered, LoweringOptions
from taccl.backend.targets.msccl_xml import TARGETS as XML_TARGETS
from taccl.backend.targets.registry import DEFAULT_TARGET, GROUP, TARGETS, find_target, target_of_file
from taccl.cli.main import main
from taccl.errors import CheckError, CollectiveError, TacclError, VerificationError
from taccl.model.network import FloatArray
from taccl.model.problem import FEATURES
from taccl.model.schedule import Schedule
from taccl.synthesis.inputs import Inputs, inputs_of
from taccl.synthesis.output_options import OutputOptions
from taccl.synthesis.request import Request

#: Ends as soon as there is a schedule.
QUICK = {"engine": "greedy", "chunks": 1, "gap": 0.9, "time_limit": 10.0}
RING = ("--topology", "ring:3", "--size", "3MB", "--chunks", "1", "--engine", "greedy", "--gap", "0.9")

Taccl = Callable[..., Result]


@pytest.fixture
def taccl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Taccl:
    """Run the command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> Result:
        return CliRunner().invoke(main, [str(word) for word in words])

    return run


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package next to taccl that adds the toy, as an installer leaves it."""
    install(tmp_path_factory.mktemp("site"), monkeypatch, "LISTING")


def install(site: Path, monkeypatch: pytest.MonkeyPatch, *toys: str) -> None:
    facts = site / "toy-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    points = [f"{toy.lower()} = toy_target:{toy}" for toy in toys]
    (facts / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *points, ""]))
    monkeypatch.syspath_prepend(str(site))


def test_the_runtimes_of_msccl_xml_are_four_targets_with_the_limits_of_those_that_they_are_for() -> None:
    assert [target.name for target in XML_TARGETS] == ["all", *LIMITS]
    assert TARGETS[: len(XML_TARGETS)] == XML_TARGETS
    assert DEFAULT_TARGET.runtimes == tuple(LIMITS)
    for target in XML_TARGETS:
        assert target.limits.max_group == min(LIMITS[runtime].count for runtime in target.runtimes)
        assert target.limits.instances == min(LIMITS[runtime].channels for runtime in target.runtimes)


def test_a_target_is_found_by_its_name_by_itself_and_by_the_ending_of_a_file() -> None:
    assert find_target("rccl").runtimes == ("rccl",)
    assert find_target(LISTING) is LISTING
    for name in ("a.xml", "a", "a.txt"):
        assert target_of_file(name) is DEFAULT_TARGET


def test_a_target_of_an_installed_package_is_known_by_its_name_and_by_the_ending_of_its_files(
    installed: None,
) -> None:
    found = find_target("listing")
    assert found.name == target_of_file("a.TXT").name == "listing"
    assert found.read.__wrapped__ is LISTING.read


@pytest.mark.parametrize("name", ["nccl", "", 3, None, ["all"]])
def test_an_unknown_target_is_refused_with_those_that_there_are(name: object) -> None:
    with pytest.raises(CollectiveError, match="unknown target") as caught:
        find_target(name)
    assert (
        caught.value.hint
        == "one of all, msccl, executor, rccl, json, placement, mscclpp, rccl-trees, rccl-rings, nccl-graph"
    )


def test_a_problem_takes_the_most_chunks_of_a_send_from_its_target() -> None:
    given = {"topology": "ring:3", "size": "3MB"}
    assert make_problem("allgather", **given).problem.max_group == 71
    assert make_problem("allgather", target=LISTING, **given).problem.max_group == 2
    unlimited = replace(LISTING, limits=replace(LISTING.limits, max_group=None))
    assert make_problem("allgather", target=unlimited, **given).problem.max_group == 2**31


def test_a_schedule_for_a_target_from_outside_keeps_its_limits_and_is_verified_by_it(tmp_path: Path) -> None:
    result = synthesize(
        "allgather", topology="ring:4", size="6KB", chunks=6, target=LISTING, engine="greedy", gap=0.3
    )
    assert 1 < result.schedule.sends.count.max() <= 2
    (file,) = result.files
    assert (file.format, file.readers) == ("txt", ("eyes",))
    assert file.text.startswith("allgather 4 ranks, 6 chunks, root -\n")
    assert read(file.text, None) == file.program
    assert result.checked == ("schedule", "txt")
    assert "schedule and TXT for eyes" in result.summary()
    assert result.write(tmp_path / "ag.txt") == (tmp_path / "ag.txt",)


def test_a_file_that_the_targets_own_verifier_refuses_is_never_handed_over() -> None:
    def forgets_the_last(schedule: Schedule, options: LoweringOptions) -> list[Lowered[Listing]]:
        (right,) = LISTING.lower(schedule, options)
        return [Lowered(replace(right.program, sends=right.program.sends[:-1]), right.readers)]

    careless = replace(LISTING, lower=forgets_the_last)
    with pytest.raises(VerificationError, match="the TXT made for this schedule fails") as caught:
        synthesize("allgather", topology="ring:3", size="3MB", target=careless, **QUICK)
    assert "never gets chunk" in caught.value.findings[0]
    kept = caught.value.kept
    assert isinstance(kept, package.Result)
    assert (kept.verified, kept.to_dict()["verified"], kept.checked) == (False, False, ("schedule",))
    assert "schedule (no file could be made)" in kept.summary()


@pytest.mark.parametrize("fault", [MemoryError(), ValueError("no such thing"), CollectiveError("not this")])
def test_whatever_breaks_down_after_the_search_what_was_found_is_kept_and_the_failure_told(
    fault: Exception,
) -> None:
    def breaks_down(schedule: Schedule, options: LoweringOptions) -> NoReturn:
        raise fault

    broken = replace(LISTING, lower=breaks_down)
    with pytest.raises(CheckError, match=str(fault) or type(fault).__name__) as caught:
        synthesize("allgather", topology="ring:3", size="3MB", target=broken, **QUICK)
    assert isinstance(caught.value.kept, package.Result)
    caught.value.kept.schedule.check()


@pytest.mark.parametrize("target", XML_TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize(
    ("feature", "columns", "reason"),
    [
        ("sizes", {"sizes": np.array([1.0, 2.0, 3.0])}, "its chunks are all of one size"),
        ("ready times", {"ready_us": np.array([0.0, 0.0, 5.0])}, "it takes all inputs to be there"),
    ],
)
def test_msccl_xml_refuses_what_it_has_no_word_for(
    target: AnyTarget, feature: str, columns: dict[str, FloatArray], reason: str
) -> None:
    plain = make_problem("allgather", topology="ring:3", size="3MB", target=target).problem
    target.check_problem(plain, LoweringOptions())
    with pytest.raises(CollectiveError, match=f"knows no {feature}: {reason}"):
        target.check_problem(replace(plain, **columns), LoweringOptions())


def test_a_refusal_names_the_targets_that_take_the_problem() -> None:
    plain = make_problem("allgather", topology="ring:3", size="3MB").problem
    for columns, named in (
        ({"sizes": np.array([1.0, 2.0, 4.0])}, {"json", "mscclpp"}),
        ({"ready_us": np.array([0.0, 0.0, 5.0])}, set()),
    ):
        with pytest.raises(CollectiveError) as refused:
            DEFAULT_TARGET.check_problem(replace(plain, **columns), LoweringOptions(), lambda: TARGETS)
        assert set(re.findall("--target ([a-z-]+)", refused.value.hint or "")) == named
        assert "--no-file" in (refused.value.hint or "")


def test_what_follows_an_output_is_nothing_that_msccl_xml_has_to_hold() -> None:
    plain = make_problem("allgather", topology="ring:3", size="3MB").problem
    DEFAULT_TARGET.check_problem(replace(plain, tail_us=np.arange(9.0)), LoweringOptions())


def test_no_schedule_is_lowered_whose_problem_msccl_xml_has_no_word_for() -> None:
    schedule = synthesize("allgather", topology="ring:3", size="3MB", file=False, **QUICK).schedule
    unequal = replace(schedule, problem=replace(schedule.problem, sizes=np.arange(1.0, 4.0)))
    with pytest.raises(CollectiveError, match="a file for MSCCL-XML knows no sizes") as caught:
        lower(unequal)
    assert caught.value.hint


def test_every_feature_is_held_or_refused_with_a_reason() -> None:
    for target in (*TARGETS, LISTING):
        assert not target.features & set(target.reasons)
    for target in TARGETS:
        assert target.features | set(target.reasons) == FEATURES


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"collective": "allreduce", "topology": "ring:3", "size": "3MB"},
            "a file for the target 'listing' knows no reductions: "
            "a line says which chunks go where, and nothing of sums",
        ),
        ({"topology": "ring:9", "size": "9MB"}, "9 ranks; a file for the target 'listing' holds 8"),
        ({"topology": "ring:3", "size": "3MB", "protocol": "LL"}, "the target listing has no protocol 'LL'"),
    ],
)
def test_what_a_target_cannot_hold_is_refused_before_any_search(
    given: dict[str, object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taccl.synthesis.search.search", None)
    with pytest.raises(TacclError, match=said) as caught:
        synthesize(target=LISTING, **given)
    assert (caught.value.exit_code, bool(caught.value.hint)) == (2, True)


def test_the_usual_protocol_is_the_first_of_the_target_and_its_spelling_is_the_targets() -> None:
    other = replace(LISTING, protocols=("Put", "Signal"))
    assert (other.protocol(None), other.protocol("signal")) == ("Put", "Signal")
    assert OutputOptions().for_target(other, "name").protocol == "Put"
    assert OutputOptions().for_target(DEFAULT_TARGET, "name").protocol == "Simple"


def test_the_schedule_alone_needs_no_file() -> None:
    result = synthesize("allgather", topology="ring:9", size="9MB", target=LISTING, file=False, **QUICK)
    assert (result.files, result.problem.max_group) == ((), 2)


def test_the_command_line_makes_and_verifies_files_of_a_target_from_outside(
    taccl: Taccl, installed: None
) -> None:
    done = taccl("synthesize", *RING, "--target", "listing", "-o", "ag.txt")
    assert done.exit_code == 0, done.stderr
    assert "wrote ag.txt: for eyes\n  read it: " in done.stdout
    checked = taccl("verify", "ag.txt")
    assert checked.exit_code == 0, checked.output
    assert checked.stdout.startswith("ag.txt: ok\n  collective   allgather, 3 ranks")
    listing = read(Path("ag.txt").read_text(), None)
    Path("less.txt").write_text(write(replace(listing, sends=listing.sends[1:])))
    checked = taccl("verify", "less.txt", "--target", "listing")
    assert (checked.exit_code, "never gets chunk" in checked.stdout) == (4, True)
    refused = taccl("verify", "ag.txt", "--target", "msccl")
    assert refused.exit_code == 2


def test_json_lists_the_files_of_any_target(taccl: Taccl, installed: None) -> None:
    listed = json.loads(
        taccl("synthesize", *RING, "-q", "--target", "listing", "-o", "a.txt", "--json").stdout
    )
    assert (listed["target"], listed["checked"]) == ("listing", ["schedule", "txt"])
    assert listed["files"] == [{"path": "a.txt", "format": "txt", "readers": ["eyes"]}]
    plain = json.loads(taccl("synthesize", *RING, "-q", "-o", "a.xml", "--json").stdout)
    assert [each["format"] for each in plain["files"]] == ["xml"]
    assert (plain["target"], plain["files"][0]["path"]) == ("all", "a.xml")


def test_help_completion_and_refusals_name_the_targets_that_there_are(taccl: Taccl, installed: None) -> None:
    names = "all|msccl|executor|rccl|json|placement|mscclpp|rccl-trees|rccl-rings|nccl-graph|listing"
    assert f"[{names}]" in " ".join(taccl("synthesize", "--help").stdout.split())
    refused = taccl("synthesize", *RING, "--target", "nccl")
    assert (refused.exit_code, "listing" in refused.stderr) == (2, True)
    assert offered("synthesize", "li") == offered("verify", "li") == ["listing"]
    assert offered("synthesize", "l", "--protocol") == ["LL", "LL128"]


def test_where_it_is_not_installed_a_target_is_unknown(taccl: Taccl) -> None:
    refused = taccl("synthesize", *RING, "--target", "listing")
    assert (refused.exit_code, "'rccl'" in refused.stderr) == (2, True)
    assert offered("synthesize", "") == [
        "all",
        "msccl",
        "executor",
        "rccl",
        "json",
        "placement",
        "mscclpp",
        "rccl-trees",
        "rccl-rings",
        "nccl-graph",
    ]


def offered(command: str, incomplete: str, option: str = "--target") -> list[str]:
    """What the shell offers for an option."""
    shell = ShellComplete(main, {}, "taccl", "_TACCL_COMPLETE")
    return [item.value for item in shell.get_completions([command, option], incomplete)]


def test_the_toy_reads_what_it_writes_and_takes_a_collective_as_a_value() -> None:
    swap = make_collective("alltoall", 2, 1)
    (file,) = synthesize(
        swap, topology="ring:2", size="2MB", target=LISTING, **(QUICK | {"chunks": None})
    ).files
    assert read(file.text, None) == read(file.text.encode(), None) == file.program


def test_a_file_is_known_by_its_content_before_any_other_package_is_loaded(
    taccl: Taccl, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert taccl("synthesize", *RING, "-q", "-o", "ag.xml").exit_code == 0
    content = Path("ag.xml").read_bytes()
    monkeypatch.setattr("taccl.backend.targets.registry.added", None)
    for name in ("ag.xml", "ag.txt", "ag"):
        assert target_of_file(name, content) is DEFAULT_TARGET
    Path("ag.txt").write_bytes(content)
    for command in (("verify",), ("show",), ("run",), ("simulate", "--topology", "ring:3", "--size", "3MB")):
        done = taccl(*command, "ag.txt")
        assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize(
    ("content", "known"),
    [
        (b'<algo name="a">', True),
        (b'\xef\xbb\xbf <?xml version="1.0"?>\n<!-- <gpu> -->\n<algo>', True),
        ("<algo>".encode("utf-16"), True),
        (b"<algo", True),
        (b"<!DOCTYPE a><algo/>", True),
        (b"<algorithm>", False),
        (b"<plan><algo/></plan>", False),
        (b"allgather 2 ranks", False),
        (b"", False),
        (b"<!--" * 2**16, False),
    ],
)
def test_msccl_xml_is_known_by_its_first_element(content: bytes, known: bool) -> None:
    assert begins_as_program(content) is known


def test_a_file_of_a_target_from_outside_is_known_by_content_or_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "LISTING", "SPELLED")
    assert target_of_file("a.xml", b"spelled 00").name == "spelled"
    assert target_of_file("a.spell", b"nothing").name == "all"
    assert target_of_file("a.txt", b"nothing").name == "listing"


def test_a_target_that_cannot_be_loaded_stands_in_the_way_of_no_other(
    taccl: Taccl, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path_factory.mktemp("site"), monkeypatch, "LISTING", "MISSING")
    assert taccl("synthesize", *RING, "-q", "-o", "ag.txt", "--target", "listing").exit_code == 0
    assert taccl("synthesize", *RING, "-q", "--protocol", "LL", "--no-file").exit_code == 0
    assert taccl("verify", "ag.txt").exit_code == 0
    assert "listing]" in "".join(taccl("verify", "--help").stdout.split())
    Path("broken.xml").write_text("<algo")
    assert "not well-formed" in taccl("verify", "broken.xml").stderr
    Path("a.missing").write_text("who knows")
    for words in (("verify", "a.missing"), ("synthesize", *RING, "--target", "missing")):
        refused = taccl(*words)
        assert refused.exit_code == 2
        assert "'toy_target:MISSING', which an installed package adds" in refused.stderr


def test_the_bug_of_a_target_from_outside_is_told_as_its_own(
    taccl: Taccl, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path_factory.mktemp("site"), monkeypatch, "BREAKS")
    Path("a.break").write_text("something")
    for words in (("verify", "a.break"), ("synthesize", *RING, "--target", "breaks")):
        refused = taccl(*words)
        assert refused.exit_code == 2
        said = "the target 'breaks' (toy_target:BREAKS), which an installed package adds, failed"
        assert f"{said}: ZeroDivisionError: of the target" in refused.stderr


@pytest.mark.parametrize(
    ("words", "done"),
    [
        (("show",), "shown"),
        (("run",), "run"),
        (("simulate", "--topology", "ring:3", "--size", "3MB"), "simulated"),
    ],
)
def test_a_target_without_thread_blocks_is_not_shown_run_or_simulated_and_says_so(
    taccl: Taccl, installed: None, words: tuple[str, ...], done: str
) -> None:
    assert taccl("synthesize", *RING, "-q", "--target", "listing", "-o", "ag.txt").exit_code == 0
    refused = taccl(words[0], "ag.txt", *words[1:])
    assert refused.exit_code == 2
    assert refused.stderr.startswith(
        f"error: ag.txt: a file for the target 'listing' (a plain list of sends) cannot be {done}: "
        "it does not say what each rank does\n"
    )


def test_a_target_with_thread_blocks_is_shown_run_and_simulated_as_msccl_xml_is(
    taccl: Taccl, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path_factory.mktemp("site"), monkeypatch, "SPELLED")
    assert taccl("synthesize", *RING, "-q", "-o", "same").exit_code == 0
    original = Path("same").read_bytes()
    on_ring = ("--topology", "ring:3", "--size", "3MB")
    for words in (("show",), ("show", *on_ring), ("simulate", *on_ring), ("run", "--json")):
        reported = []
        for content in (original, b"spelled " + original.hex().encode()):
            Path("same").write_bytes(content)
            done = taccl(words[0], "same", *words[1:])
            assert done.exit_code == 0, done.stderr
            reported.append(re.sub(r'"wall_s": [\d.e-]+', "", done.stdout))
        assert reported[0] == reported[1]


@pytest.mark.parametrize("command", ["bound", "explain"])
def test_the_target_of_a_problem_is_asked_for_as_synthesize_does(
    taccl: Taccl, installed: None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = []

    def inputs(request: Request) -> Inputs:
        heard.append(inputs_of(request).max_group)
        return inputs_of(request)

    monkeypatch.setattr("taccl.api.inputs_of", inputs)
    monkeypatch.setattr("taccl.analysis.explained.reasons.inputs_of", inputs)
    requested = (command, "--topology", "ring:3", "--size", "3MB")
    for target in ((), ("--target", "rccl"), ("--target", "listing")):
        done = taccl(*requested, *target)
        assert done.exit_code == 0, done.stderr
    assert heard == [71, find_target("rccl").max_group, 2]
    refused = taccl(*requested, "--target", "nccl")
    assert (refused.exit_code, "listing" in refused.stderr) == (2, True)
    assert offered(command, "r") == ["rccl", "rccl-trees", "rccl-rings"]

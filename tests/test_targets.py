"""Targets are values: those that are built in, and one from outside through the API and the command line."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result
from toy_target import LISTING, Listing, read, write

from taccl import make_collective, make_problem, synthesize
from taccl.backend.limits import LIMITS
from taccl.backend.target import Lowered, LoweringOptions
from taccl.backend.targets import DEFAULT_TARGET, TARGETS, find_target, target_of_file
from taccl.cli.main import main
from taccl.cli.registry import Registry
from taccl.errors import CollectiveError, TacclError, VerificationError
from taccl.schedule import Schedule

#: Ends as soon as there is a schedule.
QUICK = {"engine": "greedy", "gap": 0.9, "time_limit": 10.0}
RING = ("--topology", "ring:3", "--size", "3MB", "--engine", "greedy", "--gap", "0.9", "--time-limit", "10")
REGISTRY = Registry(targets=(*TARGETS, LISTING))

Taccl = Callable[..., Result]


@pytest.fixture
def taccl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Taccl:
    """The command of a program that knows one target more."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> Result:
        return CliRunner().invoke(main, [str(word) for word in words], obj=REGISTRY)

    return run


def test_the_runtimes_of_msccl_xml_are_four_targets_with_the_limits_of_those_that_they_are_for() -> None:
    assert [target.name for target in TARGETS] == ["all", *LIMITS]
    assert DEFAULT_TARGET.runtimes == tuple(LIMITS)
    for target in TARGETS:
        assert target.limits.max_group == min(LIMITS[runtime].count for runtime in target.runtimes)
        assert target.limits.instances == min(LIMITS[runtime].channels for runtime in target.runtimes)


def test_a_target_is_found_by_its_name_by_itself_and_by_the_ending_of_a_file() -> None:
    assert find_target("rccl").runtimes == ("rccl",)
    assert find_target(LISTING) is LISTING
    assert target_of_file("a.TXT", REGISTRY.targets) is LISTING
    assert (
        target_of_file("a.xml", REGISTRY.targets) is target_of_file("a", REGISTRY.targets) is DEFAULT_TARGET
    )


@pytest.mark.parametrize("name", ["nccl", "", 3, None, ["all"]])
def test_an_unknown_target_is_refused_with_those_that_there_are(name: object) -> None:
    with pytest.raises(CollectiveError, match="unknown target") as caught:
        find_target(name)  # type: ignore[arg-type]
    assert caught.value.hint == "one of all, msccl, executor, rccl"


def test_a_problem_takes_the_most_chunks_of_a_send_from_its_target() -> None:
    given = {"topology": "ring:3", "size": "3MB"}
    assert make_problem("allgather", **given).problem.max_group == 71  # type: ignore[arg-type]
    assert make_problem("allgather", target=LISTING, **given).problem.max_group == 2  # type: ignore[arg-type]
    unlimited = replace(LISTING, limits=replace(LISTING.limits, max_group=None))
    assert make_problem("allgather", target=unlimited, **given).problem.max_group == 2**31  # type: ignore[arg-type]


def test_a_schedule_for_a_target_from_outside_keeps_its_limits_and_is_verified_by_it(tmp_path: Path) -> None:
    result = synthesize(
        "allgather", topology="ring:4", size="6KB", chunks=6, target=LISTING, engine="greedy", gap=0.3
    )  # type: ignore[arg-type]
    assert 1 < result.schedule.sends.count.max() <= 2
    (file,) = result.files
    assert (file.format, file.readers) == ("txt", ("eyes",))
    assert file.text.startswith("allgather 4 ranks, 6 chunks, root -\n")
    assert read(file.text, None) == file.program
    assert result.checked == ("schedule", "txt")
    assert "the schedule, and the TXT for eyes" in result.summary()
    assert result.write(tmp_path / "ag.txt") == (tmp_path / "ag.txt",)


def test_a_file_that_the_targets_own_verifier_refuses_is_never_handed_over() -> None:
    def forgets_the_last(schedule: Schedule, options: LoweringOptions) -> list[Lowered[Listing]]:
        (right,) = LISTING.lower(schedule, options)
        return [Lowered(replace(right.program, sends=right.program.sends[:-1]), right.readers)]

    careless = replace(LISTING, lower=forgets_the_last)
    with pytest.raises(VerificationError, match="the TXT made for this schedule fails") as caught:
        synthesize("allgather", topology="ring:3", size="3MB", target=careless, **QUICK)  # type: ignore[arg-type]
    assert "never gets chunk" in caught.value.findings[0]
    assert caught.value.kept is not None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topology": "ring:9", "size": "9MB"}, "9 ranks; a file for listing holds 8"),
        ({"topology": "ring:3", "size": "3MB", "protocol": "LL"}, "unknown protocol 'LL'"),
    ],
)
def test_what_a_target_cannot_hold_is_refused_before_any_search(
    given: dict[str, object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taccl.api.search", None)
    with pytest.raises(TacclError, match=said) as caught:
        synthesize("allgather", target=LISTING, **given)  # type: ignore[arg-type]
    assert (caught.value.exit_code, bool(caught.value.hint)) == (2, True)


def test_the_schedule_alone_needs_no_file() -> None:
    result = synthesize("allgather", topology="ring:9", size="9MB", target=LISTING, xml=False, **QUICK)  # type: ignore[arg-type]
    assert (result.files, result.problem.max_group) == ((), 2)


def test_the_command_line_makes_and_verifies_files_of_a_target_from_outside(taccl: Taccl) -> None:
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


def test_json_tells_the_files_of_any_target_and_xml_files_those_of_msccl_xml(taccl: Taccl) -> None:
    listed = json.loads(
        taccl("synthesize", *RING, "-q", "--target", "listing", "-o", "a.txt", "--json").stdout
    )
    assert (listed["target"], listed["checked"]) == ("listing", ["schedule", "txt"])
    assert listed["files"] == [{"path": "a.txt", "format": "txt", "readers": ["eyes"]}]
    assert (listed["xml"], listed["xml_files"]) == (None, [])
    plain = json.loads(taccl("synthesize", *RING, "-q", "-o", "a.xml", "--json").stdout)
    assert [each["format"] for each in plain["files"]] == ["xml"]
    assert (plain["target"], plain["xml"]) == ("all", "a.xml")


def test_help_completion_and_refusals_name_the_targets_of_the_registry(taccl: Taccl) -> None:
    assert "[all|msccl|executor|rccl|listing]" in " ".join(taccl("synthesize", "--help").stdout.split())
    refused = taccl("synthesize", *RING, "--target", "nccl")
    assert (refused.exit_code, "listing" in refused.stderr) == (2, True)
    for registry, expected in ((REGISTRY, ["listing"]), (Registry(), [])):
        shell = ShellComplete(main, {"obj": registry}, "taccl", "_TACCL_COMPLETE")
        offered = shell.get_completions(["synthesize", "--target"], "li")
        assert [item.value for item in offered] == expected


def test_without_a_registry_a_target_from_outside_is_unknown(tmp_path: Path) -> None:
    refused = CliRunner().invoke(main, ["synthesize", *RING, "--target", "listing"])
    assert refused.exit_code == 2
    assert "listing" in refused.stderr


def test_the_toy_reads_what_it_writes_and_knows_a_collective_only_by_its_placements() -> None:
    shift = make_collective("alltoall", 2, 1)
    result = synthesize(shift, topology="ring:2", size="2MB", target=LISTING, **QUICK)  # type: ignore[arg-type]
    assert read(write(result.files[0].program), None) == result.files[0].program

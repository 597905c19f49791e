"""Tuner files: all sizes have the library's own choice, and damaged files are found out."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl.analysis.baselines.nccl import choice, communicator_of, release_named
from taccl.cli.main import main
from taccl.deployment.tuners.choices import tuning_of
from taccl.deployment.tuners.found import is_tuner_file
from taccl.deployment.tuners.rules import DIALECTS
from taccl.deployment.tuners.verify import verify_tuner_file
from taccl.deployment.tuners.writer import to_csv
from taccl.errors import CollectiveError
from taccl.synthesis.inputs import choose_topology

TUNING = tuning_of(topology="dgx-h100", nodes=2)
COMMUNICATOR = communicator_of(choose_topology("dgx-h100", nodes=2))


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, [str(word) for word in words])
    return done.exit_code, done.output


@given(size=st.one_of(st.integers(1, 2**40), st.integers(1, 2**24)), place=st.integers(0, 4))
@settings(max_examples=200, deadline=None)
def test_each_size_has_the_librarys_own_choice(size: int, place: int) -> None:
    collective = ("allreduce", "allgather", "reducescatter", "broadcast", "reduce")[place]
    pick = choice(release_named("2.30"), COMMUNICATOR, collective, size).pick
    (rule,) = [
        each
        for each in TUNING.rules
        if each.collective == collective
        and each.least_bytes <= size
        and (each.most_bytes is None or size <= each.most_bytes)
    ]
    assert (rule.algorithm, rule.protocol) == (pick.algorithm, pick.protocol)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_written_is_right_for_its_ranks_and_no_others(dialect: str) -> None:
    text = to_csv(TUNING, dialect)
    assert is_tuner_file(text.encode())
    report = verify_tuner_file(text, ranks=16)
    assert (report.ok, report.warnings) == (True, ())
    assert not verify_tuner_file(text, ranks=24).ok


def test_rccl_has_no_rule_where_its_algorithm_is_not_known() -> None:
    assert {rule.collective for rule in tuning_of(topology="mi300x", nodes=2, library="rccl").rules} == {
        "allgather",
        "reducescatter",
    }
    with pytest.raises(CollectiveError, match="between nodes is not known"):
        tuning_of(["allreduce"], topology="mi300x", nodes=2, library="rccl")
    with pytest.raises(CollectiveError, match="no tuner file has a rule for alltoall"):
        tuning_of(["alltoall"], topology="dgx-h100", nodes=1)


def cell(place: int, change: Callable[[str], str]) -> Callable[[list[str], random.Random], list[str]]:
    """Damage of one cell of one rule."""

    def damage(lines: list[str], dice: random.Random) -> list[str]:
        at = dice.randrange(2, len(lines))
        cells = lines[at].split(",")
        cells[place] = change(cells[place])
        return [*lines[:at], ",".join(cells), *lines[at + 1 :]]

    return damage


#: What a plugin reads as something else, or as nothing -> how it is made, in the columns of NCCL's plugin.
DAMAGE: dict[str, Callable[[list[str], random.Random], list[str]]] = {
    "alltoall": cell(0, lambda _: "alltoall"),
    "a capital": cell(0, str.capitalize),
    "an algorithm": cell(3, lambda _: "nvlstree"),
    "a tree": cell(3, lambda word: "tree2"),
    "a protocol": cell(4, lambda word: word.upper()),
    "LL256": cell(4, lambda _: "ll256"),
    "no channels": cell(5, lambda _: "0"),
    "channels": cell(5, lambda _: "many"),
    "nodes": cell(6, lambda _: "3"),
    "no nodes": cell(6, lambda _: "0"),
    "ranks": cell(7, lambda _: "8"),
    "no number": cell(1, lambda number: f"{number}K"),
    "the wrong way round": cell(2, lambda _: "-5"),
    "a column more": cell(7, lambda number: f"{number},-1,-1,0,0"),
    "a column less": lambda lines, dice: [*lines[:-1], lines[-1].rsplit(",", 1)[0]],
    "a long line": cell(7, lambda number: number + " " * 250),
    "twice": lambda lines, dice: [*lines, dice.choice(lines[2:])],
    "four GB": lambda lines, dice: [line.replace(str(2**62), "4294967295") for line in lines],
    "nvls with ll": lambda lines, dice: [*lines[:2], "allreduce,0,1,nvls,ll,-1,2,16", *lines[2:]],
    "a tree of broadcast": lambda lines, dice: [*lines[:2], "broadcast,0,1,tree,ll,-1,2,16", *lines[2:]],
}
HARMLESS: dict[str, Callable[[list[str], random.Random], list[str]]] = {
    "in another order": lambda lines, dice: [*lines[:2], *dice.sample(lines[2:], len(lines) - 2)],
    "any ranks": lambda lines, dice: [*lines[:2], *(f"{x.rsplit(',', 2)[0]},-1,-1" for x in lines[2:])],
    "blank lines": lambda lines, dice: ["", *lines, "", "# the end"],
    "more columns": lambda lines, dice: [*lines[:2], *(f"{line},-1,-1" for line in lines[2:])],
    "a header": lambda lines, dice: [
        "collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks",
        *lines,
    ],
    "fewer rules": lambda lines, dice: lines[: dice.randint(3, len(lines))],
}


@given(what=st.sampled_from(sorted(DAMAGE)), seed=st.integers(0, 2**32))
@settings(max_examples=120, deadline=None)
def test_what_is_damaged_is_found(what: str, seed: int) -> None:
    lines = DAMAGE[what](to_csv(TUNING, "nccl").splitlines(), random.Random(seed))
    report = verify_tuner_file("\n".join(lines), ranks=16)
    assert not report.ok, lines
    assert all(finding.hint for finding in report.findings)


@given(what=st.sampled_from(sorted(HARMLESS)), seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_what_is_right_is_taken_whoever_wrote_it(what: str, seed: int) -> None:
    lines = HARMLESS[what](to_csv(TUNING, "nccl").splitlines(), random.Random(seed))
    assert is_tuner_file("\n".join(lines).encode())
    assert verify_tuner_file("\n".join(lines), ranks=16).ok


@pytest.mark.parametrize(
    ("sizes", "right"),
    [
        ("*", True),
        ("5", True),
        ("[0,10]", True),
        ("(,4)", True),
        ("(1,)", True),
        ("(2,1]", False),
        ("(1,2)", False),
        ("[1,2", False),
        ("[a,b]", False),
        ("", False),
        ("-1", False),
    ],
)
def test_the_intervals_of_ncclx(sizes: str, right: bool) -> None:
    first = "allgather,[0,10],ring,ll,-1,*,*\n"
    text = first + f"allreduce,{sizes},ring,ll,-1,2,8\n"
    assert verify_tuner_file(text).ok is right
    assert not verify_tuner_file(text.replace("ring,ll,-1,2", "rings,ll,-1,2")).ok


def test_a_hole_is_a_warning_with_its_first_size() -> None:
    text = "allreduce,0,99,ring,ll,-1,1,8\nallreduce,200,4611686018427387904,ring,simple,-1,1,8\n"
    report = verify_tuner_file(text)
    assert report.ok
    assert "no rule has calls of 100 bytes" in report.warnings[0].message


def test_the_command_writes_and_verify_reads(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    code, said = run("baseline", "rccl", "--topology", "mi300x", "--nodes", 1, "--tuner", "rccl", "-o", file)
    assert (code, "6 rules" in said) == (0, True)
    code, said = run("verify", file, "--ranks", 8, "--json")
    assert (code, '"rules": 6' in said) == (0, True)
    assert run("verify", file, "--target", "all")[0] == 2
    for words in (
        ("baseline", "rccl", "--topology", "mi300x", "--tuner", "nccl"),
        ("baseline", "nccl", "--topology", "dgx-h100", "--tuner", "nccl", "--size", "1MB"),
        ("baseline", "nccl", "--topology", "dgx-h100", "--tuner", "nccl", "--json"),
        ("baseline", "nccl", "--topology", "dgx-h100", "-o", file),
        ("baseline", "ring", "--topology", "dgx-h100", "--tuner", "nccl"),
    ):
        code, said = run(*words)
        assert (code, "error: " in said) == (2, True), said

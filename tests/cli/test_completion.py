"""What a shell is reported when somebody presses Tab."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete
from click.testing import CliRunner

from taccl.cli.main import main
from taccl.encoding.engines import registry
from taccl.model.collectives import COLLECTIVES
from taccl.sketch import published_sketches
from taccl.topologies import catalogue

MACHINES = [entry.name for entry in catalogue()]
SKETCHES = [sketch.name for sketch in published_sketches()]


def offered(*words: str) -> list[CompletionItem]:
    """The items for the last of some words."""
    return ShellComplete(main, {}, "taccl", "_TACCL_COMPLETE").get_completions(list(words[:-1]), words[-1])


def names(*words: str) -> list[str]:
    return [item.value for item in offered(*words) if item.type == "plain"]


def offers_files(*words: str) -> bool:
    return any(item.type == "file" for item in offered(*words))


def test_engines() -> None:
    assert names("synthesize", "--engine", "") == list(registry.names())
    assert names("synthesize", "--engine", "gr") == ["greedy"]
    assert not offers_files("synthesize", "--engine", "")


@pytest.mark.parametrize("command", ["synthesize", "bound", "explain"])
def test_collectives_and_files_of_custom_ones(command: str) -> None:
    assert names(command, "--collective", "") == list(COLLECTIVES)
    assert names(command, "--collective", "all") == [name for name in COLLECTIVES if name.startswith("all")]
    assert offers_files(command, "--collective", "my")


def test_pareto_takes_what_only_copies_or_only_sums() -> None:
    assert names("pareto", "--collective", "all") == ["allgather", "alltoall"]
    assert not offers_files("pareto", "--collective", "")


@pytest.mark.parametrize("words", [["synthesize", "--sketch"], ["show", "--sketch"], ["sketch", "show"]])
def test_sketches_with_what_they_are_for(words: list[str]) -> None:
    assert names(*words, "") == SKETCHES
    assert names(*words, "ndv2-sk") == [name for name in SKETCHES if name.startswith("ndv2-sk")]
    assert offers_files(*words, "mine.y")
    assert all(item.help for item in offered(*words, "") if item.type == "plain")


@pytest.mark.parametrize(
    "words",
    [
        ["bound", "--topology"],
        ["pareto", "--topology"],
        ["topology", "show"],
        ["sketch", "init"],
        ["sketch", "check", "mine.yaml", "--topology"],
    ],
)
def test_machines_with_what_they_are(words: list[str]) -> None:
    assert names(*words, "") == MACHINES
    assert names(*words, "ring") == ["ring:8", "ring-oneway:8"]
    assert offers_files(*words, "my")


def _parameters(
    command: click.Command, words: tuple[str, ...]
) -> list[tuple[tuple[str, ...], click.Parameter]]:
    if not isinstance(command, click.Group):
        return [(words, each) for each in command.params]
    ctx = click.Context(command)
    inner = [(name, command.get_command(ctx, name)) for name in command.list_commands(ctx)]
    return [each for name, found in inner if found is not None for each in _parameters(found, (*words, name))]


def test_every_option_that_takes_a_name_or_a_file_completes() -> None:
    """So that an option that is added later is not forgotten."""
    takes = [
        (words, each)
        for words, each in _parameters(main, ())
        if each.metavar in ("NAME|FILE", "FILE") or each.opts[0] in ("--engine", "--collective")
    ]
    assert len(takes) > 15
    silent = [
        (words, each.opts[0]) for words, each in takes if not each.shell_complete(click.Context(main), "")
    ]
    assert silent == []


@pytest.mark.parametrize("shell", [BashComplete, ZshComplete, FishComplete])
def test_each_shell_gets_a_script_and_answers(shell: type[ShellComplete]) -> None:
    source = CliRunner().invoke(main, [], prog_name="taccl", env={"_TACCL_COMPLETE": f"{shell.name}_source"})
    assert "taccl" in source.stdout
    words = "taccl topology show tor" if shell is not FishComplete else "taccl topology show"
    given = "3" if shell is not FishComplete else "tor"
    env = {"_TACCL_COMPLETE": f"{shell.name}_complete", "COMP_WORDS": words, "COMP_CWORD": given}
    answer = CliRunner().invoke(main, [], prog_name="taccl", env=env)
    assert "torus" in answer.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_keeps_the_names_beside_the_files(tmp_path: Path) -> None:
    """Its script forgets what came before an item for files, so that item has to be the first."""
    command = tmp_path / "taccl"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m taccl "$@"\n')
    command.chmod(0o755)
    typed = (
        'eval "$(_TACCL_COMPLETE=bash_source taccl)"; '
        "COMP_WORDS=(taccl bound --topology dgx2); COMP_CWORD=3; _taccl_completion taccl 2>/dev/null; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", typed], capture_output=True, text=True, env=env, check=True)
    assert done.stdout.split() == ["dgx2", "dgx2-teccl"]

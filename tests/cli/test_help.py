"""`--help`: commands in groups, options in sections, and nothing loaded for it."""

import subprocess
import sys

import click
import pytest

from taccl.cli.main import COMMANDS, main
from taccl.cli.sections import SECTIONS, Listed
from tests.cli.conftest import Taccl

HEAVY = {"numpy", "numba", "scipy", "pulp", "ortools", "z3", "networkx", "highspy", "rich", "yaml"}


def test_the_list_of_commands_loads_no_command() -> None:
    requested = (
        "import sys\n"
        "from taccl.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", requested], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "synthesize" in done.stdout
    assert not HEAVY & loaded
    assert {name for name in loaded if name.startswith("taccl.")} == {
        "taccl.cli",
        "taccl.cli.failures",
        "taccl.cli.main",
        "taccl.cli.sections",
        "taccl.cli.signals",
        "taccl.errors",
    }


def test_commands_stand_in_groups(taccl: Taccl) -> None:
    shown = taccl("--help").stdout
    begins = [shown.index(f"\n{group}:") for group in ("Make", "Check", "Look", "Machines")]
    assert begins == sorted(begins)
    assert all(f"\n  {command.name} " in shown for command in COMMANDS)


@pytest.mark.parametrize("listed", COMMANDS, ids=lambda listed: listed.name)
def test_every_listed_command_is_there(listed: Listed) -> None:
    with click.Context(main) as ctx:
        command = main.get_command(ctx, listed.name)
    assert command is not None and command.name == listed.name


def test_many_options_stand_in_sections(taccl: Taccl) -> None:
    shown = taccl("synthesize", "--help").stdout
    begins = [shown.index(f"\n{section}:") for section in SECTIONS]
    assert begins == sorted(begins)
    what, search, file, output = (
        shown[begin:end] for begin, end in zip(begins, [*begins[1:], None], strict=True)
    )
    assert "--size" in what and "--time-limit" in search and "--protocol" in file and "--json" in output
    assert "--protocol" not in what and "\nOptions:" not in shown


def test_few_options_are_one_list(taccl: Taccl) -> None:
    shown = taccl("verify", "--help").stdout
    assert "\nOptions:" in shown and "\nOutput:" not in shown

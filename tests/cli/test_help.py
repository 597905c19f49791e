"""`--help`: commands in groups, options in sections, and nothing loaded for it."""

import subprocess
import sys

import click
import pytest

from taccl.cli.main import COMMANDS, main
from taccl.cli.sections import SECTIONS, Listed
from tests.cli.conftest import Taccl

HEAVY = {"numpy", "numba", "scipy", "pulp", "ortools", "z3", "networkx", "highspy", "rich", "yaml"}


def loaded_by(*words: str, shows: str) -> set[str]:
    """The modules that a command loads, in a process of its own."""
    requested = (
        "import sys\n"
        "from taccl.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as done: assert not done.code\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", requested, *words], capture_output=True, text=True, check=True
    )
    assert shows in done.stdout
    return set(done.stderr.split())


def test_the_list_of_commands_loads_no_command() -> None:
    loaded = loaded_by("--help", shows="synthesize")
    assert not HEAVY & loaded
    assert {name for name in loaded if name.startswith("taccl.")} == {
        "taccl.cli",
        "taccl.cli.failures",
        "taccl.cli.main",
        "taccl.cli.sections",
        "taccl.cli.signals",
        "taccl.errors",
    }


def test_the_list_of_machines_loads_no_solver_and_no_engine() -> None:
    loaded = loaded_by("topology", "list", shows="ndv2")
    assert not {"numba", "pulp", "ortools", "z3", "highspy", "taccl.analysis", "taccl.encoding"} & loaded


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

"""Loops are made ahead of time: an engine that has any is run once, unless it is ready, and so is a file."""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from multiprocessing import get_context
from multiprocessing.connection import Connection
from signal import SIGKILL

import pytest
from click.testing import CliRunner
from numba.core.dispatcher import Dispatcher

from taccl.backend.simulate.executor.executed import is_compiled
from taccl.cli.compile import compile_engines, compile_stages
from taccl.cli.main import main
from taccl.encoding.core import scheduler
from taccl.encoding.core.update import Update
from taccl.encoding.engines.registry import ENGINES, engine_named
from taccl.support import jit as compiled
from taccl.support.jit import Loop, is_at_hand


@pytest.mark.parametrize("was_there", [True, False])
def test_an_engine_runs_once_if_its_loops_are_not_at_hand(
    monkeypatch: pytest.MonkeyPatch, was_there: bool
) -> None:
    ran = list[str]()

    def run(*_: object) -> Iterator[Update]:
        ran.append("routes")
        yield Update("routes")

    toy = replace(engine_named("routes"), run=run, is_compiled=lambda: was_there)
    monkeypatch.setattr("taccl.cli.compile.ENGINES", (engine_named("greedy"), toy))
    assert list(compile_engines()) == [("routes", was_there)]
    assert ran == ([] if was_there else ["routes"] * 3)


def test_every_engine_with_loops_serves_a_problem_that_compiles_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = list[str]()
    with_loops = [each for each in ENGINES if each.is_compiled is not None]

    def runs(name: str) -> object:
        return lambda *_: iter([ran.append(name)])

    toys = tuple(replace(each, run=runs(each.name), is_compiled=lambda: False) for each in with_loops)
    monkeypatch.setattr("taccl.cli.compile.ENGINES", toys)
    assert [name for name, _ in compile_engines()] == ["streams", "routes", "combining"]
    assert ran == ["streams"] + ["routes"] * 3 + ["combining"] * 2


@pytest.mark.parametrize("is_killed", [False, True])
def test_engines_are_compiled_in_a_process_of_their_own_and_here_if_it_is_killed(
    monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    def sent(answers: Connection) -> None:
        if is_killed:
            os.kill(os.getpid(), SIGKILL)
        answers.send([("routes", False, 2.0)])

    lazy = replace(engine_named("routes"), is_compiled=lambda: False)
    monkeypatch.setattr("taccl.cli.compile.ENGINES", (lazy,))
    monkeypatch.setattr("taccl.cli.compile.get_context", lambda _: get_context("fork"))
    monkeypatch.setattr("taccl.cli.compile._send_engines", sent)
    monkeypatch.setattr("taccl.cli.compile.compile_engines", lambda: iter([("routes here", False)]))
    monkeypatch.setattr("taccl.cli.compile.compile_stages", lambda: iter([("bounds", True)]))
    ran = CliRunner().invoke(main, ["compile"])
    assert ran.exit_code == 0, ran.output
    lines = ran.output.splitlines()
    assert lines[0].split() == ["bounds", "cached"]
    assert lines[1].startswith("routes here" if is_killed else "routes       compiled in 2.0 s")


def test_every_loop_of_a_file_is_compiled_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = set[Loop]()

    def machine_code(loop: Loop) -> Callable[..., object]:
        ran.add(loop)
        return loop.function

    monkeypatch.setattr(Loop, "_machine_code", property(machine_code))
    monkeypatch.setattr(Loop, "is_compiled", True)
    monkeypatch.setattr(compiled, "is_at_hand", lambda function: "_clocks" not in function.__name__)
    stages = [
        ("greedy", True),
        ("bounds", True),
        ("lower", True),
        ("verify", False),
        ("simulate", True),
    ]  # verifying fills clocks
    done = list(compile_stages())
    assert done[:5] == stages
    assert [name for name, _ in done[5:]] == ["execute", "order"]
    assert is_compiled()
    scheduler.warm_up()  # what the engine of routes compiles
    rooms = [module for name, module in list(sys.modules.items()) if name.startswith("taccl.")]
    assert ran == {each for room in rooms for each in vars(room).values() if isinstance(each, Loop)}


def test_no_compiled_function_is_left_for_later() -> None:
    """What `@compiled` has made of functions is machine code once the command has been here."""
    for _ in chain(compile_engines(), compile_stages()):
        pass
    rooms = [module for name, module in list(sys.modules.items()) if name.startswith("taccl.")]
    functions = {each for room in rooms for each in vars(room).values() if isinstance(each, Dispatcher)}
    kept = {each for each in functions if each.stats.cache_path is not None}  # others are inlined
    assert {"_anneal", "_grow", "disseminated"} <= {each.__name__ for each in kept}
    assert not [each for each in kept if not is_at_hand(each)]

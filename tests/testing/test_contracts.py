"""The engines, bounds, targets and formats of the tree keep their promises, and those of toys, too."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import toy
import toy_bound
import toy_target

from taccl.backend.target import AnyTarget
from taccl.backend.targets.registry import TARGETS
from taccl.calibration.benchmarks import registry as benchmarks
from taccl.encoding.bounds import BOUNDS, Bound, Proof, View
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import Engine, Verdict
from taccl.encoding.engines.registry import ENGINES
from taccl.encoding.instance import Instance
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget
from taccl.support.reading import Format
from taccl.testing import (
    assert_valid_schedule,
    check_bound,
    check_engine,
    check_format,
    check_target,
    napkin_problems,
    napkin_schedules,
)
from taccl.topologies.importers.nodes import registry as nodes

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def schedules() -> tuple[Schedule, ...]:
    return tuple(napkin_schedules())


def samples(formats: tuple[Format, ...], folder: Path) -> list[tuple[Format, Path]]:
    """For each format the largest file of our data that it knows."""
    files = sorted(
        (path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size
    )
    texts = [
        (path, path.read_text(encoding="utf-8")) for path in files if path.suffix in (".txt", ".xml", ".json")
    ]
    found = []
    for each in formats:
        known = [path for path, text in texts if each.looks_like(text) and "unsupported" not in path.name]
        found += [(each, path) for path in known[-1:]]
    return found


def test_napkins_have_valid_schedules(schedules: tuple[Schedule, ...]) -> None:
    assert len(schedules) == len(list(napkin_problems()))
    for schedule in schedules:
        assert_valid_schedule(schedule)


@pytest.mark.parametrize("engine", [*ENGINES, toy.ENGINE], ids=lambda engine: engine.name)
def test_an_engine_keeps_its_promises(engine: Engine) -> None:
    check_engine(engine)


@pytest.mark.parametrize("bound", [*BOUNDS, toy_bound.BOUND], ids=lambda bound: bound.name)
def test_a_bound_keeps_its_promises(bound: Bound, schedules: tuple[Schedule, ...]) -> None:
    check_bound(bound, schedules)


@pytest.mark.parametrize(
    "target", [*TARGETS, toy_target.LISTING, toy_target.SPELLED], ids=lambda target: target.name
)
def test_a_target_keeps_its_promises(target: AnyTarget, schedules: tuple[Schedule, ...]) -> None:
    check_target(target, schedules)


@pytest.mark.parametrize(
    ("format_", "file"),
    [*samples(nodes.FORMATS, DATA / "dumps"), *samples(benchmarks.FORMATS, DATA / "measurements")],
    ids=lambda value: value.name,
)
def test_a_format_keeps_its_promises(format_: Format, file: Path) -> None:
    check_format(format_, file.read_text(encoding="utf-8"))


def test_an_engine_that_yields_a_wrong_schedule_is_found() -> None:
    def run(
        instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
    ) -> Iterator[Update]:
        for update in toy.straight(instance, options, budget, incumbent):
            assert update.schedule is not None
            yield Update("wrong", update.schedule.take(update.schedule.chunk > 0))

    with pytest.raises(AssertionError, match=r"engine straight on .* not valid"):
        check_engine(replace(toy.ENGINE, run=run))


def test_an_engine_that_declines_without_a_reason_is_found() -> None:
    class Mute(Verdict):
        def __bool__(self) -> bool:
            return False

    with pytest.raises(AssertionError, match="declines without a reason"):
        check_engine(replace(toy.ENGINE, serves=lambda _: Mute()))


def test_a_bound_above_a_schedule_is_found(schedules: tuple[Schedule, ...]) -> None:
    def prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
        yield toy_bound.BOUND.proof(1e9, "wishful thinking")

    with pytest.raises(AssertionError, match=r"proves 1000000000\.000 us"):
        check_bound(replace(toy_bound.BOUND, prove=prove), schedules)


def test_a_target_that_takes_half_a_file_is_found(schedules: tuple[Schedule, ...]) -> None:
    whole: dict[str, object] = {}

    def read(content: str | bytes, path: str | None) -> object:
        text = content if isinstance(content, str) else content.decode()
        if text[:20] not in whole:
            whole[text[:20]] = toy_target.LISTING.read(content, path)
        return whole[text[:20]]

    with pytest.raises(AssertionError, match="half of a file"):
        check_target(replace(toy_target.LISTING, read=read), schedules)


def test_a_format_that_breaks_down_over_a_part_is_found() -> None:
    def read(text: str, path: str | None) -> object:
        return text.splitlines()[2]

    bad = Format("lines", "a text of three lines", bool, read)
    check_text = "one\ntwo\nthree\n"
    with pytest.raises(AssertionError, match="format lines breaks down over the first 1 lines"):
        check_format(bad, check_text)

"""Too little memory: what was found is kept, and where nothing was, that is said at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from small_problems import problem, ring

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import Engine
from taccl.encoding.engines.registry import engine_named
from taccl.encoding.portfolio import contenders
from taccl.errors import NoScheduleInTime, OutOfMemory
from taccl.synthesis.autotune.tune import bound_for_any_chunks
from taccl.synthesis.search import search

SMALL = problem(ring(4), "allgather")


def lacks_memory(*asked: Any) -> Any:
    raise MemoryError("Unable to allocate 25.7 MiB")


def lacking() -> Engine:
    """An engine that has no room for its first schedule."""

    def run(*asked: Any) -> Iterator[Update]:
        yield from lacks_memory()

    return replace(engine_named("greedy"), name="large", run=run, at_once=run)


def opened_by(engines: list[Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contenders, "first_engines", lambda *asked: iter(engines))


def test_where_no_engine_has_room_for_a_schedule_memory_is_what_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened_by([lacking()], monkeypatch)
    monkeypatch.setattr("taccl.encoding.portfolio.solve.why_impossible", lambda _: pytest.fail("not asked"))
    with pytest.raises(OutOfMemory, match="large failed: MemoryError: Unable to allocate") as lacking_memory:
        search(SMALL, SearchOptions(effort=100))
    # Whoever goes on without a schedule goes on without memory for one.
    assert isinstance(lacking_memory.value, NoScheduleInTime) and lacking_memory.value.exit_code == 2


def test_an_engine_that_needs_less_has_the_first_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    opened_by([lacking(), engine_named("greedy")], monkeypatch)
    found = search(SMALL, SearchOptions(effort=100))
    assert [failure.name for failure in found.failures] == ["large"]
    found.schedule.check()


def test_a_first_schedule_is_kept_without_the_bounds_that_lack_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("taccl.encoding.portfolio.alongside.quick_bound", lacks_memory)
    found = search(SMALL, SearchOptions(effort=100))
    found.schedule.check()
    assert "bound" in {failure.name for failure in found.failures}


def test_a_bound_for_any_number_of_chunks_is_left_out_without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bound_for_any_chunks(SMALL, 60.0).value_us > 0
    monkeypatch.setattr("taccl.synthesis.autotune.tune.any_chunks_bound", lacks_memory)
    assert bound_for_any_chunks(SMALL, 60.0).value_us == 0

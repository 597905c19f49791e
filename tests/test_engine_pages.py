"""docs/engines.md and the pages of docs/engines say what the registry and the stages say."""

import pytest
from engine_table import PAGE, page_of, table, table_of, with_table

from taccl.encoding.engines.engine import Engine
from taccl.encoding.engines.registry import ENGINES

WHOLE_ENGINES = [engine for engine in ENGINES if not engine.part_of]
PARTS = [engine for engine in ENGINES if engine.part_of]


def test_the_overview_has_the_table_of_what_auto_runs() -> None:
    in_page = table_of(PAGE.read_text(encoding="utf-8"))
    assert in_page == table(), "the stages have changed: python -m tests.engine_table writes the new table"


def test_writing_the_table_into_the_page_changes_nothing_else() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page) == page


@pytest.mark.parametrize("engine", WHOLE_ENGINES, ids=lambda engine: engine.name)
def test_every_engine_has_a_page_and_a_row_of_the_overview(engine: Engine) -> None:
    title, *_ = (PAGE.parent / "engines" / page_of(engine.name)).read_text(encoding="utf-8").splitlines()
    assert title.endswith(f"`{engine.name}`")
    assert f"(engines/{page_of(engine.name)}) | `{engine.name}` |" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("engine", PARTS, ids=lambda engine: engine.name)
def test_the_page_of_an_engine_names_its_parts(engine: Engine) -> None:
    assert f"`{engine.name}`" in (PAGE.parent / "engines" / page_of(engine.part_of)).read_text("utf-8")

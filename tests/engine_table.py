"""The table of docs/engines.md that says what each engine is for, and what it needs.

It is made of the rows of the registry (`taccl.encoding.engines.registry`):

    python -m tests.engine_table        writes it into the page
"""

from pathlib import Path

from taccl.encoding.engines.engine import Engine
from taccl.encoding.engines.registry import ENGINES

PAGE = Path(__file__).parents[1] / "docs" / "engines.md"
BEGIN, END = "<!-- table: engines -->", "<!-- end of table -->"

_HEADER = (
    "| engine | works on | role | in `auto` it needs, next to serving the problem |\n|---|---|---|---|\n"
)


def table() -> str:
    """A row for each engine, in the order of the registry."""
    return _HEADER + "".join(_row(engine) for engine in ENGINES)


def _row(engine: Engine) -> str:
    works_on = "the problem" if engine.takes_sums else "each phase"
    needs = "; ".join(need.words for need in engine.needs) or "-"
    return f"| {_linked(engine)} | {works_on} | {engine.role} | {needs} |\n"


def _linked(engine: Engine) -> str:
    """The name of an engine with a link to its page, or to that of the engine that it is a part of."""
    return f"[{engine.name}](engines/{page_of(engine.part_of or engine.name)})"


def page_of(name: str) -> str:
    """The page of an engine, in docs/engines."""
    return f"{name}.md"


def table_of(page: str) -> str:
    """The table as a page has it."""
    return page.partition(BEGIN + "\n")[2].partition(END)[0]


def with_table(page: str) -> str:
    """The page with the table of today."""
    before, rest = page.split(BEGIN + "\n")
    return f"{before}{BEGIN}\n{table()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

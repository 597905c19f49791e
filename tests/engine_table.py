"""The table of docs/engines.md that says which condition runs which engine for how long.

It is made of the rows that `auto` walks (`taccl.encoding.portfolio.stages`):

    python -m tests.engine_table        writes it into the page
"""

from pathlib import Path

from taccl.encoding.engines.registry import ENGINES
from taccl.encoding.portfolio.stages import EACH_PHASE, PHASES, WHOLE, Stage

PAGE = Path(__file__).parents[1] / "docs" / "engines.md"
BEGIN, END = "<!-- table: engines -->", "<!-- end of table -->"

_HEADER = "| for | engine | runs where | part of the time that is left |\n|---|---|---|---|\n"


def table() -> str:
    """Both tables of stages as one, the rows for each phase in the place where they run."""
    rows = []
    for stage in WHOLE:
        rows.append(_row("the problem", stage))
        if stage.engine == PHASES:
            rows += [_row("each phase", row) for row in EACH_PHASE]
    return _HEADER + "".join(rows)


def _row(part: str, stage: Stage) -> str:
    return f"| {part} | {_linked(stage.engine)} | {stage.condition} | {stage.share.in_words} |\n"


def _linked(name: str) -> str:
    """The name of an engine with a link to its page, or to that of the engine that it is a part of."""
    if name == PHASES:
        return f"the next rows, for each [phase](engines/{page_of(PHASES)})"
    engine = next(engine for engine in ENGINES if engine.name == name)
    return f"[{name}](engines/{page_of(engine.part_of or engine.name)})"


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

"""The table of docs/bounds.md that lists all bounds, made of the registry.

python tests/bounds_table.py        writes it into the page
"""

from pathlib import Path

from taccl.encoding.bounds import BOUNDS, Bound

PAGE = Path(__file__).parents[1] / "docs" / "bounds.md"
BEGIN, END = "<!-- table: bounds -->", "<!-- end of table -->"

_HEADER = (
    "| `kind` | why no schedule is faster | what would move it | knows | quick | any chunks |\n"
    "|---|---|---|---|---|---|\n"
)


def table() -> str:
    """A row for each bound, in the order in which they are requested."""
    return _HEADER + "".join(_row(bound) for bound in BOUNDS)


def _row(bound: Bound) -> str:
    features = ", ".join(sorted(bound.features)).replace("_", " ")
    quick, any_chunks = ("yes" if each else "" for each in (bound.is_quick, bound.has_any_chunks))
    return f"| `{bound.name}` | {bound.about} | {bound.remedy} | {features} | {quick} | {any_chunks} |\n"


def table_of(page: str) -> str:
    """The table as a page has it."""
    return page.split(BEGIN + "\n", maxsplit=1)[1].split(END, maxsplit=1)[0]


def with_table(page: str) -> str:
    """The page with the table of today."""
    before, rest = page.split(BEGIN + "\n", maxsplit=1)
    return f"{before}{BEGIN}\n{table()}{END}{rest.split(END, maxsplit=1)[1]}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

"""One report for all results: figures and rows, as JSON values, as a data frame, and as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from taccl.support.notebook import data_frame, html_table
from taccl.support.schemas import SchemaName, stamped

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Table:
    """What people read: a title, and cells; without a header the first cell of a row says what the row is."""

    title: str
    cells: Sequence[Sequence[object]]
    header: Sequence[str] = ()

    def __str__(self) -> str:
        return "\n".join([self.title, *aligned([self.header, *self.cells] if self.header else self.cells)])


def aligned(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Lines whose columns are as wide as their widest cell; all rows have as many cells."""
    cells = [tuple(map(str, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


@dataclass(frozen=True)
class Report:
    """What a result says.

    Parameters
    ----------
    schema : of its JSON.
    figures : plain values that JSON can hold; their names carry units.
    columns, rows : of the data frame; the rows have plain values by these names, and may have more.
    table : for people.
    """

    schema: SchemaName
    figures: Mapping[str, object]
    columns: Sequence[str]
    rows: Sequence[Mapping[str, object]]
    table: Table


class Reported:
    """A result whose values, text, data frame and HTML come of one report."""

    __slots__ = ()

    def report(self) -> Report:
        """All that the result says, as figures and rows."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, object]:
        """What the command prints with `--json`: plain values, in units by their keys."""
        report = self.report()
        return stamped(report.schema, report.figures)

    def to_pandas(self) -> DataFrame:
        """The rows as a pandas.DataFrame.

        Raises
        ------
        TacclError : pandas is not installed.
        """
        report = self.report()
        return data_frame({name: [row[name] for row in report.rows] for name in report.columns})

    def __str__(self) -> str:
        return str(self.report().table)

    def _repr_html_(self) -> str:
        table = self.report().table
        return html_table(table.title, table.header, table.cells)

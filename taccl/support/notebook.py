"""What a notebook shows of a result: small tables as HTML, data frames, and axes to draw on.

pandas and matplotlib are loaded when they are requested, and a user who has not installed them is reported
so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from taccl.errors import TacclError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

#: Inches: of the page, of a lane, around the lanes.
_WIDTH, _LANE, _AROUND = 9.0, 0.22, 1.4
_LOWEST, _HIGHEST = 2.5, 16.0


def html_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A line and a table, everything escaped. Without a header, the first cell of a row is its title."""
    shown = []
    for row in rows:
        cells = [escape(str(cell)).replace("\n", "<br>") for cell in row]
        if not header:
            shown.append(f"<tr><th>{cells[0]}</th>" + "".join(f"<td>{cell}</td>" for cell in cells[1:]))
        else:
            shown.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells))
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    top = f"<thead><tr>{head}</tr></thead>" if header else ""
    body = "".join(f"{row}</tr>" for row in shown)
    return f"<p>{escape(title)}</p><table>{top}<tbody>{body}</tbody></table>"


def data_frame(columns: Mapping[str, Any]) -> DataFrame:
    """The columns as a pandas.DataFrame.

    Raises
    ------
    TacclError : pandas is not installed.
    """
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise TacclError(f"to_pandas needs pandas: {error}", hint="pip install pandas") from None
    return DataFrame(dict(columns))


def new_axes(lanes: int) -> Axes:
    """The axes of a new figure, as high as this many lanes need.

    Raises
    ------
    TacclError : matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise TacclError(f"plot needs matplotlib: {error}", hint="pip install 'taccl[plot]'") from None
    height = min(max(_AROUND + _LANE * lanes, _LOWEST), _HIGHEST)
    axes: Axes = pyplot.subplots(figsize=(_WIDTH, height), layout="constrained")[1]
    return axes

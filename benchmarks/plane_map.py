"""The heat map of a plane of gaps: collectives are panels, machines rows, and sizes columns."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

_CELL_W, _CELL_H, _LEFT, _TOP, _GAP = 34, 18, 110, 34, 22
#: From no gap to a gap of one half and more.
_GREEN, _YELLOW, _RED = (63, 145, 96), (246, 214, 110), (196, 66, 58)
_WORST = 0.5


def draw(cells: Sequence[tuple[str, str, str, float]], sizes: Sequence[str], path: Path) -> None:
    """Write an SVG.

    Parameters
    ----------
    cells : collective, machine, size and gap of each, in the order in which panels and rows are to stand.
    sizes : the columns, smallest first.
    """
    panels = list(dict.fromkeys(collective for collective, _, _, _ in cells))
    machines = list(dict.fromkeys(machine for _, machine, _, _ in cells))
    gaps = {(collective, machine, size): gap for collective, machine, size, gap in cells}
    height = _TOP + len(machines) * _CELL_H + _GAP
    parts = []
    for number, panel in enumerate(panels):
        top = number * height
        parts.append(_text(_LEFT, top + 14, panel, "start", bold=True))
        parts += [
            _text(_LEFT + (column + 0.5) * _CELL_W, top + _TOP - 5, size, "middle")
            for column, size in enumerate(sizes)
        ]
        for row, machine in enumerate(machines):
            y = top + _TOP + row * _CELL_H
            parts.append(_text(_LEFT - 6, y + 13, machine, "end"))
            for column, size in enumerate(sizes):
                gap = gaps.get((panel, machine, size))
                if gap is not None:
                    parts.append(_square(_LEFT + column * _CELL_W, y, gap))
    width = _LEFT + len(sizes) * _CELL_W + 10
    style = "<style>text{font:11px sans-serif}</style>"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{len(panels) * height}">'
    path.write_text(
        "\n".join([head, style, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""])
    )


def _square(x: float, y: float, gap: float) -> str:
    color = "rgb({},{},{})".format(*_color(gap))
    box = f'<rect x="{x}" y="{y}" width="{_CELL_W - 1}" height="{_CELL_H - 1}" fill="{color}"/>'
    return box + _text(x + _CELL_W / 2, y + 13, f"{100 * gap:.0f}", "middle")


def _color(gap: float) -> tuple[int, int, int]:
    part = min(1.0, gap / _WORST) * 2
    low, high, part = (_GREEN, _YELLOW, part) if part <= 1 else (_YELLOW, _RED, part - 1)
    red, green, blue = (round(one + part * (two - one)) for one, two in zip(low, high, strict=True))
    return red, green, blue


def _text(x: float, y: float, text: str, anchor: str, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'

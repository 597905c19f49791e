"""Run the cells of a notebook as Jupyter would, without Jupyter: one namespace, and what each cell shows.

`python tests/notebook_cells.py examples/explore.ipynb` puts what the cells show now into the notebook.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: A cell, and its outputs as a notebook keeps them.
Shown = tuple[dict[str, Any], list[dict[str, Any]]]


def shown(notebook: dict[str, Any]) -> Iterator[Shown]:
    """Each cell of code with what it shows if it runs after those before it, in the folder of the process."""
    names: dict[str, Any] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, start=1):
        yield cell, list(_outputs("".join(cell["source"]), names, f"cell {number}"))


def _outputs(source: str, names: dict[str, Any], place: str) -> Iterator[dict[str, Any]]:
    """What a cell prints, and its last expression."""
    tree, printed, last = ast.parse(source, place), io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        end = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, place, "exec"), names)
        if end is not None:
            last = eval(compile(ast.Expression(end.value), place, "eval"), names)
    if printed.getvalue():
        yield {"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())}
    if last is not None:
        yield {"data": _as_data(last), "metadata": {}, "output_type": "display_data"}


def _as_data(value: Any) -> dict[str, Any]:
    if hasattr(value, "get_figure"):
        picture = io.BytesIO()
        value.get_figure(root=True).savefig(picture, format="png", dpi=60)
        return {"image/png": base64.b64encode(picture.getvalue()).decode()}
    if hasattr(value, "_repr_html_"):
        return {"text/html": _lines(value._repr_html_())}
    return {"text/plain": _lines(repr(value))}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    os.environ["MPLBACKEND"] = "Agg"
    path = Path(sys.argv[1]).resolve()
    read = json.loads(path.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for count, (cell, outputs) in enumerate(shown(read), start=1):
            cell |= {"execution_count": count, "outputs": outputs}
        os.chdir(path.parent)
    path.write_text(json.dumps(read, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")

"""How much each rank sends to each other in an AlltoAll, from a CSV or NumPy file, or as an array."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from taccl.errors import CollectiveError, FileError, UnitError
from taccl.model import units
from taccl.model.collective import IntArray
from taccl.support.arguments import shown
from taccl.support.reading import utf8_text

#: A table of a thousand ranks has a million sizes.
_MOST_BYTES = 2**28

#: How names of such files end.
SUFFIXES_OF_SIZES = (".csv", ".npy")

AnySizes = str | Path | np.ndarray[Any, Any]


def size_matrix(sizes: AnySizes, num_ranks: int | None) -> IntArray:
    """Bytes from each rank (row) to each (column), shape (num_ranks, num_ranks).

    Parameters
    ----------
    sizes : a `.npy` file or an array of whole numbers; or a CSV file, in which a size may also be text such
        as 4MB, and lines that begin with # say nothing.
    num_ranks : None: as many as it has rows.

    Raises
    ------
    FileError, CollectiveError : it cannot be read, or is no such table; with the line that is wrong.
    """
    if isinstance(sizes, np.ndarray):
        table, path = sizes, None
    elif isinstance(sizes, str | Path):
        path = str(sizes)
        table = _from_npy(path) if path.endswith(".npy") else _from_csv(path)
    else:
        raise CollectiveError(f"sizes are a file or an array, not {shown(sizes)}", hint="--sizes sizes.csv")
    num_ranks = len(table) if num_ranks is None and table.ndim else num_ranks
    if table.shape != (num_ranks, num_ranks):
        raise CollectiveError(
            f"sizes of shape {table.shape} are not {num_ranks} x {num_ranks}, one for each two ranks",
            path=path,
            hint="row i, column j: bytes from rank i to rank j",
        )
    if table.dtype.kind == "f" and np.isfinite(table).all() and (table == np.floor(table)).all():
        table = table.astype(np.int64)
    return table


def _from_npy(path: str) -> np.ndarray[Any, Any]:
    try:
        table = np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise FileError("no such file", path=path) from error
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror or error}", path=path) from error
    except (ValueError, EOFError) as error:
        # NumPy's own words advise to allow pickles, and there is no such option here.
        message = "it is no array of numbers of NumPy"
        raise FileError(message, path=path, hint="np.save(path, sizes)") from error
    if not isinstance(table, np.ndarray):
        raise FileError("it has several arrays", path=path, hint="np.save(path, sizes)")
    return table


def _from_csv(path: str) -> IntArray:
    rows: list[list[int]] = []
    for line, text in enumerate(utf8_text(path, _MOST_BYTES, CollectiveError).splitlines(), start=1):
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        cells = next(csv.reader([text]))
        if rows and len(cells) != len(rows[0]):
            raise CollectiveError(
                f"this row has {len(cells)} sizes, and those before it {len(rows[0])}", path=path, line=line
            )
        rows.append([_size(cell, column, path, line) for column, cell in enumerate(cells)])
    if not rows:
        raise CollectiveError("it has no sizes", path=path, hint="a row for each rank")
    return np.array(rows, dtype=np.int64)


def _size(cell: str, column: int, path: str, line: int) -> int:
    if cell.strip() in ("", "0"):
        return 0
    try:
        return units.parse_size(cell)
    except UnitError as error:
        hint = error.hint or "bytes, or text such as 64KB; 0 where nothing is sent"
        raise CollectiveError(f"column {column}: {error.message}", path=path, line=line, hint=hint) from error

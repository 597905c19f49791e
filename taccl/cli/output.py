"""What the commands share: showing tables and JSON on standard output, and asking for outputs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from taccl.files import ensure_writable


def show_json(value: object) -> None:
    """One JSON object on standard output."""
    click.echo(json.dumps(value, indent=2, allow_nan=False))


def show_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as their widest entry, the last one as it is."""
    table = [tuple(header), *(tuple(map(str, row)) for row in rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    for row in table:
        click.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def claim_outputs(outputs: Sequence[Path | None], inputs: Sequence[str | Path | None]) -> None:
    """Fail before any work is done if an output cannot be written or would overwrite an input.

    Raises
    ------
    click.UsageError : two outputs are the same file, or one of them is an input.
    FileError : an output cannot be written.
    """
    claimed = [path for path in outputs if path is not None]
    taken = {Path(path).resolve(): "an input" for path in inputs if path is not None}
    for path in claimed:
        if path.resolve() in taken:
            raise click.UsageError(f"{path} is both an output and {taken[path.resolve()]}")
        taken[path.resolve()] = "another output"
        ensure_writable(path)

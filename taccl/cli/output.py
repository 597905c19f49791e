"""What the commands share: showing tables and JSON, and writing to files or to standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import click

from taccl.cli.failures import as_file_error
from taccl.errors import FileError, TacclError, is_out_of_memory, out_of_memory
from taccl.support.files import ensure_writable, write_atomically
from taccl.support.report import Reported, aligned

#: As the name of an output: standard output. A file of this name is `./-`.
STDOUT = Path("-")

_Done = TypeVar("_Done")


def show_json(value: object) -> None:
    """One JSON object on standard output."""
    click.echo(json.dumps(value, indent=2, allow_nan=False))


def show_reported(found: Reported, *, as_json: bool) -> None:
    """What has a report as JSON, or as a table under its title."""
    if as_json:
        show_json(found.to_dict())
        return
    table = found.report().table
    click.echo(table.title)
    show_table(list(table.header), [list(row) for row in table.cells])


def show_table(header: Sequence[str], rows: Iterable[Sequence[object]], *, err: bool = False) -> None:
    """Columns as wide as their widest entry, the last one as it is; `err`: on standard error."""
    for line in aligned([header, *rows]):
        click.echo(line, err=err)


def claim_outputs(
    outputs: Sequence[Path | None], inputs: Sequence[str | Path | None], *, as_json: bool = False
) -> bool:
    """Fail before any work is done if an output cannot be written or would overwrite an input.

    Parameters
    ----------
    as_json : whether a report as JSON goes to standard output.

    Returns
    -------
    Whether an output takes standard output, so that what is said goes to standard error.

    Raises
    ------
    click.UsageError : two outputs are the same file, or one of them is an input, or two want standard output.
    FileError : an output cannot be written.
    """
    claimed = [path for path in outputs if path is not None]
    if claimed.count(STDOUT) > 1:
        raise click.UsageError("only one output can go to standard output")
    taken = {_identity(path): "an input" for path in inputs if path is not None}
    for path in claimed:
        if path == STDOUT and as_json:
            raise click.UsageError("an output - and --json both want standard output; give a file")
        if _identity(path) in taken:
            raise click.UsageError(f"{path} is both an output and {taken[_identity(path)]}")
        taken[_identity(path)] = "another output"
        if path != STDOUT:
            ensure_writable(path)
        elif sys.stdout is None:
            raise FileError("is closed", path="standard output")
    return STDOUT in claimed


def _identity(path: str | Path) -> Path:
    """The same for two names of one file; standard output and names that lead nowhere are themselves."""
    path = Path(path)
    if path == STDOUT:
        return path
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):  # no working directory, a null character, a loop of links
        return path


def write_output(path: Path, text: str | bytes) -> None:
    """Put `text` into a file, whole or not at all, or onto standard output.

    Raises
    ------
    FileError : it cannot be written.
    """
    if path != STDOUT:
        write_atomically(path, text)
        return
    try:
        click.echo(text, nl=False)
    except OSError as failure:
        raise as_file_error(failure) from failure


def output_name(path: Path) -> str:
    """How messages call an output."""
    return "standard output" if path == STDOUT else str(path)


class Attempts:
    """Things done one after the other, also after one that failed: what was found is kept where it can be."""

    def __init__(self) -> None:
        self._failures: list[TacclError | OSError] = []

    def of(self, step: Callable[[], _Done]) -> _Done | None:
        """Do it; what it returns, or None if it failed."""
        try:
            return step()
        except (TacclError, OSError) as failure:
            self._failures.append(failure)
        except Exception as failure:
            if not is_out_of_memory(failure):
                raise
            self._failures.append(out_of_memory())
        return None

    @property
    def failures(self) -> tuple[TacclError | OSError, ...]:
        """What failed so far."""
        return tuple(self._failures)

    def end(self) -> None:
        """Raise the first failure, if there was one."""
        if self._failures:
            raise self._failures[0]

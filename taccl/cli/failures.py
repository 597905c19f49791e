"""What becomes of errors: a line on standard error and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from taccl.errors import FileError, FileInterrupted, TacclError, is_out_of_memory, out_of_memory

#: What a shell gives a process that was ended by Ctrl-C.
_INTERRUPTED = 130
_NOTHING_WRITTEN = "interrupted; nothing was written"

#: Set to anything, a bug shows its traceback.
_DEBUG = "TACCL_DEBUG"


@contextmanager
def in_one_line() -> Iterator[None]:
    """Errors that pass here are reported, and end as `click.exceptions.Exit` with the code of their kind.

    Raises
    ------
    click.exceptions.Exit : in place of any error.
    """
    try:
        yield
    except TacclError as error:
        _complain(str(error))
        raise click.exceptions.Exit(error.exit_code) from error
    except click.UsageError as error:
        where = "taccl" if error.ctx is None else error.ctx.command_path
        _complain(f"{error.format_message()}\n  try: {where} --help")
        raise click.exceptions.Exit(error.exit_code) from error
    except KeyboardInterrupt as interrupt:
        written = interrupt.message if isinstance(interrupt, FileInterrupted) else _NOTHING_WRITTEN
        _complain(written)
        raise click.exceptions.Exit(_INTERRUPTED) from interrupt
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except Exception as failure:
        if is_out_of_memory(failure):
            lacked = out_of_memory()
            _complain(str(lacked))
            raise click.exceptions.Exit(lacked.exit_code) from failure
        if isinstance(failure, OSError):
            refused = as_file_error(failure)
            _complain(str(refused))
            raise click.exceptions.Exit(refused.exit_code) from failure
        if os.environ.get(_DEBUG):
            raise
        _complain(
            f"internal error ({type(failure).__name__}: {failure}): this is a bug in taccl\n"
            f"  try: report it with this command and its files; {_DEBUG}=1 shows where it happened"
        )
        raise click.exceptions.Exit(1) from failure


def as_file_error(failure: OSError) -> FileError:
    """What the system refused, in a sentence. Commands only print without naming a file."""
    if failure.filename is not None:
        return FileError(f"the system says: {failure.strerror}", path=os.fsdecode(failure.filename))
    if failure.errno == errno.ENOENT and not _has_working_directory():
        return FileError("the working directory is gone", hint="cd to one that is there")
    _forget_what_is_left()
    if failure.errno == errno.EPIPE:
        return FileError("was closed before all was written (as by `| head`)", path="standard output")
    return FileError(f"cannot be written: {failure.strerror or failure}", path="standard output")


def _has_working_directory() -> bool:
    try:
        return bool(Path.cwd())
    except OSError:
        return False


def _forget_what_is_left() -> None:
    """What standard output still holds must not fail once more when Python ends."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _complain(message: str) -> None:
    with suppress(OSError):
        click.echo(f"error: {message}", err=True)

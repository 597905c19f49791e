"""A folder written whole: into one that is new or empty, and nothing of it where that fails."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from taccl.errors import FileError
from taccl.support.files import write_atomically


def check_folder(folder: Path) -> None:
    """Raise FileError unless the folder is empty or can be made: nothing in it is ever overwritten."""
    try:
        if folder.exists() and not folder.is_dir():
            raise FileError("is a file, not a folder", path=folder)
        if folder.is_dir() and any(folder.iterdir()):
            raise FileError("the folder is not empty", path=folder, hint="name a new one")
        if not folder.exists() and not folder.absolute().parent.is_dir():
            raise FileError(f"the folder {folder.absolute().parent} does not exist", path=folder)
    except (OSError, ValueError) as failure:
        raise _cannot_write(folder, failure) from failure


def write_folder(folder: Path, texts: Mapping[str, str | bytes]) -> None:
    """Put texts into files of these names in a new or empty folder; if one fails, all are removed again.

    Raises
    ------
    FileError : as `check_folder`, or the disk is full.
    """
    check_folder(folder)
    is_new = not folder.exists()
    try:
        folder.mkdir(exist_ok=True)
    except OSError as failure:
        raise _cannot_write(folder, failure) from failure
    written: list[Path] = []
    try:
        for name, text in texts.items():
            write_atomically(folder / name, text)
            written.append(folder / name)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        if is_new:
            folder.rmdir()
        raise


def _cannot_write(folder: Path, failure: Exception) -> FileError:
    return FileError(f"cannot be written: {getattr(failure, 'strerror', None) or failure}", path=folder)

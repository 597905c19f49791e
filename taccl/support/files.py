"""Reading files, and writing files and folders whole, or not at all; nothing that was there is destroyed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from taccl.errors import FileError
from taccl.support.reading import bytes_of


def ensure_writable(path: str | Path) -> None:
    """Fail now, and not after minutes of solving, if `path` cannot be written.

    Raises
    ------
    FileError : the path is a folder, its folder does not exist, or nothing can be created there.
    """
    path = Path(path)
    try:
        if _is_device(path):
            with path.open("a"):
                return
        _temporary_next_to(_file_behind(path)).unlink()
    except (OSError, ValueError, RuntimeError) as failure:
        raise _cannot_write(path, failure) from failure


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Put `content` (a text in UTF-8) into `path`: all of it, or nothing at all.

    It goes to a temporary file in the same folder, which is then renamed; whatever happens,
    `path` holds either what it held before or the whole of `content`. A symbolic link stays one: the
    file that it leads to is replaced. Devices and pipes such as /dev/null are written to directly.

    Raises
    ------
    FileError : as `ensure_writable`, or the disk is full.
    """
    write_pieces(path, [content.encode("utf-8") if isinstance(content, str) else content])


def write_pieces(path: str | Path, pieces: Iterable[bytes]) -> None:
    """The same of content that comes piece by piece, and is never there as a whole.

    Whatever goes wrong while the pieces are made, nothing is left of them.
    """
    path = Path(path)
    try:
        if _is_device(path):
            with path.open("wb") as file:
                file.writelines(pieces)
        else:
            _replace(_file_behind(path), pieces)
    except (OSError, ValueError, RuntimeError) as failure:
        raise _cannot_write(path, failure) from failure


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

    A name may have folders in it, which are made.

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
    folders = dict.fromkeys(folder / parent for name in texts for parent in list(Path(name).parents)[-2::-1])
    try:
        for each in folders:
            each.mkdir(exist_ok=True)
        for name, text in texts.items():
            write_atomically(folder / name, text)
            written.append(folder / name)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        for each in [*reversed(folders), *([folder] if is_new else [])]:
            if each.is_dir():
                each.rmdir()
        raise


#: No file that is for a runtime has more bytes.
MOST_BYTES = 2**28


def read_bytes(path: str | Path) -> bytes:
    """What is in a file, up to `MOST_BYTES` and one more: so an endless one is seen to be too large.

    Raises
    ------
    FileError : no such file, a folder, no permission.
    """
    return bytes_of(path, MOST_BYTES + 1)


def _replace(target: Path, pieces: Iterable[bytes]) -> None:
    temporary = _temporary_next_to(target)
    try:
        with temporary.open("wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(_permissions(target))
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _is_device(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def _file_behind(path: Path) -> Path:
    """Where the file really is; a folder is refused, and so is a folder that is not there."""
    target = path.resolve()
    if target.is_dir():
        raise FileError("this is a folder, not a file", path=path, hint="name a file in it")
    if target.parent.exists() and not target.parent.is_dir():
        raise FileError(f"{target.parent} is a file, not a folder", path=path)
    if not target.parent.is_dir():
        raise FileError(f"the folder {target.parent} does not exist", path=path, hint="create it first")
    return target


def _temporary_next_to(target: Path) -> Path:
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".tmp", dir=target.parent)
    os.close(handle)
    return Path(name)


def _permissions(path: Path) -> int:
    """Those of the file that is replaced, or what a new file gets under the user's umask."""
    if path.exists():
        return path.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _cannot_write(path: Path, failure: Exception) -> FileError:
    return FileError(f"cannot be written: {getattr(failure, 'strerror', None) or failure}", path=path)

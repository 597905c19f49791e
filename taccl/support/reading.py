"""What is in a file: its bytes, its text, and which of several formats that text is in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from taccl.errors import FileError, TacclError
from taccl.support.arguments import file_path

_Reader = TypeVar("_Reader", bound=Callable[..., Any])


@dataclass(frozen=True)
class Format(Generic[_Reader]):
    """What a tool prints, of many that are read equivalent.

    Parameters
    ----------
    name : how results call it: `nccl-topology`.
    summary : for people: how it is made.
    looks_like : whether a text is one, or was meant to be. Damage in it is for `read` to tell.
    read : the text, its path for messages, and perhaps more -> what it tells; or a TacclError, with the line.
    begins : whether a text next to other tools' holds one; None: as `looks_like` says.
    """

    name: str
    summary: str
    looks_like: Callable[[str], bool]
    read: _Reader
    begins: Callable[[str], bool] | None = None


def recognized(
    text: str,
    path: str | None,
    formats: Sequence[Format[_Reader]],
    error: type[TacclError],
    unknown: str,
) -> Format[_Reader]:
    """The first of `formats` that a text looks like; `unknown` is how a text in none of them is refused.

    Raises
    ------
    error : it is empty, or in no format.
    """
    for each in formats:
        if each.looks_like(text):
            return each
    raise error(
        unknown if text.strip() else "this is empty",
        path=path,
        line=1,
        hint="one of: " + "; ".join(each.summary for each in formats),
    )


def bytes_of(path: str | Path, most: int = -1) -> bytes:
    """What is in a file, or its first `most` bytes.

    Raises
    ------
    FileError : no such file, a directory, no permission.
    """
    path = file_path(path)
    try:
        with path.open("rb") as file:
            return file.read(most)
    except FileNotFoundError:
        raise FileError("there is no such file", path=path) from None
    except IsADirectoryError:
        raise FileError("this is a directory, not a file", path=path) from None
    except (OSError, ValueError) as fault:  # ValueError: a null character in the path
        raise FileError(f"cannot be read: {getattr(fault, 'strerror', None) or fault}", path=path) from None


def bytes_within(path: str | Path, most: int, error: type[TacclError], *, hint: str | None = None) -> bytes:
    """All that is in a file.

    Raises
    ------
    FileError : as `bytes_of`.
    error : there are more than `most` bytes; `hint` is what to do then.
    """
    data = bytes_of(path, most + 1)
    if len(data) > most:
        raise error(f"the file is larger than {most // 2**20} MB", path=path, hint=hint)
    return data


def utf8_text(path: str | Path, most: int, error: type[TacclError]) -> str:
    """The text in a file, in UTF-8 with or without its mark.

    Raises
    ------
    FileError : as `bytes_of`.
    error : there are more than `most` bytes, or they are not UTF-8, with the line.
    """
    data = bytes_within(path, most, error)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        raise error("the file is not text in UTF-8", path=path, line=line) from None


def any_text(path: str | Path, most: int, error: type[TacclError], *, hint: str | None = None) -> str:
    """The text in a file, whatever terminal or tool wrote it: UTF-8 or UTF-16, with or without its mark.

    Bytes that are no text become U+FFFD, since pastes are broken in places that do not matter.

    Raises
    ------
    FileError, error : as `bytes_within`.
    """
    data = bytes_within(path, most, error, hint=hint)
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return data.decode(encoding, errors="replace")

"""What was searched for once is not searched for again: answers in the user's cache folder, by content.

A key is made of everything that an answer depends on: the machine, the sketch, the request, the options and
the program itself. Every entry is a file that is written whole or not at all, so several runs may share the
folder, and one that is killed leaves nothing half done.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import taccl
from taccl.analysis.exploration.answer import Answer
from taccl.support.files import write_atomically

#: The variable that names another folder.
VARIABLE = "TACCL_CACHE"
_SUFFIX = ".json"


def cache_folder() -> Path:
    """Where answers are kept: what TACCL_CACHE says, else `taccl` in the folder for caches of this user."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "taccl"


@dataclass(frozen=True)
class Cache:
    """Answers in a folder.

    `folder` : is made when something is kept; None: nothing is kept.
    """

    folder: Path | None

    def get(self, key: str) -> Answer | None:
        """The answer of that key, with its schedule checked; None: there is none that can be read."""
        if self.folder is None:
            return None
        try:
            text = (self.folder / (key + _SUFFIX)).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        return Answer.from_text(text)

    def put(self, key: str, text: str) -> None:
        """Keep the text of an answer.

        Raises
        ------
        FileError : it cannot be written.
        """
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self.folder / (key + _SUFFIX), text)

    def clear(self) -> int:
        """Remove all answers; returns how many. One that another run writes meanwhile may stay.

        Raises
        ------
        OSError : one cannot be removed.
        """
        found = list(self.files())
        for path in found:
            path.unlink(missing_ok=True)
        return len(found)

    def files(self) -> Iterator[Path]:
        """The files of all answers."""
        if self.folder is not None and self.folder.is_dir():
            yield from sorted(self.folder.glob("*" + _SUFFIX))


def key_of(content: Mapping[str, object]) -> str:
    """A key for an answer that depends on nothing but this content and the program.

    `content` : plain values, as JSON can hold them.
    """
    text = json.dumps({"program": _program(), **content}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@cache
def _program() -> str:
    """The version, and a digest of the sources: their names, sizes and times. A process has one program."""
    root = Path(taccl.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        stat = path.stat()
        digest.update(f"{path.relative_to(root)} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return f"{taccl.__version__} {digest.hexdigest()}"

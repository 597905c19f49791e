"""A file that a schedule became: its text and what is known of it. It knows targets, and no search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from taccl.backend.target import AnyTarget


@dataclass(frozen=True)
class OutputFile:
    """The text of a file, the program that it spells, and the runtimes of its target that it is verified for.

    `program` is whatever the target lowers to; of MSCCL-XML, a `taccl.backend.program.Program`.
    """

    text: str
    program: Any
    readers: tuple[str, ...]
    target: AnyTarget

    @property
    def format(self) -> str:
        """The kind of file in a word: `xml`."""
        return self.target.format

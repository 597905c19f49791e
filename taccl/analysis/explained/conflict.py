"""What a conflict is: something that cannot be, and the lines that cannot all hold if it is to be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from taccl.errors import InfeasibleError
from taccl.model.problem import Statement


def short_place(said: Statement) -> str:
    """`file:line`, where a file with its whole path, as published sketches have, is named without it."""
    if said.path is None or not Path(said.path).is_absolute():
        return said.place
    return replace(said, path=Path(said.path).name).place


@dataclass(frozen=True)
class Line:
    """A line of a conflict, and what would be if it alone were left out."""

    said: Statement
    without: str = ""


@dataclass(frozen=True)
class Conflict:
    """Something that cannot be, and why.

    Parameters
    ----------
    what : what cannot be, as a sentence without a full stop.
    lines : what the user said that together makes it so; empty if no line is to blame, or if it could not
        be stated which.
    is_minimal : whether it is proved that it could be without any one of `lines`.
    minimal_means : what is so without any one of the lines, if they are minimal.
    machine : why the machine alone makes it so, where it does.
    demands : how many demands of the collective are cut off by these lines; 0 where it is not about demands.
    images : how many more are cut off by what these lines become under the sketch's symmetries.
    exit_code : of the error that `taccl synthesize` ends with.
    """

    what: str
    lines: tuple[Line, ...] = ()
    is_minimal: bool = False
    minimal_means: str = ""
    machine: str = ""
    demands: int = 0
    images: int = 0
    exit_code: int = InfeasibleError.exit_code

    @property
    def in_order(self) -> tuple[Line, ...]:
        """The lines in the order of the file, those of no file last."""
        return tuple(sorted(self.lines, key=lambda line: (line.said.line is None, line.said.line or 0)))

    def text(self) -> str:
        """For people: what, the lines with their places, and whether they are minimal."""
        if self.machine:
            return f"{self.what}\n  no line is to blame: {self.machine}"
        if not self.lines:
            return f"{self.what}\n  which lines are to blame is not known"
        places = [short_place(line.said) for line in self.in_order]
        width = max(map(len, places))
        shown = [self.what + ", because of " + ("this line:" if len(self.lines) == 1 else "these together:")]
        for place, line in zip(places, self.in_order, strict=True):
            at = f"{place:<{width}}  " if width else ""
            shown.append(
                f"  {at}{line.said.text}" + (f"\n  {'':{len(at)}}{line.without}" if line.without else "")
            )
        if self.is_minimal:
            each = "without any one of them" if len(self.lines) > 1 else "without it"
            shown.append(f"minimal: {each}, {self.minimal_means}")
        else:
            shown.append("not proved minimal: fewer of them may be to blame")
        return "\n".join(shown)

    def figures(self) -> dict[str, object]:
        """All of it as plain values that JSON can hold."""
        return {
            "what": self.what,
            "lines": [
                {
                    "path": line.said.path,
                    "line": line.said.line,
                    "text": line.said.text,
                    "without": line.without or None,
                }
                for line in self.in_order
            ],
            "minimal": self.is_minimal,
            "machine": self.machine or None,
            "demands": self.demands,
            "images": self.images,
        }

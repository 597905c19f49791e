"""What a conflict is: something that cannot be, and the lines that cannot all hold if it is to be."""

from __future__ import annotations

from dataclasses import dataclass

from taccl.errors import InfeasibleError
from taccl.problem import Statement


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
        be told which.
    is_minimal : whether it is proved that it could be without any one of `lines`.
    minimal_means : what `is_minimal` says here, as a sentence without a full stop.
    machine : why the machine alone makes it so, where it does.
    demands : how many demands of the collective are cut off by these lines; 0 where it is not about demands.
    exit_code : of the error that `taccl synthesize` ends with.
    """

    what: str
    lines: tuple[Line, ...] = ()
    is_minimal: bool = False
    minimal_means: str = ""
    machine: str = ""
    demands: int = 0
    exit_code: int = InfeasibleError.exit_code

    def text(self) -> str:
        """For people: what, the lines with their places, and whether they are minimal."""
        if self.machine:
            return f"{self.what}\n  no line is to blame: {self.machine}"
        if not self.lines:
            return f"{self.what}\n  which lines are to blame could not be told in time"
        width = max(len(line.said.place) for line in self.lines)
        shown = [self.what + ", because of " + ("this line:" if len(self.lines) == 1 else "these together:")]
        for line in self.lines:
            place = f"{line.said.place:<{width}}  " if width else ""
            shown.append(f"  {place}{line.said.text}" + (f" ({line.without})" if line.without else ""))
        shown.append(
            f"minimal: {self.minimal_means}"
            if self.is_minimal
            else "not proved minimal in the time given: fewer of them may be to blame"
        )
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
                for line in self.lines
            ],
            "minimal": self.is_minimal,
            "machine": self.machine or None,
            "demands": self.demands,
        }

"""What a file claims about its schedule, and what is proved of it here."""

from __future__ import annotations

from dataclasses import replace

from taccl.encoding.bounds import Proof, lower_bound
from taccl.encoding.symmetry.check import is_automorphism
from taccl.model.problem import Problem
from taccl.model.schedule import SavedSchedule
from taccl.model.tolerance import is_above

#: Seconds for proving again what a file claims; programs that take longer say nothing.
_AGAIN_S = 5.0
#: So much of a file's reason for its bound is reported.
_SHOWN = 60


def prove_again(saved: SavedSchedule, time_limit_s: float = _AGAIN_S) -> tuple[Proof, tuple[str, ...]]:
    """What is proved here about every schedule of the problem in a file, whatever the file claims.

    Returns
    -------
    The largest bound, and a note if the file claims a larger one. An engine may have proved that; showing a
    file proves it not again, so it stays a claim.
    """
    proved = lower_bound(believed(saved.schedule.problem), time_limit_s)
    return proved, claim_notes(saved, proved)


def claim_notes(saved: SavedSchedule, proved: Proof) -> tuple[str, ...]:
    """A sentence if the file claims a larger bound than is proved; nothing otherwise."""
    if not is_above(saved.lower_bound_us, proved.value_us):
        return ()
    words = "".join(letter if letter.isprintable() else " " for letter in saved.bound_source)
    why = words if len(words) <= _SHOWN else f"{words[:_SHOWN]}..."
    return (f"the file claims a bound of {saved.lower_bound_us:.2f} us ({why!r}), which is not proved here",)


def believed(problem: Problem) -> Problem:
    """The problem without symmetries that are none: bounds rely on them, and a file can say anything."""
    return replace(
        problem, symmetry=tuple(each for each in problem.symmetry if is_automorphism(problem, each))
    )

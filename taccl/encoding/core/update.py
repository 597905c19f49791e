"""What engines yield: better schedules and better bounds, as they come."""

from __future__ import annotations

from dataclasses import dataclass

from taccl.model.schedule import Schedule


@dataclass(frozen=True)
class Update:
    """News from an engine: a better schedule, a better bound, or both; or a note.

    `lower_bound_us` holds for every schedule of the problem, not only for this one; 0 says nothing.
    `bound_source` says in a few words where it comes from. `note` is a fact about the last schedule
    that is no bound, in a sentence for the user.
    """

    stage: str
    schedule: Schedule | None = None
    lower_bound_us: float = 0.0
    bound_source: str = ""
    note: str = ""

"""What an engine finds, checked; and what tests of several engines say of it."""

from collections.abc import Iterable

from taccl.encoding.core.update import Update
from taccl.encoding.instance import Instance
from taccl.model.schedule import Schedule


def checked(updates: Iterable[Update]) -> list[Schedule]:
    """The schedules in the order in which they were found, each of them valid."""
    found = [update.schedule for update in updates if update.schedule is not None]
    for schedule in found:
        schedule.check()
    return found


def comes_within(updates: Iterable[Update], most_us: float) -> bool:
    """Whether some schedule takes no longer; each is checked, and nothing is looked for after that one."""
    for update in updates:
        if update.schedule is not None:
            update.schedule.check()
            if update.schedule.makespan_us <= most_us:
                return True
    return False


def checked_gain(schedule: Schedule, better: Schedule | None) -> Schedule | None:
    """What became of a schedule, if anything did: valid, faster, and of the same transfers."""
    if better is not None:
        better.check()
        cells = [sorted(zip(s.chunk.tolist(), s.link.tolist(), strict=True)) for s in (schedule, better)]
        assert cells[0] == cells[1], "the same transfers"
        assert better.makespan_us < schedule.makespan_us
    return better


def assert_keeps_its_symmetry(schedule: Schedule) -> None:
    """Whether each element of the problem's group moves the schedule onto itself."""
    turned = Instance(schedule.problem).group
    rows = sorted(zip(schedule.chunk, schedule.link, schedule.start_us, strict=True))
    for chunks, links in zip(turned.chunk_map, turned.link_map, strict=True):
        moved = zip(chunks[schedule.chunk], links[schedule.link], schedule.start_us, strict=True)
        assert sorted(moved) == rows


def assert_waits_for_no_compiler(updates: Iterable[Update]) -> None:
    """An engine that would have to be compiled first, and has no time for it, says so and finds nothing."""
    (update,) = updates
    assert update.schedule is None
    assert "compiling" in update.note

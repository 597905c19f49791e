"""All targets, in one tuple; those of other packages join them by an entry point."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from taccl.backend.execute.files import run_program
from taccl.backend.execute.outcome import Execution
from taccl.backend.execute.requested import RunRequested
from taccl.backend.execute_plan.requested import run_plan
from taccl.backend.plan import ExecutionPlan
from taccl.backend.program import Program
from taccl.backend.target import AnyTarget, Target
from taccl.backend.targets import msccl_xml, mscclpp
from taccl.errors import CollectiveError, TacclError
from taccl.support.arguments import shown
from taccl.support.plugins import Note, added

#: The group of entry points under which other packages add theirs.
GROUP = "taccl.targets"

#: The first is what is meant where nothing is said.
TARGETS: tuple[AnyTarget, ...] = (*msccl_xml.TARGETS, *mscclpp.TARGETS)
DEFAULT_TARGET = TARGETS[0]


def all_targets(note: Note | None = None) -> tuple[AnyTarget, ...]:
    """The targets that come with taccl, then those of other packages; see `taccl.support.plugins.added`."""
    return (*TARGETS, *added(GROUP, Target, note))


def find_target(target: str | AnyTarget) -> AnyTarget:
    """The target of this name; a target is itself.

    Raises
    ------
    CollectiveError : there is none of that name.
    TacclError : there is none, but a target that another package adds cannot be loaded.
    """
    if isinstance(target, Target):
        return target
    faults: list[TacclError] = []
    for each in _one_by_one(lambda _, fault: faults.append(fault)):
        if isinstance(target, str) and target == each.name:
            return each
    if faults:
        raise faults[0]
    known = ", ".join(all_target.name for all_target in all_targets())
    raise CollectiveError(f"unknown target {shown(target)}", hint=f"one of {known}")


def _one_by_one(note: Note) -> Iterator[AnyTarget]:
    """All targets; other packages are loaded only where they are needed."""
    yield from TARGETS
    yield from added(GROUP, Target, note)


def target_of_file(path: str | Path, content: bytes | None = None) -> AnyTarget:
    """The first target that knows a file: by its content, then by the ending of its name; else the default.

    The targets that come with taccl are tried by content first, and others are loaded only where none of
    them knows it.

    Parameters
    ----------
    content : what is in the file; None: that is not known.

    Raises
    ------
    TacclError : none knows it, and a target that another package adds cannot be loaded.
    """
    ending = Path(path).suffix.lower()
    if content is not None:
        for each in TARGETS:
            if each.knows is not None and each.knows(content):
                return each
    faults: list[TacclError] = []
    for each in added(GROUP, Target, lambda _, fault: faults.append(fault)):
        if each.knows is None or content is None:
            is_known = ending == f".{each.format}"
        else:
            is_known = each.knows(content)
        if is_known:
            return each
    if faults and not any(ending == f".{each.format}" for each in TARGETS):
        raise faults[0]
    return DEFAULT_TARGET


def run_file(path: str | Path, content: bytes, requested: RunRequested) -> Iterator[Execution]:
    """Run what is in a file, by the target that knows it: an outcome for each way of calling it.

    Raises
    ------
    TacclError : the file cannot be understood or run, or the call does not fit it.
    """
    plan = plan_of_file(path, content, requested.deadline.look)
    if plan is not None:
        return run_plan(plan, requested)
    return run_program(program_of_file(path, content, "run"), requested)


def plan_of_file(
    path: str | Path, content: bytes, look: Callable[[], None] = lambda: None
) -> ExecutionPlan | None:
    """The one-sided plan in a file, by the target that knows it; None if its files spell none.

    `look` is called now and then, and may raise.

    Raises
    ------
    TacclError : it cannot be understood.
    """
    target = target_of_file(path, content)
    return None if target.as_plan is None else target.as_plan(content, str(path), look)


def program_of_file(path: str | Path, content: bytes, what_for: str) -> Program:
    """The two-sided program in a file, by the target that knows it.

    Parameters
    ----------
    what_for : what is to become of it, in a few words: `shown`, `simulated`, `run over MPI`.

    Raises
    ------
    TacclError : its target's files spell no such programs, or this one cannot be understood.
    """
    target = target_of_file(path, content)
    if target.as_program is None:
        raise TacclError(
            f"a file for {target.name} ({target.title}) cannot be {what_for}: "
            "it spells no program of sends and receives",
            path=path,
            hint="taccl verify checks it; show and simulate also take a schedule (synthesize --schedule)",
        )
    return target.as_program(content, str(path))

"""All targets, in one tuple; those of other packages join them by an entry point."""

from __future__ import annotations

from pathlib import Path

from taccl.arguments import shown
from taccl.backend.msccl_xml import target as msccl_xml
from taccl.backend.target import AnyTarget, Target
from taccl.errors import CollectiveError
from taccl.plugins import added

#: The group of entry points under which other packages add theirs.
GROUP = "taccl.targets"

#: The first is what is meant where nothing is said.
TARGETS: tuple[AnyTarget, ...] = (*msccl_xml.TARGETS,)
DEFAULT_TARGET = TARGETS[0]


def all_targets() -> tuple[AnyTarget, ...]:
    """The targets that come with taccl, then those of other packages."""
    return (*TARGETS, *added(GROUP, Target))


def find_target(target: str | AnyTarget) -> AnyTarget:
    """The target of this name; a target is itself.

    Raises
    ------
    CollectiveError : there is none of that name.
    """
    if isinstance(target, Target):
        return target
    for targets in (TARGETS, all_targets()):  # other packages are loaded only where they are needed
        for each in targets:
            if isinstance(target, str) and target == each.name:
                return each
    known = ", ".join(each.name for each in all_targets())
    raise CollectiveError(f"unknown target {shown(target)}", hint=f"one of {known}")


def target_of_file(path: str | Path) -> AnyTarget:
    """The first target for files with that ending; for one with another ending, the first of all."""
    ending = Path(path).suffix.lower()
    return next((each for each in all_targets() if ending == f".{each.format}"), DEFAULT_TARGET)

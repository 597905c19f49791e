"""All targets, in one tuple: another one is a package and a row here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from taccl.arguments import shown
from taccl.backend.msccl_xml import target as msccl_xml
from taccl.backend.target import AnyTarget, Target
from taccl.errors import CollectiveError

#: The first is what is meant where nothing is said.
TARGETS: tuple[AnyTarget, ...] = (*msccl_xml.TARGETS,)
DEFAULT_TARGET = TARGETS[0]


def find_target(target: str | AnyTarget, targets: Sequence[AnyTarget] = TARGETS) -> AnyTarget:
    """The target of this name; a target is itself.

    Raises
    ------
    CollectiveError : there is none of that name.
    """
    if isinstance(target, Target):
        return target
    for each in targets:
        if isinstance(target, str) and target == each.name:
            return each
    known = ", ".join(each.name for each in targets)
    raise CollectiveError(f"unknown target {shown(target)}", hint=f"one of {known}")


def target_of_file(path: str | Path, targets: Sequence[AnyTarget] = TARGETS) -> AnyTarget:
    """The first target for files with that ending; for one with another ending, the first of all."""
    ending = Path(path).suffix.lower()
    return next((each for each in targets if ending == f".{each.format}"), targets[0])

"""All targets, in one tuple; those of other packages join them by an entry point."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from taccl.backend.target import AnyTarget, Target
from taccl.backend.targets import flat_json, graphs, msccl_xml, mscclpp, placement
from taccl.backend.unfolded import Unfolded
from taccl.errors import CollectiveError, TacclError
from taccl.model.executor import RuntimeName
from taccl.model.schedule import begins_as_json, begins_as_schedule
from taccl.support.arguments import shown
from taccl.support.plugins import Note, added

#: The group of entry points under which other packages add theirs.
GROUP = "taccl.targets"

#: The first is what is meant where nothing is said.
TARGETS: tuple[AnyTarget, ...] = (
    *msccl_xml.TARGETS,
    *flat_json.TARGETS,
    *placement.TARGETS,
    *mscclpp.TARGETS,
    *graphs.TARGETS,
)
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


def target_executed_by(runtime: RuntimeName | None) -> AnyTarget:
    """The first target whose files this runtime executes, or that nobody's costs are known of."""
    return next(target for target in TARGETS if target.executed_by == runtime)


def _one_by_one(note: Note) -> Iterator[AnyTarget]:
    """All targets; other packages are loaded only where they are needed."""
    yield from TARGETS
    yield from added(GROUP, Target, note)


def known_target(content: bytes) -> AnyTarget | None:
    """The first of the targets that come with taccl that knows a file by its content; None: none does."""
    return next((each for each in TARGETS if each.knows is not None and each.knows(content)), None)


def target_of_file(path: str | Path, content: bytes | None = None) -> AnyTarget:
    """The first target that knows a file: by its content, then by the ending of its name; else the default.

    The targets that come with taccl are tried by content first, and others are loaded only where none of
    them knows it.

    Parameters
    ----------
    content : what is in the file; None: that is not known.

    Raises
    ------
    TacclError : none knows it, and it is a schedule or JSON, or a target that another package adds cannot be
        loaded.
    """
    ending = Path(path).suffix.lower()
    known = None if content is None else known_target(content)
    if known is not None:
        return known
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
    if content is not None:
        _refuse_other_files(path, content)
    return DEFAULT_TARGET


def _refuse_other_files(path: str | Path, content: bytes) -> None:
    """Refuse a saved schedule, and JSON that no target knows: the default would call both broken XML.

    Raises
    ------
    TacclError : saying which of them it is.
    """
    if begins_as_schedule(content):
        raise TacclError(
            "is a saved schedule, which no runtime executes",
            path=path,
            hint="taccl show and simulate take it; taccl synthesize -o writes the file of a target",
        )
    if begins_as_json(content):
        raise TacclError(
            "is JSON, but no file of any target, and no schedule",
            path=path,
            hint="a plan for MSCCL++ has name, collective and gpus; other files name their format",
        )


def unfold_file(
    path: str | Path, content: bytes, what_for: str, look: Callable[[], None] = lambda: None
) -> Unfolded:
    """What a file unfolds into, by the target that knows it.

    Parameters
    ----------
    what_for : what is to become of it, in a few words: `shown`, `run`.
    look : called now and then while the file is read, and may raise.

    Raises
    ------
    TacclError : its target's files are not executed here, or this one cannot be understood.
    """
    target = target_of_file(path, content)
    if target.parse is None or target.unfold is None:
        raise _closed(target, path, what_for)
    return target.unfold(target.parse(content, str(path), look))


def unfold_leniently(path: str | Path, content: bytes, what_for: str) -> Unfolded:
    """As `unfold_file`, of a file that may have faults, which `Unfolded.check` then names all.

    Raises
    ------
    TacclError : its target's files are not executed here, or this one is no such file at all.
    """
    target = target_of_file(path, content)
    if target.unfold_document is None:
        return unfold_file(path, content, what_for)
    return target.unfold_document(target.read(content, str(path)))


def _closed(target: AnyTarget, path: str | Path, what_for: str) -> TacclError:
    return TacclError(
        f"a file for {target.described} cannot be {what_for}: it does not say what each rank does",
        path=path,
        hint="taccl verify checks it; show and simulate also take a schedule (synthesize --schedule)",
    )

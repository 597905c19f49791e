"""Who reads a file: the runtimes that are requested about, and which of them run it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from taccl.backend.machine.report import Collector
from taccl.errors import CollectiveError, TacclError
from taccl.model.collective import Collective
from taccl.support.arguments import is_whole, shown

#: What `Facts.readers` says of a runtime that refuses a file, by when it does.
_WORDS = (("load", "no"), ("select", "never"), ("launch", "launch"))


def chosen_readers(targets: str | Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """Names of the runtimes requested about: `all`, one name, or several.

    Raises
    ------
    TacclError : a name that is no runtime, or none at all.
    """
    if not isinstance(targets, Iterable):
        raise TacclError(f"targets must be names of runtimes, not {shown(targets)}")
    requested = [targets] if isinstance(targets, str) else list(targets)
    wrong = [name for name in requested if name != "all" and name not in known]
    if wrong or not requested:
        message = f"unknown runtime {shown(wrong[0])}" if wrong else "no runtime is requested about"
        raise TacclError(message, hint=f"one of all, {', '.join(known)}")
    return tuple(name for name in known if name in requested or "all" in requested)


def check_requested(collective: object, root: object) -> None:
    """Refuse what is no collective, or cannot be the number of a rank.

    Raises
    ------
    CollectiveError : either.
    """
    if collective is not None and not isinstance(collective, Collective):
        raise CollectiveError(f"collective must be a Collective, not {shown(collective)}")
    if root is not None and not (is_whole(root) and abs(root) < 2**31):
        raise CollectiveError(f"a root is the number of a rank, not {shown(root)}")


def readers_of(collector: Collector, known: Sequence[str]) -> dict[str, str]:
    """Per runtime, whether it runs the file: `yes`, `no`, `never` or `launch`, as `Facts` says."""
    refusals = [(finding.refusal, finding.runtimes) for finding in collector.findings()]
    readers = {}
    for name in known:
        mine = {refusal for refusal, runtimes in refusals if not runtimes or name in runtimes}
        readers[name] = next((word for refusal, word in _WORDS if refusal in mine), "yes")
    return readers

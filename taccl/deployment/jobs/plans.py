"""Files that a job was given, and which of them a call takes.

A call takes a plan by what is the same on all ranks: the collective, its bytes as nccl-tests counts them, and
its root. What no plan is for is left to whoever was there before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from taccl.backend.machine.one_call import OneCall
from taccl.backend.rounds.lowering import MOST_OPERATIONS, lower_to_rounds
from taccl.backend.rounds.rounds import Rounds
from taccl.backend.targets.registry import unfold_file
from taccl.deployment.bundles.manifest import MANIFEST, Manifest, read_manifest
from taccl.errors import FileError, TacclError
from taccl.support.files import read_bytes


@dataclass(frozen=True)
class AsRounds:
    """How files become rounds; it has to be the same on all ranks.

    Parameters
    ----------
    most_operations : sends and receives of a rank that are posted at once.
    pipelined : rounds in the order of the file, each message waiting only for those that it needs, so that
        links of unlike speeds are busy at once; else the fewest rounds, one after the other.
    """

    most_operations: int = MOST_OPERATIONS
    pipelined: bool = False

    def rounds_of(self, call: OneCall, *, in_place: bool) -> Rounds:
        """Verified."""
        return lower_to_rounds(
            call, in_place=in_place, pipelined=self.pipelined, most_operations=self.most_operations
        )


@dataclass(frozen=True, eq=False)
class JobPlan:
    """A verified file, and the calls that take it.

    Parameters
    ----------
    name : of the file. call : what it does.
    collective, num_ranks, root : of the calls. min_bytes, max_bytes : their sizes; 0: no largest.
    """

    name: str
    call: OneCall = field(repr=False)
    min_bytes: int
    max_bytes: int
    how: AsRounds

    @property
    def collective(self) -> str:
        """Its plain name: `allreduce`."""
        return self.call.expectation.collective

    @property
    def num_ranks(self) -> int:
        """Of the group that it is for."""
        return len(self.call.expectation.input_size)

    @property
    def root(self) -> int | None:
        """Of a rooted collective."""
        return self.call.expectation.root

    def takes(self, collective: str, size_bytes: int, root: int | None) -> bool:
        """Whether it is for a call."""
        return (
            collective == self.collective
            and root == self.root
            and self.min_bytes <= size_bytes
            and (not self.max_bytes or size_bytes <= self.max_bytes)
        )

    @cached_property
    def in_place(self) -> Rounds:
        """For calls whose input and output are one memory."""
        return self.how.rounds_of(self.call, in_place=True)

    @cached_property
    def out_of_place(self) -> Rounds:
        """For all others."""
        return self.how.rounds_of(self.call, in_place=False)

    def rounds(self, *, in_place: bool) -> Rounds:
        """As it is called."""
        return self.in_place if in_place else self.out_of_place


@dataclass(frozen=True, eq=False)
class JobPlans:
    """All plans of a job.

    Parameters
    ----------
    plans : the first that takes a call is taken. digest : of the files; unlike ones decide unlike.
    """

    plans: tuple[JobPlan, ...]
    digest: str

    def plan_for(self, collective: str, size_bytes: int, root: int | None = None) -> JobPlan | None:
        """The plan that a call takes; None: there is none."""
        return next((plan for plan in self.plans if plan.takes(collective, size_bytes, root)), None)

    def check_ranks(self, num_ranks: int) -> None:
        """Refuse plans for groups of another size.

        Raises
        ------
        TacclError : one is.
        """
        for plan in self.plans:
            if plan.num_ranks != num_ranks:
                raise TacclError(
                    f"{plan.name} is for {plan.num_ranks} ranks, and this group has {num_ranks}",
                    hint="make a bundle for as many, or a group of its ranks (new_group(plans, ranks=..))",
                )


def read_plans(
    source: str | Path | Iterable[str | Path],
    *,
    most_operations: int = MOST_OPERATIONS,
    pipelined: bool = False,
) -> JobPlans:
    """The plans in a bundle's folder, in a file, or in several files.

    Parameters
    ----------
    most_operations, pipelined : as in `AsRounds`.

    Raises
    ------
    FileError : one cannot be read, or is not what the manifest of its bundle says.
    TacclError : a file is not right, or its parts are unequal; so nobody would run it.
    """
    how = AsRounds(most_operations, pipelined)
    if isinstance(source, (str, Path)) and Path(source).is_dir():
        return _of_bundle(Path(source), how)
    paths = [source] if isinstance(source, (str, Path)) else list(source)
    if not paths:
        raise TacclError("no plans were given", hint="the folder of a bundle, or files")
    contents = {Path(path): read_bytes(path) for path in paths}
    plans = [_plan(path, content, None, how) for path, content in contents.items()]
    return JobPlans(tuple(plans), _digest(contents, how))


def _of_bundle(folder: Path, how: AsRounds) -> JobPlans:
    """A plan for each window that has a file: the first of its files, whichever runtime it is for."""
    manifest: Manifest = read_manifest(folder / MANIFEST)
    contents: dict[Path, bytes] = {}
    plans = []
    for window in manifest.windows:
        if not window.paths:
            continue
        path = window.paths[0]
        content = read_bytes(folder / path)
        if hashlib.sha256(content).hexdigest() != manifest.sha256[path]:
            raise FileError(
                "is not what was verified: its SHA-256 is not that of the manifest", path=folder / path
            )
        contents[Path(path)] = content
        sizes = (window.min_bytes, window.max_bytes)
        plans.append(_plan(folder / path, content, sizes, how))
    return JobPlans(tuple(plans), _digest(contents, how))


def _plan(path: Path, content: bytes, sizes: tuple[int, int] | None, how: AsRounds) -> JobPlan:
    unfolded = unfold_file(path, content, "run in a job")
    try:
        call = unfolded.one_call(None, None)
    except TacclError as error:
        error.path = error.path or str(path)
        raise
    least, most = sizes or (unfolded.min_bytes, unfolded.max_bytes)
    return JobPlan(path.name, call, least, most, how)


def _digest(contents: Mapping[Path, bytes], how: AsRounds) -> str:
    """Of names and contents, in order, and of what becomes of them."""
    whole = hashlib.sha256(repr(how).encode())
    for path, content in contents.items():
        whole.update(path.name.encode() + b"\0" + hashlib.sha256(content).digest())
    return whole.hexdigest()

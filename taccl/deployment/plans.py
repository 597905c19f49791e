"""A plan in a file, verified, and the calls that it may serve."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from taccl.backend.lower_plan.fits import checked_window, unit_of
from taccl.backend.machine.report import Verification
from taccl.backend.mscclpp.commands import ranks_joined
from taccl.backend.mscclpp.reader import parse_plan_document
from taccl.backend.plan import ExecutionPlan
from taccl.backend.targets.registry import target_of_file
from taccl.backend.verify.mscclpp import verify_plan_document
from taccl.errors import PlanError, TacclError, VerificationError
from taccl.support.arguments import file_path, is_whole, shown
from taccl.support.files import read_bytes

_FINDINGS = 5


@dataclass(frozen=True)
class DeployedPlan:
    """A plan that verification found right, and the calls that it may serve.

    Sizes are in bytes as MSCCL++ counts them: of an AllGather the output, else the input.

    Parameters
    ----------
    path, content, sha256 : its file, as it was verified.
    plan, report : what is in it, and what verification says.
    ranks_per_node : on the machine that it is for.
    in_place : the calls that it is right for: True for those in place, False for those out of place.
    min_bytes, max_bytes, unit_bytes : from, to (both included), in whole multiples.
    """

    path: Path
    content: bytes
    sha256: str
    plan: ExecutionPlan
    report: Verification
    ranks_per_node: int
    in_place: tuple[bool, ...]
    min_bytes: int
    max_bytes: int
    unit_bytes: int

    @property
    def name(self) -> str:
        """As its file says."""
        return self.plan.name

    @property
    def collective(self) -> str:
        """As its file says."""
        return self.plan.collective

    @property
    def ranks(self) -> int:
        """How many it is for."""
        return self.plan.num_ranks

    @property
    def root(self) -> int | None:
        """Of a rooted collective."""
        return self.report.facts.root

    @property
    def releases(self) -> tuple[str, ...]:
        """Those of MSCCL++ that run it and have what the module calls."""
        readers = self.report.facts.readers
        return tuple(name for name, can in readers.items() if can == "yes" and name != "mscclpp-0.8")

    @property
    def needs_whole_buffers(self) -> bool:
        """Whether ports read user memory, which they do from where its allocation begins."""
        return any(finding.rule == "port-source-base" for finding in self.report.findings)

    def shares_calls_with(self, other: DeployedPlan) -> bool:
        """Whether there is a call that either could serve."""
        same = (self.collective, self.ranks, self.ranks_per_node, self.root) == (
            *(other.collective, other.ranks, other.ranks_per_node, other.root),
        )
        overlap = max(self.min_bytes, other.min_bytes) <= min(self.max_bytes, other.max_bytes)
        return same and overlap and not set(self.in_place).isdisjoint(other.in_place)


def read_plans(
    paths: Sequence[str | Path], ranks_per_node: int | None = None, root: int | None = None
) -> tuple[DeployedPlan, ...]:
    """The plans in some files, each verified, in the order given.

    Raises
    ------
    FileError, PlanError : a file cannot be read, or is no plan.
    VerificationError : a plan is wrong; the findings say why.
    UnitError : MSCCL++ serves no call of the sizes that a plan is for.
    TacclError : two plans of one name, or it is not known how many ranks are on a node.
    """
    plans = [_read(file_path(path), ranks_per_node, root) for path in paths]
    if not plans:
        raise TacclError("there is no plan to deploy", hint="taccl deploy plan.json -o taccl_plans.py")
    by_name: dict[str, DeployedPlan] = {}
    for plan in plans:
        other = by_name.setdefault(plan.name, plan)
        if other is not plan and other.path.resolve() == plan.path.resolve():
            raise TacclError("is given more than once", path=plan.path, hint="each plan once")
        if other is not plan:
            raise TacclError(
                f"has the name {shown(plan.name)}, as {other.path}: two plans of one name in a process share "
                "their state, and go wrong",
                path=plan.path,
                hint="give each a name of its own (the key name), or leave one out",
            )
    return tuple(plans)


def _read(path: Path, ranks_per_node: int | None, root: int | None) -> DeployedPlan:
    content = read_bytes(path)
    target = target_of_file(path, content)
    if target.read is not parse_plan_document and content.strip():
        target.read(content, str(path))  # what is no such file either says so itself
        raise PlanError(
            f"is a file for {target.described}, not a plan",
            path=path,
            hint="taccl convert makes a plan of an MSCCL-XML, synthesize --target mscclpp makes one",
        )
    document = parse_plan_document(content, str(path))
    report = verify_plan_document(document, root=root)
    if not report.ok:
        raise _is_wrong(path, report)
    plan = document.plan
    try:
        window = checked_window(plan)
        per_node = ranks_per_node_of(plan, ranks_per_node)
    except TacclError as fault:
        fault.path = str(path)
        raise
    unit = unit_of(plan)
    return DeployedPlan(
        path=path,
        content=content,
        sha256=hashlib.sha256(content).hexdigest(),
        plan=plan,
        report=report,
        ranks_per_node=per_node,
        in_place=tuple(_places(report)),
        min_bytes=-(-window.min_bytes // unit) * unit,
        max_bytes=window.max_bytes // unit * unit,
        unit_bytes=unit,
    )


def _is_wrong(path: Path, report: Verification) -> VerificationError:
    more = len(report.errors) - _FINDINGS
    return VerificationError(
        "the plan is wrong, so it is not deployed",
        path=path,
        findings=[
            *(str(error) for error in report.errors[:_FINDINGS]),
            *([f"and {more} more"] if more > 0 else []),
        ],
        hint="taccl verify says all that is wrong",
    )


def _places(report: Verification) -> Iterator[bool]:
    """The calls that it is for, and the others too where verification looked at them and found them right."""
    if report.facts.in_place == "right":
        yield True
    if report.facts.out_of_place == "right":
        yield False


def ranks_per_node_of(plan: ExecutionPlan, requested: int | None) -> int:
    """As requested, else as the plan tells: whoever touches memory of others is on a node with them.

    Raises
    ------
    TacclError : they do not tell, or there are not as many on each node.
    """
    ranks = plan.num_ranks
    if requested is not None:
        if not is_whole(requested) or requested < 1 or ranks % requested:
            raise TacclError(
                f"{shown(requested)} ranks per node, and {ranks} ranks in all, as many on each",
                hint="--ranks-per-node " + " or ".join(str(n) for n in range(1, ranks + 1) if ranks % n == 0),
            )
        return requested
    size = ranks_joined(plan)
    if size is None:
        raise TacclError(
            f"its memory channels do not tell how many of the {ranks} ranks are on a node",
            hint="--ranks-per-node N",
        )
    return size

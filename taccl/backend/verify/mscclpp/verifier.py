"""The layers, one after the other, and the report of them all.

Structure comes first. What an execution would show is looked at where executing means anything at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from taccl.backend.machine.readers import check_requested, readers_of
from taccl.backend.machine.report import Collector, Facts, Finding, Verification
from taccl.backend.mscclpp.reader import PlanDocument, parse_plan_document, read_plan_document
from taccl.backend.plan import ExecutionPlan
from taccl.backend.verify.mscclpp.behaviour import behaviour
from taccl.backend.verify.mscclpp.document import check_document, with_lines
from taccl.backend.verify.mscclpp.header import HEADER_RULES
from taccl.backend.verify.mscclpp.limits import LIMIT_RULES
from taccl.backend.verify.mscclpp.memory import MEMORY_RULES
from taccl.backend.verify.mscclpp.operands import OPERAND_RULES
from taccl.backend.verify.mscclpp.structure import STRUCTURE_RULES
from taccl.backend.verify.mscclpp.subject import Subject
from taccl.backend.verify.mscclpp.traps import TRAP_RULES
from taccl.backend.verify.mscclpp.versions import VERSIONS, find_versions
from taccl.model.collective import Collective


def verify_plan_file(
    path: str | Path,
    *,
    targets: str | Iterable[str] | None = None,
    collective: Collective | None = None,
    root: int | None = None,
) -> Verification:
    """Check a file for MSCCL++, whoever made it.

    Parameters
    ----------
    targets : the releases that have to take it: mscclpp-0.8, mscclpp-0.9, mscclpp-0.10, or `all`. None: the
        newest; what older ones do otherwise is a warning.
    collective : what it has to compute, where `collective` does not say so.
    root : of broadcast; None: any root that fits.

    Raises
    ------
    FileError, PlanError : it cannot be read, or is no plan at all.
    TacclError : a release that is none.
    """
    document = read_plan_document(path)
    return verify_plan_document(document, targets=targets, collective=collective, root=root)


def verify_plan_text(
    text: str | bytes,
    *,
    targets: str | Iterable[str] | None = None,
    collective: Collective | None = None,
    root: int | None = None,
) -> Verification:
    """Check the text of such a file; otherwise as `verify_plan_file`."""
    document = parse_plan_document(text)
    return verify_plan_document(document, targets=targets, collective=collective, root=root)


def verify_plan_document(
    document: PlanDocument,
    *,
    targets: str | Iterable[str] | None = None,
    collective: Collective | None = None,
    root: int | None = None,
) -> Verification:
    """Check a file that was read already; otherwise as `verify_plan_file`."""
    report = _verify(document.plan, document, targets, collective, root)
    return replace(report, findings=with_lines(report.findings, document))


def verify_plan(
    plan: ExecutionPlan,
    *,
    targets: str | Iterable[str] | None = None,
    collective: Collective | None = None,
    root: int | None = None,
) -> Verification:
    """Check a plan that is not in a file; otherwise as `verify_plan_file`."""
    return _verify(plan, None, targets, collective, root)


def _verify(
    plan: ExecutionPlan,
    document: PlanDocument | None,
    targets: str | Iterable[str] | None,
    collective: Collective | None,
    root: int | None,
) -> Verification:
    wanted = find_versions(targets)
    check_requested(collective, root)
    collector = Collector()
    if document is not None:
        check_document(document, collector)
    check_structure(plan, collector)
    facts = _facts(plan, collector)
    if not collector.fatal:
        facts = behaviour(plan, collector, facts, collective=collective, root=root)
    path = None if document is None else document.path
    return Verification(_for_releases(collector.findings(), wanted), facts, path)


def check_structure(
    plan: ExecutionPlan, collector: Collector, look: Callable[[], None] = lambda: None
) -> None:
    """All that can be stated without executing the plan, as far as its numbers mean anything.

    `look` is called now and then, and may raise.
    """
    if collector.fatal:
        return
    subject = Subject(plan, collector, look)
    for rule in STRUCTURE_RULES:
        rule(subject)
        if collector.fatal:
            return
    for rule in (*HEADER_RULES, *OPERAND_RULES, *LIMIT_RULES, *TRAP_RULES, *MEMORY_RULES):
        rule(subject)


def _facts(plan: ExecutionPlan, collector: Collector) -> Facts:
    """What is known before anything is executed."""
    blocks = [block for rank in plan.ranks for block in rank.blocks]
    return Facts(
        collective=plan.collective,
        num_ranks=plan.num_ranks,
        num_steps=sum(1 + len(operation.inner) for block in blocks for operation in block.operations),
        num_thread_blocks=len(blocks),
        protocol=plan.protocol,
        in_place="not checked" if plan.in_place else "not claimed",
        out_of_place="not claimed" if plan.in_place else "not checked",
        readers=readers_of(collector, [version.name for version in VERSIONS]),
    )


def _for_releases(findings: tuple[Finding, ...], wanted: tuple[str, ...]) -> tuple[Finding, ...]:
    """Findings as they concern the releases requested about: what only others do is a warning."""
    judged = [
        replace(each, severity="warning", refusal=None)
        if each.runtimes and not set(each.runtimes) & set(wanted)
        else each
        for each in findings
    ]
    return tuple(sorted(judged, key=lambda finding: finding.severity == "warning"))

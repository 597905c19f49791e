"""The three layers, one after the other, and the report of them all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from taccl.backend.machine.expected import MAX_CELLS, Expectation
from taccl.backend.machine.readers import check_requested, readers_of
from taccl.backend.machine.report import Collector, Facts, Finding, Verification
from taccl.backend.msccl_xml.reader import Document, parse_document, read_document
from taccl.backend.program import Program
from taccl.backend.verify.msccl_xml.behaviour import behaviour
from taccl.backend.verify.msccl_xml.blocks import BLOCK_RULES
from taccl.backend.verify.msccl_xml.columns import Columns
from taccl.backend.verify.msccl_xml.connections import Connections, connect
from taccl.backend.verify.msccl_xml.document import check_document
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.backend.verify.msccl_xml.expected import expect_collective, expect_standard
from taccl.backend.verify.msccl_xml.header import HEADER_RULES
from taccl.backend.verify.msccl_xml.limits import RUNTIMES, Runtime, find_runtimes
from taccl.backend.verify.msccl_xml.steps import STEP_RULES
from taccl.backend.verify.msccl_xml.subject import ALL, Subject
from taccl.backend.verify.msccl_xml.unfold import buffer_sizes, check_bounds
from taccl.model.collective import Collective
from taccl.support.gc_paused import gc_paused


def check_structure(columns: Columns, executed: ExecutedSteps, collector: Collector) -> None:
    """Findings for everything that at least one runtime does not take as it is meant."""
    subject = Subject(columns, executed, collector)
    for rule in (*HEADER_RULES, *BLOCK_RULES, *STEP_RULES):
        rule(subject)


def verify_file(
    path: str | Path,
    *,
    targets: str | Iterable[str] | None = "all",
    collective: Collective | None = None,
    root: int | None = None,
) -> Verification:
    """Check an MSCCL-XML file, whoever made it.

    Parameters
    ----------
    targets : `all`, or the runtimes that have to take it: msccl, executor, rccl. None: those that do take it;
        one must.
    collective : what it has to compute, where `coll` does not say so (custom collectives).
    root : of broadcast, reduce, gather and scatter; None: any root that fits.

    Raises
    ------
    FileError, XmlError : it cannot be read, or is not MSCCL-XML at all.
    TacclError : a target that is no runtime.
    """
    return verify_document(read_document(path), targets=targets, collective=collective, root=root)


def verify_text(
    text: str,
    *,
    targets: str | Iterable[str] | None = "all",
    collective: Collective | None = None,
    root: int | None = None,
) -> Verification:
    """Check the text of an MSCCL-XML file; otherwise as `verify_file`."""
    return verify_document(parse_document(text), targets=targets, collective=collective, root=root)


def verify_document(
    document: Document,
    *,
    targets: str | Iterable[str] | None = "all",
    collective: Collective | None = None,
    root: int | None = None,
) -> Verification:
    """Check an MSCCL-XML file that was read already; otherwise as `verify_file`."""
    return _verify(document.program, document, targets, collective, root)


def verify_program(
    program: Program,
    *,
    collective: Collective | None = None,
    targets: str | Iterable[str] | None = "all",
    root: int | None = None,
) -> Verification:
    """Check a program that is not in a file: all but the spelling; otherwise as `verify_file`."""
    return _verify(program, None, targets, collective, root)


def refusals_of(
    subject: Document | Program, *, collective: Collective | None = None, root: int | None = None
) -> tuple[Finding, ...]:
    """What keeps a file, or a program that is in none, from being executed at all, for runtimes that take it.

    Those are all errors but wrong results, races and deadlocks, which only an execution shows. Quick, and
    bounded in memory, whatever numbers the file has. Parameters as in `verify_file`.
    """
    document = subject if isinstance(subject, Document) else None
    program = subject.program if isinstance(subject, Document) else subject
    looked_at = _look(program, document, collective, root)
    return tuple(
        finding for finding in looked_at.report(looked_at.takers).findings if finding.severity == "error"
    )


@gc_paused()
def _verify(
    program: Program,
    document: Document | None,
    targets: str | Iterable[str] | None,
    collective: Collective | None,
    root: int | None,
) -> Verification:
    looked_at = _look(program, document, collective, root)
    wanted = looked_at.takers if targets is None else find_runtimes(targets)
    if looked_at.collector.fatal or looked_at.parts is None:
        return looked_at.report(wanted)
    if root is None and collective is not None:
        root = collective.root
    executed, connections = looked_at.parts
    loads = [each for each in wanted if looked_at.facts.readers[each.name] != "no"]
    facts = behaviour(
        executed,
        connections,
        looked_at.expectation,
        root,
        loads or wanted,
        looked_at.collector,
        looked_at.facts,
    )
    return replace(looked_at.report(wanted), facts=facts)


@dataclass(frozen=True, eq=False)
class _LookedAt:
    """A program before it is executed: what was found, and what an execution needs.

    `parts` is None if so much cannot be understood that anything else would be guesswork.
    """

    collector: Collector
    facts: Facts
    path: str | None
    expectation: Expectation | None
    parts: tuple[ExecutedSteps, Connections] | None

    @property
    def takers(self) -> tuple[Runtime, ...]:
        """The runtimes that take the file; all, if none does."""
        return tuple(each for each in RUNTIMES if self.facts.readers[each.name] == "yes") or RUNTIMES

    def report(self, wanted: Sequence[Runtime]) -> Verification:
        """What has been found so far for these runtimes."""
        return Verification(_for_targets(self.collector, wanted), self.facts, self.path)


def _look(
    program: Program, document: Document | None, collective: Collective | None, root: int | None
) -> _LookedAt:
    check_requested(collective, root)
    collector = Collector()
    columns = Columns.of(program)
    path = None if document is None else document.path
    if document is not None:
        check_document(document, collector)
    if collector.fatal:
        return _LookedAt(collector, _facts(columns, collector), path, None, None)
    executed = ExecutedSteps.of(columns)
    check_structure(columns, executed, collector)
    if root is None and collective is not None:
        root = collective.root
    expectation = (
        expect_standard(program, root, collector)
        if collective is None
        else expect_collective(program, collective, collector)
    )
    check_bounds(columns, expectation, collector)
    _check_size(columns, expectation, collector)
    connections = connect(executed, collector)
    return _LookedAt(collector, _facts(columns, collector), path, expectation, (executed, connections))


def _facts(columns: Columns, collector: Collector) -> Facts:
    """What is known before anything is executed."""
    program = columns.program
    return Facts(
        collective=program.collective,
        num_ranks=program.num_ranks,
        num_steps=columns.num_steps,
        num_thread_blocks=columns.num_blocks,
        protocol=program.protocol.value,
        readers=readers_of(collector, ALL),
    )


def _check_size(columns: Columns, expectation: Expectation | None, collector: Collector) -> None:
    chunks = int(buffer_sizes(columns, expectation).sum()) + int(np.abs(columns.count).sum())
    if chunks > MAX_CELLS:
        message = f"the buffers and steps have {chunks} chunks in all, more than can be checked"
        collector.add(Finding("meaning", "error", "too-large", message), fatal=True)


def _for_targets(collector: Collector, wanted: Sequence[Runtime]) -> tuple[Finding, ...]:
    """Findings that concern at least one of the runtimes requested about."""
    names = {runtime.name for runtime in wanted}
    kept = []
    for finding in collector.findings():
        runtimes = tuple(name for name in finding.runtimes if name in names)
        if runtimes or not finding.runtimes:
            kept.append(replace(finding, runtimes=runtimes))
    return tuple(kept)

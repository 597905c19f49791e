"""What is in the file but not in the plan: values that could not be read, and keys that the runtime skips."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace

from taccl.backend.machine.report import Collector, Finding
from taccl.backend.mscclpp.reader import KNOWN_KEYS, PlanDocument
from taccl.support.arguments import shown
from taccl.support.json_values import Fault

_PLACE = re.compile(r"gpus\[(\d+)\](?:\.threadblocks\[(\d+)\](?:\.ops\[(\d+)\])?)?")
#: This many of each are reported in full; finding their lines is a walk through the text.
_REPORTED = 100
#: This many faults are looked at; where there are more, the file is none that could be corrected one by one.
_MOST = 10_000


def check_document(document: PlanDocument, collector: Collector) -> None:
    """Findings for all that the plan itself no longer shows."""
    faults, ignored = document.faults, document.ignored
    lines = document.lines(
        [fault.place for fault in faults[:_REPORTED]] + [each.place for each in ignored[:_REPORTED]]
    )
    for fault in faults[:_MOST]:
        finding = _finding(fault.place, _rule(fault), f"{fault.place} {fault.message}", lines)
        hint = fault.hint or "correct it"
        collector.add(replace(finding, hint=hint, refusal="load" if fault.guessed else None), fault.guessed)
    for number, each in enumerate(ignored):
        near = difflib.get_close_matches(each.key[:100], KNOWN_KEYS, n=1) if number < _REPORTED else []
        message = f"{each.place or 'the plan'} has a key {shown(each.key)}, which the runtime skips"
        hint = f"write {near[0]} if that is meant" if near else "remove it"
        finding = _finding(each.place, "ignored-key", message, lines)
        collector.add(replace(finding, severity="warning", hint=hint))


def with_lines(findings: Sequence[Finding], document: PlanDocument) -> tuple[Finding, ...]:
    """Findings with the line of the rank, thread block or operation that each is about."""
    places = {
        finding: _place(finding) for finding in findings if finding.line is None and finding.rank is not None
    }
    lines = document.lines(set(places.values())) if places else {}
    return tuple(
        replace(finding, line=lines.get(places[finding])) if finding in places else finding
        for finding in findings
    )


def _place(finding: Finding) -> str:
    place = f"gpus[{finding.rank}]"
    if finding.thread_block is not None:
        place += f".threadblocks[{finding.thread_block}]"
        if finding.step is not None:
            place += f".ops[{finding.step}]"
    return place


def _rule(fault: Fault) -> str:
    if fault.missing:
        return "missing-key"
    if not fault.guessed:
        return "duplicate-key"
    is_operation = ".ops[" in fault.place and fault.place.endswith("].name")
    return "unknown-operation" if is_operation else "bad-value"


def _finding(place: str, rule: str, message: str, lines: dict[str, int]) -> Finding:
    match = _PLACE.match(place)
    rank, block, step = (None, None, None) if match is None else match.groups()
    return Finding(
        "structure",
        "error",
        rule,
        message,
        rank=None if rank is None else int(rank),
        thread_block=None if block is None else int(block),
        step=None if step is None else int(step),
        line=lines.get(place),
    )

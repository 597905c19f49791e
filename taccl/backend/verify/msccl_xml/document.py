"""What is in the file but not in the program: attributes that are missing, lost or oddly written."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.backend.machine.report import FINDINGS_PER_RULE, Collector, Finding, Refusal, Severity
from taccl.backend.msccl_xml.plain_steps import PlainSteps
from taccl.backend.msccl_xml.reader import Document, parse_beginning, parse_whole
from taccl.backend.program import Protocol
from taccl.backend.verify.msccl_xml.lexical import check_text
from taccl.backend.verify.msccl_xml.limits import (
    BLOCK_ATTRIBUTES,
    GPU_ATTRIBUTES,
    MSCCL,
    RUNTIMES,
    STEP_ATTRIBUTES,
)
from taccl.support.xml_elements import Element

ALL = tuple(runtime.name for runtime in RUNTIMES)

_REQUIRED = {
    "gpu": frozenset(GPU_ATTRIBUTES),
    "tb": frozenset(BLOCK_ATTRIBUTES),
    "step": frozenset(STEP_ATTRIBUTES),
}
_INNER = {"algo": "gpu", "gpu": "tb", "tb": "step", "step": None}
_TEXTS = frozenset({"name", "proto", "coll", "type", "srcbuf", "dstbuf"})
_NUMBERS = _REQUIRED["gpu"] | _REQUIRED["tb"] | (_REQUIRED["step"] - _TEXTS)
_ALGO_NUMBERS = frozenset().union(*(runtime.algo_attributes for runtime in RUNTIMES)) - _TEXTS
#: The most threads of a block with Simple, and what they share, in microsoft/msccl.
_MOST_THREADS = 512
_SIMPLE_PIECE = MSCCL.piece_bytes[Protocol.SIMPLE]
LOAD: Refusal = "load"
LAUNCH: Refusal = "launch"
_MOST_STEPS = min(runtime.steps for runtime in RUNTIMES)


def check_document(document: Document, collector: Collector) -> None:
    """Findings for all that the program itself no longer shows."""
    check_text(document.text, collector)
    algo = document.algo
    _faults(document, collector)
    _further_elements(document, collector)
    _algo_attributes(algo, document.program.protocol, collector)
    rank = block = None
    for element, index in _known(algo, document.program.num_ranks):
        attributes = element.attributes
        required = _REQUIRED.get(element.tag)
        if element.tag == "gpu":
            rank, block = parse_whole(attributes.get("id", "")), None
        elif element.tag == "tb":
            block = parse_whole(attributes.get("id", ""))
        if required is not None and not attributes.keys() >= required:
            _missing(element, sorted(required - attributes.keys()), rank, block, collector)
        if element.tag == "step":
            finding = _step_number(attributes.get("s"), index, element.line, rank, block)
            if finding is not None:
                collector.add(finding)
        elif element in document.plain_steps:
            _plain_step_numbers(document.plain_steps[element], rank, block, collector)
        if element.children:
            _ignored_children(element, rank, block, collector)
        for name, text in attributes.items():
            if name in _NUMBERS and not _is_plain(text):
                _unusual_number(element, name, text, rank, block, collector)


def _faults(document: Document, collector: Collector) -> None:
    """What could not be understood; attributes that are missing are reported with the others of their
    element.
    """
    for fault in document.faults:
        if fault.missing:
            collector.fatal = True
            continue
        place = (fault.rank, fault.thread_block)
        hint = fault.hint or "correct it"
        refusal: Refusal | None = "load" if fault.refused else None
        finding = _finding(fault.line, "error", "bad-value", fault.message, hint, place, refusal=refusal)
        collector.add(finding, fatal=fault.guessed)


def _further_elements(document: Document, collector: Collector) -> None:
    """Whatever follows the first <algo>, and <gpu> elements that no rank looks for."""
    algo, ranks = document.algo, document.program.num_ranks
    if document.ignored:
        tags = ", ".join(sorted({f"<{element.tag}>" for element in document.ignored}))
        message = f"{len(document.ignored)} elements {tags} follow the first <algo>, which alone counts"
        line = document.ignored[0].line
        collector.add(_finding(line, "warning", "ignored-element", message, "give each a file of its own"))
    extra = [gpu for gpu in algo.children if gpu.tag == "gpu" and not _is_of_a_rank(gpu, ranks)]
    if extra:
        message = f"{len(extra)} <gpu> elements have an id outside 0 .. {ranks - 1} (ngpus) and are ignored"
        collector.add(_finding(extra[0].line, "warning", "ignored-element", message, "remove them"))


def _is_of_a_rank(gpu: Element, ranks: int) -> bool:
    return "id" not in gpu.attributes or 0 <= parse_beginning(gpu.attributes["id"]) < ranks


def _known(algo: Element, ranks: int) -> Iterator[tuple[Element, int]]:
    """All elements that the runtimes read, in order, each with its index among those of its parent."""
    yield algo, 0
    for gpu in algo.children:
        if gpu.tag != "gpu" or not _is_of_a_rank(gpu, ranks):
            continue
        yield gpu, 0
        for tb in gpu.children:
            if tb.tag != "tb":
                continue
            yield tb, 0
            index = 0
            for step in tb.children:
                if step.tag == "step":
                    yield step, index
                    index += 1


def _finding(
    line: int,
    severity: Severity,
    rule: str,
    message: str,
    hint: str,
    place: tuple[int | None, int | None] = (None, None),
    runtimes: tuple[str, ...] = ALL,
    refusal: Refusal | None = None,
) -> Finding:
    rank, block = place
    where = (
        "" if rank is None else f"rank {rank}" + ("" if block is None else f", thread block {block}") + ": "
    )
    return Finding(
        "structure",
        severity,
        rule,
        f"{where}{message}",
        rank=rank,
        thread_block=block,
        line=line,
        runtimes=runtimes,
        hint=hint,
        refusal=refusal,
    )


def _algo_attributes(algo: Element, protocol: Protocol, collector: Collector) -> None:
    missing: dict[str, tuple[str, ...]] = {}
    for name in sorted(frozenset().union(*(runtime.algo_attributes for runtime in RUNTIMES))):
        if name not in algo.attributes:
            missing[name] = tuple(r.name for r in RUNTIMES if name in r.algo_attributes)
    by_runtimes: dict[tuple[str, ...], list[str]] = {}
    for name, runtimes in missing.items():
        by_runtimes.setdefault(runtimes, []).append(name)
    for runtimes, names in by_runtimes.items():
        similar = [(key, name) for key in algo.attributes for name in names if key.lower() == name.lower()]
        added = " and ".join(f'{name}="..."' for name in names)
        hint = f"write {similar[0][1]} for {similar[0][0]}" if similar else f"add {added}"
        message = f"<algo> has no {', '.join(names)}"
        collector.add(
            _finding(
                algo.line, "error", "missing-attribute", message, hint, runtimes=runtimes, refusal="load"
            )
        )
    if "maxBytes" not in algo.attributes:
        message = "<algo> has no maxBytes, which means 128 MiB here"
        collector.add(
            _finding(
                algo.line, "warning", "missing-attribute", message, 'add maxBytes="..."', runtimes=("msccl",)
            )
        )
    for name, text in algo.attributes.items():
        if name in _ALGO_NUMBERS and not _is_plain(text):
            _unusual_number(algo, name, text, None, None, collector)
    _thread_count(algo, protocol, collector)


def _thread_count(algo: Element, protocol: Protocol, collector: Collector) -> None:
    """microsoft/msccl alone reads nthreads; 0 leaves the choice to it."""
    text = algo.attributes.get("nthreads", "0")
    threads = parse_beginning(text)
    message, refusal = None, None
    if threads < 0 or threads % 32:
        message, refusal = f"nthreads is {text[:40]!r}, which is no multiple of 32", LOAD
    elif protocol is Protocol.SIMPLE and 0 < threads < _MOST_THREADS and _SIMPLE_PIECE % (8 * threads):
        message = (
            f"nthreads is {threads}, over which a piece of {_SIMPLE_PIECE} bytes cannot be shared equally"
        )
        refusal = LAUNCH
    if message is not None:
        hint = "use a power of two from 32 up"
        finding = _finding(
            algo.line, "error", "thread-count", message, hint, (None, None), ("msccl",), refusal
        )
        collector.add(finding)


def _missing(
    element: Element, names: list[str], rank: int | None, block: int | None, collector: Collector
) -> None:
    collector.add(
        _finding(
            element.line,
            "error",
            "missing-attribute",
            f"<{element.tag}> has no {', '.join(names)}",
            "add it; every runtime wants all attributes on every element",
            (rank, block),
            refusal="load",
        )
    )


def _step_number(
    text: str | None, index: int, line: int, rank: int | None, block: int | None
) -> Finding | None:
    """What is wrong with the number that a step gives itself; None if nothing is, or there is none."""
    number = None if text is None else parse_whole(text)
    if text is None or (number == index and number < _MOST_STEPS):
        return None
    if number is None or number < 0:
        message, refusing = f"s is {text[:40]!r}, which is no step number", ALL
    else:
        message = f"s is {number}, over the limit of steps"
        refusing = tuple(runtime.name for runtime in RUNTIMES if number >= runtime.steps)
    if refusing:
        hint = "number the steps from 0; spread long blocks over more channels"
        return _finding(line, "error", "step-number", message, hint, (rank, block), refusing, "load")
    message = (
        f"s is {number}, but this is step {index}; steps run in the order of the file, and deps means it"
    )
    return _finding(line, "warning", "step-number", message, "number the steps from 0", (rank, block))


def _plain_step_numbers(plain: PlainSteps, rank: int | None, block: int | None, collector: Collector) -> None:
    """The same for all steps of a thread block; of those that are reported equivalent, the first are spelled
    out.
    """
    numbers = plain.numbers
    odd = np.flatnonzero((numbers != np.arange(len(numbers))) | (numbers >= _MOST_STEPS))
    if not len(odd):
        return
    # How many runtimes refuse such a number; all of them, if it is none.
    limits = np.array([runtime.steps for runtime in RUNTIMES])
    refusing = (numbers[odd, None] >= limits).sum(axis=1) + len(limits) * (numbers[odd] < 0)
    lines = plain.steps.table.line[plain.steps.first :]
    spelled_out, more = list[int](), list[tuple[int, int]]()
    for count in np.unique(refusing):
        equivalent = odd[refusing == count].tolist()
        spelled_out += equivalent[:FINDINGS_PER_RULE]
        more.append((equivalent[0], len(equivalent[FINDINGS_PER_RULE:])))
    findings = {}
    for index in sorted(spelled_out):
        finding = _step_number(str(numbers[index]), index, int(lines[index]), rank, block)
        if finding is not None:
            findings[index] = finding
            collector.add(finding)
    for like, count in more:
        collector.add_more(findings[like], count)


def _ignored_children(element: Element, rank: int | None, block: int | None, collector: Collector) -> None:
    if element.tag == "step":
        message, hint = "a <step> must be empty; every runtime crashes on this", "remove what is inside"
        collector.add(_finding(element.line, "error", "child-of-step", message, hint, (rank, block)))
        return
    ignored = [child for child in element.children if child.tag != _INNER[element.tag]]
    if ignored:
        tags = ", ".join(sorted({f"<{child.tag}>" for child in ignored}))
        message = f"{len(ignored)} elements {tags} in <{element.tag}> are ignored by every runtime"
        hint = "write cpy steps for copies that are meant" if tags == "<copy>" else "remove them"
        collector.add(_finding(ignored[0].line, "warning", "ignored-element", message, hint, (rank, block)))


def _is_plain(text: str) -> bool:
    return (text.isdecimal() and (text[0] != "0" or text == "0")) or text == "-1"


def _unusual_number(
    element: Element, name: str, text: str, rank: int | None, block: int | None, collector: Collector
) -> None:
    value = parse_whole(text)
    if value is None:  # reported as a fault
        return
    message = f"{name} is written {text[:40]!r}, which the runtimes read as {value}"
    collector.add(
        _finding(element.line, "warning", "unusual-number", message, "write plain digits", (rank, block))
    )

"""Whether a file of actions computes its collective, in every order that its rules allow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from taccl.backend.flat_json.cells import buffer_elements, cells_of
from taccl.backend.flat_json.checks import check_structure
from taccl.backend.flat_json.document import ActionsProgram, Do
from taccl.backend.flat_json.reader import ActionsDocument
from taccl.backend.flat_json.unfold import unfold
from taccl.backend.flat_json.wanted import expected, holds_standard
from taccl.backend.machine.acts import Machine
from taccl.backend.machine.contents import carry_out
from taccl.backend.machine.deadlock import find_cycle, wait_in_words
from taccl.backend.machine.expected import STANDARD
from taccl.backend.machine.meaning import check_meaning
from taccl.backend.machine.race_findings import check_races_of_steps
from taccl.backend.machine.races import conflicts
from taccl.backend.machine.report import Collector, Facts, Finding, Verification
from taccl.backend.machine.run import Run, run_acts
from taccl.backend.machine.steps import Steps
from taccl.backend.machine.unequal import Requested, UnequalCollective
from taccl.model.collective import IntArray
from taccl.model.collectives import plain_name

#: Who reads these files.
RUNTIME = "actions"
_ACTION = re.compile(r"ranks\[(\d+)\](?:\.actions\[(\d+)\])?")


def verify_actions(
    document: ActionsDocument,
    /,
    *,
    readers: Sequence[str] | None = None,
    collective: Requested | None = None,
    root: int | None = None,
) -> Verification:
    """Check a file that was read.

    Parameters
    ----------
    collective : what it has to compute; None: what the file says.
    root : must be that of the file; None: any.
    """
    program, collector = document.program, Collector()
    for fault in document.faults:
        collector.add(_fault(fault.place, fault.message, fault.hint), fatal=fault.guessed)
    facts = Facts(
        collective=program.collective,
        num_ranks=len(program.ranks),
        num_steps=program.num_actions,
        num_thread_blocks=0,
        protocol="none",
        root=program.root,
        in_place="not claimed",
        out_of_place="not checked",
    )
    if not collector.fatal:
        check_structure(program, collector)
    if not collector.fatal:
        _check_requested(program, collective, root, collector)
        facts = _behaviour(program, collector, facts)
    facts = replace(facts, readers={RUNTIME: "no" if collector.fatal else "yes"})
    findings = collector.findings()
    places = {place: finding for finding in findings if (place := _place(finding)) is not None}
    lines = document.lines(places)
    located = [
        replace(finding, line=lines.get(_place(finding) or "")) if finding.line is None else finding
        for finding in findings
    ]
    return Verification(tuple(located), facts, document.path)


def _fault(place: str, message: str, hint: str | None) -> Finding:
    match = _ACTION.match(place)
    rank, index = (None, None) if match is None else match.groups()
    return Finding(
        "structure",
        "error",
        "bad-value",
        f"{place} {message}",
        rank=None if rank is None else int(rank),
        step=None if index is None else int(index),
        hint=hint,
    )


def _place(finding: Finding) -> str | None:
    if finding.rank is None:
        return None
    return f"ranks[{finding.rank}]" + ("" if finding.step is None else f".actions[{finding.step}]")


def _check_requested(
    program: ActionsProgram, requested: Requested | None, root: int | None, collector: Collector
) -> None:
    """The file is for the collective that is requested, in as many pieces as it likes, and for the root."""

    def wrong(message: str) -> None:
        collector.add(Finding("meaning", "error", "other-collective", message, hint="another file"))

    if root is not None and root != program.root:
        wrong(f"the root of the file is {program.root}, not {root}")
    if requested is None:
        return
    own = np.array(program.chunk_elements, dtype=np.int64)
    own //= np.gcd.reduce(own)  # equal chunks are one each
    collective = requested.collective if isinstance(requested, UnequalCollective) else requested
    found = _requested_elements(program, own, requested)
    if found is None:
        wrong(f"the file has chunks of other sizes than {collective.name}")
        return
    elements, room = found
    sums = np.array(program.sums, dtype=np.int64)
    is_like = collective.num_ranks == len(program.ranks) and np.array_equal(
        _runs(sums, own, 0), _runs(collective.reduces.astype(np.int64), elements, 0)
    )
    if not is_like:
        wrong(f"the file has other ranks, chunks or sums than {collective.name}")
        return
    for rank, of_rank in enumerate(program.ranks):
        for word, held, placement in (
            ("input", of_rank.input, collective.inputs),
            ("output", of_rank.output, collective.outputs),
        ):
            here, there = np.array(held, dtype=np.int64), placement.held_column(rank)
            if not np.array_equal(_in_elements(here, own, 1), _in_elements(there, elements, room)):
                wrong(f"the {word} of rank {rank} holds other chunks than in {collective.name}")
                return


def _requested_elements(
    program: ActionsProgram, own: IntArray, requested: Requested
) -> tuple[IntArray, int] | None:
    """Of each chunk that is requested and of a room for one, how many of the file's elements it should have.

    None: relative sizes that whole elements are only close to, and not those of the file.

    Parameters
    ----------
    own : of each chunk of the file, its elements.
    """
    if isinstance(requested, UnequalCollective):
        chunks, elements = len(requested.elements), requested.elements
        if len(own) % chunks == 0:
            pieces = own.reshape(chunks, -1)
            whole = np.array(program.chunk_elements, dtype=np.float64) * program.element_bytes
            if requested.are_rounded(whole.reshape(chunks, -1)):
                return pieces.sum(axis=1), pieces.shape[1]
        if not requested.is_exact:
            return None
    else:
        elements = np.ones(requested.num_chunks, dtype=np.int64)
    times, rest = divmod(int(own.sum()), int(elements.sum()))
    room = times if times and not rest else 1
    return elements * room, room


def _in_elements(held: IntArray, elements: IntArray, room: int) -> IntArray:
    """The runs of the elements in a buffer that holds chunks; -1: room for as many as `room`."""
    first, many = np.append(np.cumsum(elements) - elements, -1), np.append(elements, room)
    return _runs(first[held], many[held], 1)


def _runs(first: IntArray, many: IntArray, step: int) -> IntArray:
    """Runs as their first and how many; one that goes on where the one before it ends is part of it.

    Parameters
    ----------
    step : from an element of a run to the next; a run of -1 has nothing but -1.
    """
    end = np.where(first >= 0, first + step * many, -1)
    starts = np.flatnonzero(np.append(True, first[1:] != end[:-1])[: len(first)])
    return np.stack([first[starts], np.add.reduceat(many, starts) if len(many) else many], axis=1)


def _behaviour(program: ActionsProgram, collector: Collector, facts: Facts) -> Facts:
    """The facts with what only an execution shows."""
    cells = cells_of(program)
    if cells is None:
        message = "the actions cut the buffers into more pieces than can be checked"
        collector.add(Finding("meaning", "error", "too-large", message), fatal=True)
        return facts
    expectation = expected(program, cells)
    _check_standard(program, collector)
    machine = unfold(program, cells)
    run = run_acts(machine.acts)
    if not run.ends:
        _report_deadlock(machine, run, collector)
        return replace(facts, deadlock=True)
    _check_in_order(program, collector)
    contents = carry_out(machine, run, has_input=expectation.has_input)
    verdict = check_meaning(machine, contents, expectation, set(), collector)
    steps = Steps.of(machine.acts, run.sequence[0], in_order=True)
    pairs = conflicts(steps.touches(machine))
    races = check_races_of_steps(machine, steps, steps.order(), pairs, collector)
    return replace(facts, deadlock=False, races=races, out_of_place=verdict)


def _check_standard(program: ActionsProgram, collector: Collector) -> None:
    """A file that names a standard collective says the same of its chunks as everybody."""
    name = plain_name(program.collective)
    if name not in STANDARD:
        return
    elements = int(max(buffer_elements(program)[:, :2].max(initial=0), 1))
    if program.call_elements != elements:
        message = f"the size of a call of {name} has {elements} elements, not {program.call_elements}"
        hint = f"call_elements {elements}"
        collector.add(Finding("structure", "error", "call-elements", message, hint=hint))
    if not holds_standard(program, elements // (len(program.ranks) if name in ("gather", "scatter") else 1)):
        message = f"inputs and outputs do not hold the chunks of {name} where everybody has them"
        hint = "name it otherwise, if it is a collective of your own"
        collector.add(Finding("meaning", "error", "not-standard", message, hint=hint))


def _report_deadlock(machine: Machine, run: Run, collector: Collector) -> None:
    cycle = find_cycle(machine.acts, machine.moves, run.stuck)
    waits = [wait_in_words(machine.acts, machine.names, machine.layout, stuck) for stuck in cycle]
    others = "".join(
        f"; {machine.names.act(stuck.act)} {wait}" for stuck, wait in zip(cycle[1:6], waits[1:], strict=False)
    )
    hint = "let no two actions wait for each other"
    collector.add(machine.names.finding(cycle[0].act, "deadlock", f"{waits[0]}{others}", hint))


def _check_in_order(program: ActionsProgram, collector: Collector) -> None:
    """Warn where lists that are executed from first to last hang, though their sends wait for nobody."""
    at = [0] * len(program.ranks)
    sent = set[tuple[int, int, int]]()
    waiting: dict[tuple[int, int, int], int] = {}
    ready = list(range(len(at)))
    while ready:
        rank = ready.pop()
        actions = program.ranks[rank].actions
        while at[rank] < len(actions):
            action = actions[at[rank]]
            if action.do is Do.SEND:
                message = (rank, action.peer, action.message)
                sent.add(message)
                if message in waiting:
                    ready.append(waiting.pop(message))
            elif action.do is Do.RECEIVE and (action.peer, rank, action.message) not in sent:
                waiting[action.peer, rank, action.message] = rank
                break
            at[rank] += 1
    for rank in waiting.values():
        said = f"rank {rank} hangs at action {at[rank]} if all lists are executed from first to last"
        hint = "an executor has to start an action as soon as all that it waits for is done"
        collector.add(Finding("concurrency", "warning", "list-order", said, rank=rank, hint=hint))

"""Whether a file of actions computes its collective, in every order that its rules allow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from taccl.backend.flat_json.cells import Cells, buffer_elements, cells_of, held_starts
from taccl.backend.flat_json.checks import check_structure
from taccl.backend.flat_json.document import ActionsProgram, Do
from taccl.backend.flat_json.reader import ActionsDocument
from taccl.backend.flat_json.unfold import unfold
from taccl.backend.lower.instances import cut_in_place
from taccl.backend.machine.acts import Machine
from taccl.backend.machine.contents import carry_out
from taccl.backend.machine.deadlock import find_cycle, wait_in_words
from taccl.backend.machine.expected import MAX_CELLS, STANDARD, Expectation, Value, specification
from taccl.backend.machine.meaning import check_meaning
from taccl.backend.machine.race_findings import check_races_of_steps
from taccl.backend.machine.races import conflicts
from taccl.backend.machine.report import Collector, Facts, Finding, Verification
from taccl.backend.machine.run import Run, run_acts
from taccl.backend.machine.steps import Steps
from taccl.model.collective import Collective, IntArray
from taccl.model.collectives import plain_name

#: Who reads these files.
RUNTIME = "actions"
_ACTION = re.compile(r"ranks\[(\d+)\](?:\.actions\[(\d+)\])?")


def verify_actions(
    document: ActionsDocument,
    /,
    *,
    readers: Sequence[str] | None = None,
    collective: Collective | None = None,
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
    program: ActionsProgram, collective: Collective | None, root: int | None, collector: Collector
) -> None:
    """The file is for the collective that is requested, in as many pieces as it likes, and for the root."""

    def wrong(message: str) -> None:
        collector.add(Finding("meaning", "error", "other-collective", message, hint="another file"))

    if root is not None and root != program.root:
        wrong(f"the root of the file is {program.root}, not {root}")
    if collective is None:
        return
    elements = np.array(program.chunk_elements, dtype=np.int64)
    elements //= np.gcd.reduce(elements)  # equal chunks are one each
    if elements.sum() > MAX_CELLS:
        many = f"{elements.sum()} elements are more than the {MAX_CELLS} that are compared"
        message = f"the sizes of its chunks are not held against {collective.name}: {many}"
        hint = "chunks of multiples of 4KB are"
        collector.add(Finding("meaning", "warning", "sizes-not-compared", message, hint=hint))
        elements[:] = 1
    pieces, rest = divmod(int(elements.sum()), collective.num_chunks)
    if pieces > 1 and not rest:
        collective = cut_in_place(collective, pieces)
    sums = np.repeat(program.sums, elements)
    if collective.num_ranks != len(program.ranks) or not np.array_equal(collective.reduces, sums):
        wrong(f"the file has other ranks, chunks or sums than {collective.name}")
        return
    for rank, of_rank in enumerate(program.ranks):
        for word, held, placed in (
            ("input", of_rank.input, collective.inputs.held(rank)),
            ("output", of_rank.output, collective.outputs.held(rank)),
        ):
            if _in_elements(held, elements) != placed:
                wrong(f"the {word} of rank {rank} holds other chunks than in {collective.name}")
                return


def _in_elements(held: Sequence[int], elements: IntArray) -> tuple[int, ...]:
    """The elements of the chunks that a buffer holds; -1: room for one."""
    first = np.cumsum(elements) - elements
    ranges = (range(first[chunk], first[chunk] + elements[chunk]) if chunk >= 0 else (-1,) for chunk in held)
    return tuple(int(element) for each in ranges for element in each)


def _behaviour(program: ActionsProgram, collector: Collector, facts: Facts) -> Facts:
    """The facts with what only an execution shows."""
    cells = cells_of(program)
    if cells is None:
        message = "the actions cut the buffers into more pieces than can be checked"
        collector.add(Finding("meaning", "error", "too-large", message), fatal=True)
        return facts
    expectation = expected(program, cells)
    _check_standard(program, expectation, cells, collector)
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


def expected(program: ActionsProgram, cells: Cells) -> Expectation:
    """What the outputs must hold, from where the file says that chunks lie."""
    sources: list[list[tuple[int, int]]] = [[] for _ in program.sums]
    wanted: list[tuple[int, int, int]] = []
    values: list[tuple[Value, ...]] = []
    for rank, of_rank in enumerate(program.ranks):
        for chunk, first in _cells_held(program, cells, rank, 0, of_rank.input):
            sources[chunk].append((rank, first[0]))
    number_of: dict[tuple[int, int], int] = {}
    for rank, of_rank in enumerate(program.ranks):
        for chunk, held in _cells_held(program, cells, rank, 1, of_rank.output):
            for piece, cell in enumerate(held):
                key = (chunk, piece)
                if key not in number_of:
                    number_of[key] = len(values)
                    values.append(_value(sources[chunk], piece, program.sums[chunk]))
                wanted.append((rank, cell, number_of[key]))
    columns = np.array(wanted, dtype=np.int64).reshape(-1, 3).T
    sizes = cells.layout.chunks
    return Expectation(
        collective=plain_name(program.collective),
        input_size=sizes[:, 0],
        output_size=sizes[:, 1],
        in_place_shift=np.zeros(len(sizes), dtype=np.int64),
        has_input=np.array([any(chunk >= 0 for chunk in rank.input) for rank in program.ranks]),
        has_output=np.ones(len(sizes), dtype=np.bool_),
        wanted_rank=columns[0],
        wanted_offset=columns[1],
        wanted_value=columns[2],
        values=tuple(values),
        root=program.root,
    )


def _cells_held(
    program: ActionsProgram, cells: Cells, rank: int, column: int, held: Sequence[int]
) -> list[tuple[int, range]]:
    """Each chunk of a buffer with its cells there."""
    bounds = [cells.within(rank, column, start) for start in held_starts(program, held)]
    return [
        (chunk, range(first, end))
        for chunk, first, end in zip(held, bounds, bounds[1:], strict=False)
        if chunk >= 0
    ]


def _value(sources: Sequence[tuple[int, int]], piece: int, is_sum: bool) -> tuple[Value, ...]:
    """The piece of a chunk: the sum of all inputs that hold it, or any one of them."""
    if not is_sum:
        return tuple(((first + piece, 1 << rank, 0),) for rank, first in sources)
    ranks_at: dict[int, int] = {}
    for rank, first in sources:
        ranks_at[first + piece] = ranks_at.get(first + piece, 0) | 1 << rank
    return (tuple((offset, ranks_at[offset], 0) for offset in sorted(ranks_at)),)


def _check_standard(
    program: ActionsProgram, expectation: Expectation, cells: Cells, collector: Collector
) -> None:
    """A file that names a standard collective says the same of its chunks as everybody."""
    name, ranks = expectation.collective, len(program.ranks)
    if name not in STANDARD:
        return
    elements = int(max(buffer_elements(program)[:, :2].max(initial=0), 1))
    if program.call_elements != elements:
        message = f"the size of a call of {name} has {elements} elements, not {program.call_elements}"
        hint = f"call_elements {elements}"
        collector.add(Finding("structure", "error", "call-elements", message, hint=hint))
    call = int(max(cells.layout.chunks[:, :2].max(initial=0), 1))
    if name in ("gather", "scatter"):
        call //= ranks
    standard = specification(name, ranks, call, program.root)
    if _meant(standard) != _meant(expectation):
        message = f"inputs and outputs do not hold the chunks of {name} where everybody has them"
        hint = "name it otherwise, if it is a collective of your own"
        collector.add(Finding("meaning", "error", "not-standard", message, hint=hint))


def _meant(expectation: Expectation) -> dict[tuple[int, int], tuple[Value, ...]]:
    """By rank and cell of the output, what must be there."""
    rows = zip(
        expectation.wanted_rank.tolist(),
        expectation.wanted_offset.tolist(),
        expectation.wanted_value.tolist(),
        strict=True,
    )
    return {(rank, cell): expectation.values[value] for rank, cell, value in rows}


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

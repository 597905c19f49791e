"""The structure of a file of actions: every number names something, and every message has two ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from taccl.backend.flat_json.cells import COLUMN, buffer_elements
from taccl.backend.flat_json.document import Action, ActionsProgram, Do
from taccl.backend.machine.expected import STANDARD, is_rooted
from taccl.backend.machine.report import Collector, Finding
from taccl.backend.program import Buffer
from taccl.model.collectives import parts_of_call, plain_name

#: Of a faulty action: the rule, what follows its name, and what to do.
Fault = tuple[str, str, str]
#: A rule for one action of a rank.
_Rule = Callable[["Subject", int, int, Action], Iterator[Fault]]


@dataclass(frozen=True, eq=False)
class Subject:
    """A program, and the elements of its buffers, by rank and column."""

    program: ActionsProgram
    sizes: list[list[int]]


def check_structure(program: ActionsProgram, collector: Collector) -> None:
    """Findings for all that keeps a program from being executed."""
    _check_header(program, collector)
    if collector.fatal:
        return
    subject = Subject(program, buffer_elements(program).tolist())
    for rank, of_rank in enumerate(program.ranks):
        for index, action in enumerate(of_rank.actions):
            for rule in _RULES:
                for name, message, hint in rule(subject, rank, index, action):
                    collector.add(_finding(rank, index, action, name, message, hint), fatal=True)
    if not collector.fatal:
        _check_messages(program, collector)


def _check_header(program: ActionsProgram, collector: Collector) -> None:
    def refuse(rule: str, message: str, hint: str) -> None:
        collector.add(Finding("structure", "error", rule, message, hint=hint), fatal=True)

    if not program.ranks:
        refuse("no-ranks", "the file has no ranks", "list what each rank does under ranks")
    if program.min_bytes > program.max_bytes:
        refuse("sizes", f"no call is of {program.min_bytes} to {program.max_bytes} bytes", "swap them")
    root, name = program.root, plain_name(program.collective)
    parts = parts_of_call(name, len(program.ranks))
    made_for = program.call_elements * program.element_bytes // max(1, parts)
    if program.ranks and not program.min_bytes <= made_for <= program.max_bytes:
        refuse(
            "sizes",
            f"it is made for calls of {made_for} bytes (call_elements of element_bytes), and serves those of "
            f"{program.min_bytes} to {program.max_bytes}",
            "min_bytes and max_bytes around that size",
        )
    if root is not None and not 0 <= root < len(program.ranks):
        refuse("root", f"the root is rank {root}, and there are {len(program.ranks)}", "name one of them")
    if name in STANDARD and is_rooted(name) != (root is not None):
        has = "has a root" if is_rooted(name) else "has no root"
        refuse("root", f"{name} {has}", "a number, or null")
    _check_buffers(program, refuse)


def _check_buffers(program: ActionsProgram, refuse: Callable[[str, str, str], None]) -> None:
    """A buffer has a chunk once, and what an output wants is in some input."""
    sources = {chunk for of_rank in program.ranks for chunk in of_rank.input} | {-1}
    for rank, of_rank in enumerate(program.ranks):
        for word, held in (("input", of_rank.input), ("output", of_rank.output)):
            chunks = [chunk for chunk in held if chunk >= 0]
            if len(set(chunks)) < len(chunks):
                refuse("chunk-twice", f"the {word} of rank {rank} has a chunk twice", "list each once")
        if nowhere := set(of_rank.output) - sources:
            message = f"the output of rank {rank} wants chunk {min(nowhere)}, which no input has"
            refuse("no-source", message, "list it in the input of whichever rank has it at the start")


def _waits_for_earlier(subject: Subject, rank: int, index: int, action: Action) -> Iterator[Fault]:
    for other in action.after:
        if not 0 <= other < index:
            message = f"waits for action {other}, which is not before it in the list of its rank"
            yield "after", message, "put an action behind all that it waits for"


def _stays_inside(subject: Subject, rank: int, index: int, action: Action) -> Iterator[Fault]:
    for span in (action.source, action.target):
        if span is not None:
            size, end = subject.sizes[rank][COLUMN[span.buffer]], span.offset + action.elements
            if end > size:
                word = span.buffer.name.lower()
                message = f"touches elements up to {end - 1} of {word}, which has {size}"
                yield "out-of-bounds", message, "make the buffer larger, or the action smaller"


def _leaves_the_input(subject: Subject, rank: int, index: int, action: Action) -> Iterator[Fault]:
    if action.target is not None and action.target.buffer is Buffer.INPUT:
        yield (
            "input-changed",
            "writes to the input, which must not change",
            "write to scratch or to the output",
        )


def _has_a_peer(subject: Subject, rank: int, index: int, action: Action) -> Iterator[Fault]:
    if action.do.travels and (action.peer == rank or action.peer >= len(subject.program.ranks)):
        yield "peer", f"names rank {action.peer} as its peer", "another rank of the file"


def _overlaps_nothing(subject: Subject, rank: int, index: int, action: Action) -> Iterator[Fault]:
    source, target = action.source, action.target
    if source is not None and target is not None and source.buffer is target.buffer:
        apart = abs(source.offset - target.offset)
        if apart < action.elements and (apart or action.do is Do.REDUCE):
            yield "overlap", "reads elements that it is writing", "cut it into actions that do not overlap"


_RULES: tuple[_Rule, ...] = (
    _waits_for_earlier,
    _stays_inside,
    _leaves_the_input,
    _has_a_peer,
    _overlaps_nothing,
)


def _check_messages(program: ActionsProgram, collector: Collector) -> None:
    """Each message is sent once and received once, with as many elements."""
    ends: dict[Do, dict[tuple[int, int, int], tuple[int, int]]] = {Do.SEND: {}, Do.RECEIVE: {}}
    for rank, of_rank in enumerate(program.ranks):
        for index, action in enumerate(of_rank.actions):
            if action.do.travels:
                pair = (rank, action.peer) if action.do is Do.SEND else (action.peer, rank)
                key = (*pair, action.message)
                if key in ends[action.do]:
                    message = (
                        f"is the second {action.do.value} of message {action.message} between the two ranks"
                    )
                    hint = "give every message from a rank to another a number of its own"
                    finding = _finding(rank, index, action, "message-twice", message, hint)
                    collector.add(finding, fatal=True)
                ends[action.do][key] = rank, index
    for do, other in ((Do.SEND, Do.RECEIVE), (Do.RECEIVE, Do.SEND)):
        for key, (rank, index) in ends[do].items():
            action = program.ranks[rank].actions[index]
            if key not in ends[other]:
                message = f"has no {other.value} of message {action.message} at rank {action.peer}"
                hint = f"let rank {action.peer} {other.value} it"
                collector.add(_finding(rank, index, action, "unmatched", message, hint), fatal=True)
                continue
            there, number = ends[other][key]
            elements = program.ranks[there].actions[number].elements
            if do is Do.RECEIVE and elements != action.elements:
                message = f"receives {action.elements} elements where rank {there} sends {elements}"
                collector.add(
                    _finding(rank, index, action, "mismatch", message, "make them equal"), fatal=True
                )


def _finding(rank: int, index: int, action: Action, rule: str, message: str, hint: str) -> Finding:
    said = f"rank {rank}, action {index} ({action.do.value}) {message}"
    return Finding("structure", "error", rule, said, rank=rank, step=index, hint=hint)

"""MSCCL-XML to `Program`, in every dialect that is about.

Strict on structure: a step that cannot be understood, a number that is none, two thread blocks with one
id are faults with their line. `read_xml` raises the first of them; `read_document`, for `verify`, goes on
with the best guess and hands over all of them next to the program, the raw elements and the text. Lenient on
attributes that some writer leaves out: they get what the runtimes document as the default (`minBytes` 0,
`maxBytes` 2**27, `outofplace` the opposite of `inplace`), or what leaving them out must have meant.
Elements that every runtime skips are skipped. Whether a runtime would take the file is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from taccl.backend.msccl_xml.plain_steps import PlainSteps, take_plain_steps
from taccl.backend.program import Buffer, Op, Program, Protocol, RankProgram, Step, ThreadBlock
from taccl.errors import XmlError
from taccl.support.gc_paused import gc_paused
from taccl.support.reading import bytes_of
from taccl.support.xml_elements import Dialect, Element, parse_elements

#: `maxBytes` where a file has none: microsoft/msccl's default.
DEFAULT_MAX_BYTES = 2**27
#: Ranks are 16-bit numbers in every runtime.
MAX_RANKS = 2**15
#: A 64-rank AllReduce of 100,000 steps has 13 million bytes. algo, gpu, tb and step are four deep; the rest
#: is room for elements that the runtimes skip.
_DIALECT = Dialect(
    what="MSCCL program",
    hint="give the XML file that a synthesizer or msccl-tools wrote, unedited",
    max_bytes=256 * 2**20,
    max_depth=16,
)

_READS_SOURCE = frozenset(Op) - {Op.RECV, Op.RECV_COPY_SEND, Op.NOP}
_WRITES_TARGET = frozenset(Op) - {Op.SEND, Op.RECV_REDUCE_SEND, Op.NOP}
#: So much of a file is looked at to see what it is, in bytes.
_BEGINNING = 2**13
_BETWEEN_ELEMENTS = re.compile(rb"<!--.*?-->|<[?!][^>]*>", re.DOTALL)
#: What may stand before it is space and a byte order mark.
_FIRST_ELEMENT = re.compile(rb"\A[^<]*<algo(?:[\s/>]|\Z)")
_NUMBER = re.compile(r"[ \t\n\r]*([+-]?)(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*))")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in a file that cannot be understood.

    Parameters
    ----------
    rank, thread_block : where, as far as it lies in one.
    missing : an attribute is not there.
    refused : every runtime refuses to load the file because of it.
    guessed : the program has a guess in its place, and executing it would mean nothing. Otherwise it has what
        the runtimes read.
    """

    line: int
    message: str
    hint: str | None
    rank: int | None
    thread_block: int | None
    missing: bool
    refused: bool
    guessed: bool


@dataclass(frozen=True, eq=False)
class Document:
    """A program and where it came from.

    Parameters
    ----------
    program : what the runtimes would execute.
    algo : the root element, with every attribute as it was written.
    text : the file's bytes, for the runtimes' own scanner is pickier than XML; without plain steps.
    path : None for a text that came from no file.
    faults : what could not be understood.
    ignored : the elements after the first.
    plain_steps : of a long file, what stood in those <tb> whose steps are all plain. These have no children.
    """

    program: Program
    algo: Element
    text: bytes
    path: str | None = None
    faults: tuple[Fault, ...] = ()
    ignored: tuple[Element, ...] = ()
    plain_steps: Mapping[Element, PlainSteps] = field(default_factory=dict)


def read_xml(path: str | Path) -> Program:
    """The program in an MSCCL-XML file.

    Raises
    ------
    FileError : no such file, a directory, no permission.
    XmlError : not XML, or anything in it that cannot be understood.
    """
    return _document(bytes_of(path, _DIALECT.max_bytes + 1), path, strict=True).program


def parse_xml(text: str | bytes, path: str | Path | None = None) -> Program:
    """The program in an MSCCL-XML text; raises `XmlError`. `path` is for messages."""
    return _document(text, path, strict=True).program


def read_document(path: str | Path) -> Document:
    """An MSCCL-XML file, with all that `verify` wants to know about it.

    Raises
    ------
    FileError : no such file, a directory, no permission.
    XmlError : not XML, or another kind of XML.
    """
    return _document(bytes_of(path, _DIALECT.max_bytes + 1), path, strict=False)


def parse_document(text: str | bytes, path: str | Path | None = None) -> Document:
    """An MSCCL-XML text, with all that `verify` wants to know about it; raises `XmlError`."""
    return _document(text, path, strict=False)


def begins_as_program(content: bytes) -> bool:
    """Whether the first element of a file is that of MSCCL-XML, in whatever encoding, well formed or not."""
    beginning = content[:_BEGINNING].replace(b"\0", b"")
    return _FIRST_ELEMENT.search(_BETWEEN_ELEMENTS.sub(b"", beginning)) is not None


@gc_paused()
def _document(text: str | bytes, path: str | Path | None, strict: bool) -> Document:
    where = None if path is None else str(path)
    if isinstance(text, str):
        data, encoding = text.encode("utf-8", errors="replace"), "utf-8"
    else:
        data, encoding = text, None
    if not data.strip():
        raise XmlError("the file is empty", path=where, hint="synthesize it again")
    data, (algo, *ignored), plain_steps = _elements(data, where, encoding)
    reader = _Reader(where, strict, plain_steps)
    program = reader.program(algo)
    return Document(program, algo, data, where, tuple(reader.faults), tuple(ignored), plain_steps)


def _elements(
    data: bytes, where: str | None, encoding: str | None
) -> tuple[bytes, tuple[Element, ...], dict[Element, PlainSteps]]:
    """The text without plain steps, the elements in it, and the plain steps of each <tb> that has no others.

    Whatever is refused is refused for what stands in the whole text.
    """
    taken = take_plain_steps(data) if len(data) <= _DIALECT.max_bytes else None
    if taken is not None:
        rest, steps = taken
        try:
            roots = parse_elements(rest, where, _DIALECT, encoding)
        except XmlError:
            return data, parse_elements(data, where, _DIALECT, encoding), {}
        blocks = [each for root in roots for each in _walk(root) if each[0].tag == "tb"]
        if all(depth < _DIALECT.max_depth for _, depth in blocks):
            paired = zip(blocks, steps, strict=True)
            return rest, roots, {block: plain for (block, _), plain in paired if plain is not None}
    return data, parse_elements(data, where, _DIALECT, encoding), {}


#: A dictionary finds a member by its word several times faster than the Enum itself does.
_OPS = {op.value: op for op in Op}
_BUFFERS = {buffer.value: buffer for buffer in Buffer}
_PROTOCOLS = {protocol.value: protocol for protocol in Protocol}
_Choice = TypeVar("_Choice", Op, Buffer, Protocol)


class _Reader:
    """Element by element to the program; holds where it is, for messages, and the faults found."""

    def __init__(self, path: str | None, strict: bool, plain_steps: Mapping[Element, PlainSteps]) -> None:
        self.path, self.strict, self.plain_steps = path, strict, plain_steps
        self.faults: list[Fault] = []
        self.rank: int | None = None
        self.block: int | None = None

    def program(self, algo: Element) -> Program:
        if algo.tag != "algo":
            message = f"the first element is <{algo.tag}>, not <algo>"
            raise XmlError(message, path=self.path, line=algo.line)
        gpus = [child for child in algo.children if child.tag == "gpu"]
        num_ranks = self._whole(algo, "ngpus", default=len(gpus))
        if not 1 <= num_ranks <= MAX_RANKS:
            self._fault(algo, f"ngpus is {num_ranks}; it must be 1 .. {MAX_RANKS}")
            num_ranks = min(max(1, len(gpus)), MAX_RANKS)
        ranks = [RankProgram(rank, 0, 0, 0, ()) for rank in range(num_ranks)]
        for element in gpus:
            self.rank = self.block = None
            number = self.rank = self._whole(element, "id", default=None)
            if not 0 <= number < num_ranks:
                continue  # no rank looks for it
            if ranks[number].line is not None:
                self._fault(element, f"gpu {number} is given twice, first on line {ranks[number].line}")
                continue
            ranks[number] = self._rank(element, number)
        self.rank = self.block = None
        channels = [block.channel for rank in ranks for block in rank.thread_blocks]
        in_place = self._whole(algo, "inplace", default=0) != 0
        return Program(
            name=algo.attributes.get("name", ""),
            collective=algo.attributes.get("coll", ""),
            num_ranks=num_ranks,
            num_channels=self._whole(algo, "nchannels", default=1 + max(channels, default=0)),
            chunks_per_loop=self._whole(algo, "nchunksperloop"),
            protocol=self._choice(algo, "proto", _PROTOCOLS, default=Protocol.SIMPLE),
            in_place=in_place,
            out_of_place=self._whole(algo, "outofplace", default=int(not in_place)) != 0,
            min_bytes=self._whole(algo, "minBytes", default=0, bits=64),
            max_bytes=self._whole(algo, "maxBytes", default=DEFAULT_MAX_BYTES, bits=64),
            ranks=tuple(ranks),
        )

    def _rank(self, gpu: Element, number: int) -> RankProgram:
        blocks: dict[int, ThreadBlock] = {}
        for element in gpu.children:
            if element.tag != "tb":
                self._refuse_misplaced(element, "gpu")
                continue
            block = self._block(element)
            if block.id in blocks:
                first = blocks[block.id].line
                message = f"thread block {block.id} is given twice, first on line {first}"
                self._fault(element, message, refused=True)
                continue
            blocks[block.id] = block
        self.block = None
        return RankProgram(
            rank=number,
            input_chunks=self._whole(gpu, "i_chunks"),
            output_chunks=self._whole(gpu, "o_chunks"),
            scratch_chunks=self._whole(gpu, "s_chunks"),
            thread_blocks=tuple(blocks[block_id] for block_id in sorted(blocks)),
            line=gpu.line,
        )

    def _block(self, tb: Element) -> ThreadBlock:
        self.block = None
        number = self.block = self._whole(tb, "id")
        for element in tb.children:
            if element.tag != "step":
                self._refuse_misplaced(element, "tb")
        plain = self.plain_steps.get(tb)
        return ThreadBlock(
            id=number,
            send=self._whole(tb, "send", default=-1),
            recv=self._whole(tb, "recv", default=-1),
            channel=self._whole(tb, "chan", default=0),
            steps=plain.steps
            if plain is not None
            else tuple(self._step(step) for step in tb.children if step.tag == "step"),
            line=tb.line,
        )

    def _step(self, step: Element) -> Step:
        op = self._choice(step, "type", _OPS)
        depends_on = self._whole(step, "depid", default=-1)
        has_dependent = self._whole(step, "hasdep", default=0)
        if has_dependent not in (0, 1) and (op is not Op.NOP or self.strict):
            self._fault(step, f"hasdep is {has_dependent}; it must be 0 or 1", refused=True)
        src, src_offset = self._place(step, "src", needed=op in _READS_SOURCE)
        dst, dst_offset = self._place(step, "dst", needed=op in _WRITES_TARGET)
        return Step(
            op=op,
            src=src or dst or Buffer.INPUT,
            src_offset=src_offset,
            dst=dst or src or Buffer.OUTPUT,
            dst_offset=dst_offset,
            count=self._whole(step, "cnt", default=0 if op is Op.NOP else None),
            depends=None if depends_on < 0 else (depends_on, self._whole(step, "deps")),
            has_dependent=has_dependent != 0,
            line=step.line,
        )

    def _place(self, step: Element, side: str, needed: bool) -> tuple[Buffer | None, int]:
        """Buffer and offset; an operand that the step does not use may be missing."""
        if not needed and f"{side}buf" not in step.attributes:
            return None, -1
        buffer = self._choice(step, f"{side}buf", _BUFFERS)
        return buffer, self._whole(step, f"{side}off", default=None if needed else -1)

    def _whole(self, element: Element, name: str, default: int | None = None, bits: int = 32) -> int:
        """A whole number as the runtimes' strtol(base 0) reads it, but nothing may follow it."""
        text = element.attributes.get(name)
        if text is None:
            if default is not None:
                return default
            self._fault(element, f"<{element.tag}> has no attribute {name}", missing=True, refused=True)
            return 0
        value = parse_whole(text)
        if value is None:
            value = parse_beginning(text)
            self._fault(
                element,
                f"{name} is {text[:40]!r}, which is not a whole number; the runtimes read it as {value}",
                hint="write digits only",
                guessed=False,
            )
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            self._fault(element, f"{name} is {text[:40]}, which does not fit in {bits} bits")
            return 0
        return value

    def _choice(
        self,
        element: Element,
        name: str,
        members: dict[str, _Choice],
        default: _Choice | None = None,
    ) -> _Choice:
        text = element.attributes.get(name)
        if text is None and default is not None:
            return default
        member = members.get(text) if text is not None else None
        if member is None:
            known = ", ".join(members)
            if text is None:
                self._fault(element, f"<{element.tag}> has no attribute {name}", missing=True, refused=True)
            else:
                self._fault(element, f"{name} is {text[:40]!r}", hint=f"one of {known}", refused=True)
            return next(iter(members.values()))
        return member

    def _refuse_misplaced(self, element: Element, parent: str) -> None:
        """The runtimes skip elements that they do not know where they stand; nobody means it with these."""
        if self.strict and any(inner.tag in ("algo", "gpu", "tb", "step") for inner, _ in _walk(element)):
            self._fault(element, f"<{element.tag}> cannot stand inside <{parent}>")

    def _fault(
        self,
        element: Element,
        message: str,
        hint: str | None = None,
        *,
        missing: bool = False,
        refused: bool = False,
        guessed: bool = True,
    ) -> None:
        if self.strict:
            raise XmlError(message, path=self.path, line=element.line, hint=hint)
        self.faults.append(
            Fault(element.line, message, hint, self.rank, self.block, missing, refused, guessed)
        )


@lru_cache(maxsize=65536)
def parse_whole(text: str) -> int | None:
    """The number in `text` as C's strtol with base 0 reads it (0x10 is 16, 010 is 8), else None."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    sign, hexadecimal, octal, decimal = match.groups()
    digits, base = next((d, b) for d, b in ((hexadecimal, 16), (octal, 8), (decimal, 10)) if d)
    if len(digits) > 30:
        return 2**80
    return int(sign + digits, base)


def parse_beginning(text: str) -> int:
    """The number that `text` begins with, as C's strtol with base 0 finds it; 0 if with none."""
    match = _NUMBER.match(text)
    value = None if match is None else parse_whole(match.group())
    return 0 if value is None else value


def _walk(element: Element, depth: int = 1) -> Iterator[tuple[Element, int]]:
    """An element and all in it, in the order of the text, each with how deep it is nested."""
    yield element, depth
    for child in element.children:
        yield from _walk(child, depth + 1)

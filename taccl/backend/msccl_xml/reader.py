"""MSCCL-XML to `Program`, in every dialect that is about.

Strict on structure: wrong nesting, a step that cannot be understood, a number that is none, two
thread blocks with one id are an `XmlError` with the line. Lenient on attributes that some writer
leaves out: they get what the runtimes document as the default (`minBytes` 0, `maxBytes` 2**27,
`outofplace` the opposite of `inplace`), or what leaving them out must have meant. Whether a runtime
would take the file is not decided here but in `verify`, which therefore gets the `Document`: the
program beside the raw elements and the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from taccl.backend.msccl_xml.elements import MAX_BYTES, Element, parse_elements
from taccl.backend.program import Buffer, Op, Program, Protocol, RankProgram, Step, ThreadBlock
from taccl.errors import FileError, XmlError

#: `maxBytes` where a file has none: microsoft/msccl's default.
DEFAULT_MAX_BYTES = 2**27
#: Ranks are 16-bit numbers in every runtime.
MAX_RANKS = 2**15

_READS_SOURCE = frozenset(Op) - {Op.RECV, Op.RECV_COPY_SEND, Op.NOP}
_WRITES_TARGET = frozenset(Op) - {Op.SEND, Op.RECV_REDUCE_SEND, Op.NOP}
_NUMBER = re.compile(r"[ \t\n\r]*([+-]?)(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*))")


@dataclass(frozen=True, eq=False)
class Document:
    """A program and where it came from.

    Parameters
    ----------
    program : what the runtimes would execute.
    algo : the root element, with every attribute as it was written.
    text : the file's bytes, for the runtimes' own scanner is pickier than XML.
    path : None for a text that came from no file.
    """

    program: Program
    algo: Element
    text: bytes
    path: str | None = None


def read_xml(path: str | Path) -> Program:
    """The program in an MSCCL-XML file; raises as `read_document` does."""
    return read_document(path).program


def parse_xml(text: str, path: str | Path | None = None) -> Program:
    """The program in an MSCCL-XML text; raises `XmlError`. `path` is for messages."""
    return parse_document(text, path).program


def read_document(path: str | Path) -> Document:
    """An MSCCL-XML file, with all that `verify` wants to know about it.

    Raises
    ------
    FileError : no such file, a directory, no permission.
    XmlError : not XML, or XML whose structure is not MSCCL-XML's.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileError(f"cannot be read: {reason}", path=path) from None
    return parse_document(data, path)


def parse_document(text: str | bytes, path: str | Path | None = None) -> Document:
    """An MSCCL-XML text, with all that `verify` wants to know about it; raises `XmlError`."""
    where = None if path is None else str(path)
    if isinstance(text, str):
        data, encoding = text.encode("utf-8", errors="replace"), "utf-8"
    else:
        data, encoding = text, None
    if not data.strip():
        raise XmlError("the file is empty", path=where, hint="synthesize it again")
    algo = parse_elements(data, where, encoding)
    return Document(_Reader(where).program(algo), algo, data, where)


#: A dictionary finds a member by its word several times faster than the Enum itself does.
_MEMBERS: dict[type, dict[str, Op | Buffer | Protocol]] = {
    kind: {member.value: member for member in kind} for kind in (Op, Buffer, Protocol)
}
_Choice = TypeVar("_Choice", Op, Buffer, Protocol)


class _Reader:
    """Element by element to the program; holds the path for messages and nothing else."""

    def __init__(self, path: str | None) -> None:
        self.path = path

    def program(self, algo: Element) -> Program:
        if algo.tag != "algo":
            raise self._error(algo, f"the first element is <{algo.tag}>, not <algo>")
        gpus = [child for child in algo.children if child.tag == "gpu"]
        num_ranks = self._whole(algo, "ngpus", default=len(gpus))
        if not 1 <= num_ranks <= MAX_RANKS:
            raise self._error(algo, f"ngpus is {num_ranks}; it must be 1 .. {MAX_RANKS}")
        ranks = [RankProgram(rank, 0, 0, 0, ()) for rank in range(num_ranks)]
        for element in gpus:
            rank = self._rank(element)
            if rank.rank >= num_ranks or rank.rank < 0:
                raise self._error(element, f"gpu id {rank.rank} is outside 0 .. {num_ranks - 1} (ngpus)")
            if ranks[rank.rank].line is not None:
                raise self._error(
                    element, f"gpu {rank.rank} is given twice, first on line {ranks[rank.rank].line}"
                )
            ranks[rank.rank] = rank
        channels = [block.channel for rank in ranks for block in rank.thread_blocks]
        in_place = self._whole(algo, "inplace", default=0) != 0
        return Program(
            name=algo.attributes.get("name", ""),
            collective=algo.attributes.get("coll", ""),
            num_ranks=num_ranks,
            num_channels=self._whole(algo, "nchannels", default=1 + max(channels, default=0)),
            chunks_per_loop=self._whole(algo, "nchunksperloop"),
            protocol=self._choice(algo, "proto", Protocol, default=Protocol.SIMPLE),
            in_place=in_place,
            out_of_place=self._whole(algo, "outofplace", default=int(not in_place)) != 0,
            min_bytes=self._whole(algo, "minBytes", default=0, bits=64),
            max_bytes=self._whole(algo, "maxBytes", default=DEFAULT_MAX_BYTES, bits=64),
            ranks=tuple(ranks),
        )

    def _rank(self, gpu: Element) -> RankProgram:
        blocks: dict[int, ThreadBlock] = {}
        for element in gpu.children:
            if element.tag != "tb":
                self._refuse_misplaced(element, "gpu")
                continue
            block = self._block(element)
            if block.id in blocks:
                raise self._error(
                    element, f"thread block {block.id} is given twice, first on line {blocks[block.id].line}"
                )
            blocks[block.id] = block
        return RankProgram(
            rank=self._whole(gpu, "id"),
            input_chunks=self._whole(gpu, "i_chunks"),
            output_chunks=self._whole(gpu, "o_chunks"),
            scratch_chunks=self._whole(gpu, "s_chunks"),
            thread_blocks=tuple(blocks[block_id] for block_id in sorted(blocks)),
            line=gpu.line,
        )

    def _block(self, tb: Element) -> ThreadBlock:
        for element in tb.children:
            if element.tag != "step":
                self._refuse_misplaced(element, "tb")
        return ThreadBlock(
            id=self._whole(tb, "id"),
            send=self._whole(tb, "send", default=-1),
            recv=self._whole(tb, "recv", default=-1),
            channel=self._whole(tb, "chan", default=0),
            steps=tuple(self._step(step) for step in tb.children if step.tag == "step"),
            line=tb.line,
        )

    def _step(self, step: Element) -> Step:
        op = self._choice(step, "type", Op)
        depends_on = self._whole(step, "depid", default=-1)
        has_dependent = self._whole(step, "hasdep", default=0)
        if has_dependent not in (0, 1):
            raise self._error(step, f"hasdep is {has_dependent}; it must be 0 or 1")
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
            has_dependent=has_dependent == 1,
            line=step.line,
        )

    def _place(self, step: Element, side: str, needed: bool) -> tuple[Buffer | None, int]:
        """Buffer and offset; an operand that the step does not use may be missing."""
        if not needed and f"{side}buf" not in step.attributes:
            return None, -1
        buffer = self._choice(step, f"{side}buf", Buffer)
        return buffer, self._whole(step, f"{side}off", default=None if needed else -1)

    def _whole(self, element: Element, name: str, default: int | None = None, bits: int = 32) -> int:
        """A whole number as the runtimes' strtol(base 0) reads it, but nothing may follow it."""
        text = element.attributes.get(name)
        if text is None:
            if default is None:
                raise self._error(element, f"<{element.tag}> has no attribute {name}")
            return default
        value = parse_whole(text)
        if value is None:
            raise self._error(
                element,
                f"{name} is {text[:40]!r}, which is not a whole number",
                hint="write digits only; the runtimes would read what they can of it and go on",
            )
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise self._error(element, f"{name} is {text[:40]}, which does not fit in {bits} bits")
        return value

    def _choice(
        self, element: Element, name: str, kind: type[_Choice], default: _Choice | None = None
    ) -> _Choice:
        text = element.attributes.get(name)
        if text is None:
            if default is None:
                raise self._error(element, f"<{element.tag}> has no attribute {name}")
            return default
        member = _MEMBERS[kind].get(text)
        if member is None:
            known = ", ".join(member.value for member in kind)
            raise self._error(element, f"{name} is {text[:40]!r}", hint=f"one of {known}")
        return member  # type: ignore[return-value]

    def _refuse_misplaced(self, element: Element, parent: str) -> None:
        """Unknown elements are skipped, as the runtimes do; known ones in the wrong place are not."""
        if any(inner.tag in ("algo", "gpu", "tb", "step") for inner in _walk(element)):
            raise self._error(element, f"<{element.tag}> cannot stand inside <{parent}>")

    def _error(self, element: Element, message: str, hint: str | None = None) -> XmlError:
        return XmlError(message, path=self.path, line=element.line, hint=hint)


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


def _walk(element: Element) -> Iterator[Element]:
    yield element
    for child in element.children:
        yield from _walk(child)

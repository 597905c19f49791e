"""A program as an MSCCL-XML file.

The runtimes scan the file with a hand-written reader that is no XML parser, so the form is exact: no
declaration, double quotes, one blank between attributes, no line break inside a tag, and every
attribute that any runtime asks for, on every element.
"""

from __future__ import annotations

from collections.abc import Iterator

from taccl.backend.program import Program, Step, ThreadBlock
from taccl.errors import XmlError

_LONGEST_NAME = 63
_FORBIDDEN = set("\"'<>&=")


def to_xml(program: Program) -> str:
    """The text of the file, ASCII, ending with a line break.

    Raises
    ------
    XmlError : a name that the runtimes cannot read back.
    """
    _check_name(program)
    return "\n".join(_lines(program)) + "\n"


def _check_name(program: Program) -> None:
    name = program.name
    if not 0 < len(name) <= _LONGEST_NAME or not name.isascii() or not name.isprintable():
        raise XmlError(
            f"{name!r} cannot be the name of a program",
            hint=f"1 to {_LONGEST_NAME} printable ASCII characters",
        )
    if _FORBIDDEN & set(name):
        raise XmlError(f"{name!r} cannot be the name of a program", hint="leave out \" ' < > & and =")
    if name == "2D" and program.collective == "alltoall":
        raise XmlError(
            "microsoft/msccl runs its own algorithm for an alltoall named '2D', not the steps of the file",
            hint="another name",
        )


def _lines(program: Program) -> Iterator[str]:
    yield (
        f'<algo name="{program.name}" proto="{program.protocol.value}" nchannels="{program.num_channels}" '
        f'nchunksperloop="{program.chunks_per_loop}" ngpus="{program.num_ranks}" coll="{program.collective}" '
        f'inplace="{int(program.in_place)}" outofplace="{int(program.out_of_place)}" '
        f'minBytes="{program.min_bytes}" maxBytes="{program.max_bytes}">'
    )
    for rank in program.ranks:
        yield (
            f'  <gpu id="{rank.rank}" i_chunks="{rank.input_chunks}" o_chunks="{rank.output_chunks}" '
            f's_chunks="{rank.scratch_chunks}">'
        )
        for block in rank.thread_blocks:
            yield from _block_lines(block)
        yield "  </gpu>"
    yield "</algo>"


def _block_lines(block: ThreadBlock) -> Iterator[str]:
    yield f'    <tb id="{block.id}" send="{block.send}" recv="{block.recv}" chan="{block.channel}">'
    for number, step in enumerate(block.steps):
        yield "      " + _step(number, step)
    yield "    </tb>"


def _step(number: int, step: Step) -> str:
    block, dependency = step.depends if step.depends is not None else (-1, -1)
    return (
        f'<step s="{number}" type="{step.op.value}" srcbuf="{step.src.value}" srcoff="{step.src_offset}" '
        f'dstbuf="{step.dst.value}" dstoff="{step.dst_offset}" cnt="{step.count}" '
        f'depid="{block}" deps="{dependency}" hasdep="{int(step.has_dependent)}"/>'
    )

"""What a file that is to be simulated says: a program, its collective, and the schedule if it is one.

It knows files and what verification refuses; it knows no machine, size or time.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from pathlib import Path

from taccl.backend.lower import lower
from taccl.backend.lower.instances import cut_in_place
from taccl.backend.msccl_xml import Document, parse_document, to_xml
from taccl.backend.program import Program
from taccl.backend.targets import program_of_file, target_of_file
from taccl.backend.verify import refusals_of, verify_program
from taccl.collective import Collective
from taccl.collective_file import load_collective
from taccl.collectives import COLLECTIVES, make_collective
from taccl.errors import CollectiveError, VerificationError
from taccl.files import read_bytes
from taccl.schedule import SavedSchedule

_ROOTED = ("broadcast", "reduce", "gather", "scatter")
#: Reasons for a refusal that are written out.
_FINDINGS = 5


@dataclass(frozen=True)
class Subject:
    """A program and what it is for.

    `cut`: the collective's chunks in one of the program's. Above 1 where the program's chunks are too few for
    equal parts of all ranks; bounds for finer chunks hold for it too.
    """

    program: Program
    collective: Collective
    cut: int
    saved: SavedSchedule | None = None

    @property
    def default_size(self) -> int | None:
        """The size that a schedule was made for."""
        return None if self.saved is None else self.saved.schedule.problem.size_bytes

    @property
    def num_chunks(self) -> int:
        """The program's chunks in a size."""
        return self.collective.chunks_per_size // self.cut


def of_schedule(saved: SavedSchedule) -> Subject:
    """The program that a schedule is lowered to."""
    program = lower(saved.schedule)[0].program
    return Subject(program, saved.schedule.problem.collective, 1, saved)


def of_file(path: str | Path, custom: str | Path | None, root: int | None) -> Subject:
    """The program in a file, such as an MSCCL-XML; `custom` is a file that describes its collective.

    Raises
    ------
    FileError, CollectiveError : it cannot be read, or does not say what its size means.
    TacclError : its target's files spell no program.
    VerificationError : no runtime would execute it.
    """
    document = _document(path)
    program = document.program
    ranks, chunks = program.num_ranks, program.chunks_per_loop
    name = program.collective.lower().replace("_", "").replace("-", "")
    if custom is None and name not in COLLECTIVES:
        raise CollectiveError(
            f"coll is {program.collective!r}, which does not say what size and bound mean",
            path=path,
            hint="--collective FILE.yaml describes it",
        )
    collective = None if custom is None else load_collective(custom, ranks)
    _check_structure(document, collective, root)
    if collective is not None:
        return _of_custom(program, collective, path)
    if name in _ROOTED:
        return Subject(program, make_collective(name, ranks, chunks, _root(program, root)), 1)
    whole = lcm(chunks, ranks)
    return Subject(program, make_collective(name, ranks, whole // ranks, root), whole // chunks)


def _document(path: str | Path) -> Document:
    """What verification knows of the program in a file; what is no MSCCL-XML is put down as one first."""
    content = read_bytes(path)
    if target_of_file(path, content).read is parse_document:
        return parse_document(content, str(path))
    return parse_document(to_xml(program_of_file(path, content, "simulated")), str(path))


def _check_structure(document: Document, collective: Collective | None, root: int | None) -> None:
    """Refuse what verification refuses before it executes anything: such a program has no time."""
    findings = refusals_of(document, collective=collective, root=root)
    if findings:
        shown = [str(finding) for finding in findings[:_FINDINGS]]
        more = [f"and {len(findings) - _FINDINGS} more"] if len(findings) > _FINDINGS else []
        raise VerificationError(
            "no runtime would execute the program, so it has no time",
            findings=[*shown, *more],
            path=document.path,
            hint="taccl verify says all that is wrong",
        )


def _root(program: Program, given: int | None) -> int | None:
    """The format has no word for the root; verification finds the one that fits."""
    return given if given is not None else verify_program(program).facts.root


def _of_custom(program: Program, collective: Collective, path: str | Path) -> Subject:
    pieces, rest = divmod(program.chunks_per_loop, collective.chunks_per_size)
    if rest or not pieces:
        raise CollectiveError(
            f"the file cuts a call into {program.chunks_per_loop} chunks, which is no multiple of the "
            f"{collective.chunks_per_size} chunks of {collective.name}",
            path=path,
        )
    return Subject(program, cut_in_place(collective, pieces), 1)

"""What a file that is to be simulated says: a program, its collective, and the schedule if it is one.

It knows files and what verification refuses; it knows no machine, size or time.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from pathlib import Path

from taccl.backend.execute_plan import execute_plan
from taccl.backend.execute_plan.run import check_executable
from taccl.backend.lower import lower
from taccl.backend.lower.instances import cut_in_place
from taccl.backend.msccl_xml import Document, parse_document, to_xml
from taccl.backend.plan import ExecutionPlan
from taccl.backend.program import Program
from taccl.backend.targets.registry import program_of_file, target_of_file
from taccl.backend.verify.msccl_xml import refusals_of, verify_program
from taccl.errors import CollectiveError, VerificationError
from taccl.model.collective import Collective
from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.model.schedule import SavedSchedule
from taccl.support.files import read_bytes
from taccl.synthesis.collective_file import load_collective

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


@dataclass(frozen=True)
class PlanSubject:
    """A one-sided plan and what it is for; `cut` as in `Subject`."""

    program: ExecutionPlan
    collective: Collective
    cut: int
    saved: None = None
    default_size: None = None

    @property
    def num_chunks(self) -> int:
        """The plan's chunks in a size."""
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
    name = _known_name(program.collective, "coll", custom, path)
    collective = None if custom is None else load_collective(custom, ranks)
    _check_structure(document, collective, root)
    if collective is not None:
        return Subject(program, _cut_finer(chunks, collective, path), 1)
    if name in _ROOTED:
        return Subject(program, make_collective(name, ranks, chunks, _root(program, root)), 1)
    return Subject(program, *_cut_by_ranks(name, ranks, chunks, root))


def of_plan(
    plan: ExecutionPlan, path: str | Path, custom: str | Path | None, root: int | None
) -> PlanSubject:
    """As `of_file`, of a one-sided plan.

    Raises
    ------
    CollectiveError : it does not say what its size means.
    VerificationError : its numbers mean nothing.
    """
    check_executable(plan)
    name, ranks = _known_name(plan.collective, "collective", custom, path), plan.num_ranks
    first = plan.ranks[0]
    chunks = first.output_chunks if name == "allgather" else first.input_chunks
    if custom is not None:
        return PlanSubject(plan, _cut_finer(chunks, load_collective(custom, ranks), path), 1)
    if name in _ROOTED:
        # the plan has no word for its root; a call shows it
        found = execute_plan(plan, calls=1).root if root is None else root
        return PlanSubject(plan, make_collective(name, ranks, chunks, found), 1)
    return PlanSubject(plan, *_cut_by_ranks(name, ranks, chunks, root))


def _known_name(name: str, key: str, custom: str | Path | None, path: str | Path) -> str:
    plain = name.lower().replace("_", "").replace("-", "")
    if custom is None and plain not in COLLECTIVES:
        raise CollectiveError(
            f"{key} is {name!r}, which does not say what size and bound mean",
            path=path,
            hint="--collective FILE.yaml describes it",
        )
    return plain


def _cut_by_ranks(name: str, ranks: int, chunks: int, root: int | None) -> tuple[Collective, int]:
    """A collective whose chunks are equal parts for all ranks, and how many of them are one of the file's."""
    whole = lcm(chunks, ranks)
    return make_collective(name, ranks, whole // ranks, root), whole // chunks


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


def _cut_finer(chunks: int, collective: Collective, path: str | Path) -> Collective:
    """A custom collective, cut into the chunks of a file."""
    pieces, rest = divmod(chunks, collective.chunks_per_size)
    if rest or not pieces:
        raise CollectiveError(
            f"the file cuts a call into {chunks} chunks, which is no multiple of the "
            f"{collective.chunks_per_size} chunks of {collective.name}",
            path=path,
        )
    return cut_in_place(collective, pieces)

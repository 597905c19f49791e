"""Files for one kind of runtime as files for another: MSCCL-XML as plans for MSCCL++."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from taccl.backend.lower_plan import translate
from taccl.backend.lower_plan.fits import check_plan_fits, checked_window
from taccl.backend.mscclpp import to_json
from taccl.backend.plan import ExecutionPlan
from taccl.backend.program import Program, Protocol
from taccl.backend.targets.registry import target_of_file
from taccl.backend.verify.mscclpp import verify_plan_text
from taccl.errors import TacclError, VerificationError
from taccl.support.arguments import is_whole, shown
from taccl.support.files import read_bytes, write_atomically
from taccl.support.schemas import stamped

_FINDINGS = 5


@dataclass(frozen=True)
class ConvertedFile:
    """A plan that does what a file does.

    Parameters
    ----------
    path, program : the file, and what is in it.
    plan, text : the plan, verified, and its file.
    notes : what it does otherwise than the file says.
    """

    path: str
    program: Program
    plan: ExecutionPlan
    text: str
    notes: tuple[str, ...]

    def write(self, path: str | Path) -> None:
        """Put it into a file: all of it, or nothing at all. Raises `FileError`."""
        write_atomically(path, self.text)

    def to_dict(self, written: str | Path) -> dict[str, object]:
        """What `taccl convert --json` prints: plain values, in units by their keys.

        Parameters
        ----------
        written : the file that it was put into.
        """
        plan = self.plan
        return stamped(
            "taccl.convert/1",
            {
                "file": self.path,
                "written": str(written),
                "name": plan.name,
                "collective": plan.collective,
                "ranks": plan.num_ranks,
                "in_place": plan.in_place,
                "min_bytes": plan.min_bytes,
                "max_bytes": plan.max_bytes,
                "thread_blocks": plan.num_blocks,
                "operations": plan.num_operations,
                "notes": list(self.notes),
            },
        )


def convert_file(
    path: str | Path, *, ranks_per_node: int | None = None, in_place: bool | None = None
) -> ConvertedFile:
    """A plan for MSCCL++ that does what an MSCCL-XML file does; both are verified.

    Who receives in the file is written to in the plan, into the place where the data is wanted if nobody else
    touches that meanwhile, else into scratch.

    Parameters
    ----------
    ranks_per_node : ranks of a node write into each other's memory, others go through ports. None: all are in
        one node.
    in_place : which calls the plan is for. None: those that the file serves, and of both the usual ones:
        AllReduce and Broadcast in place, others not.

    Raises
    ------
    FileError, XmlError : it cannot be read.
    VerificationError : it is wrong.
    CollectiveError : MSCCL++ has no such collective, or the file serves no such calls.
    ProgramLimitError : over a limit of MSCCL++, which the message names.
    UnitError : MSCCL++ serves no call of the sizes that it is for.
    TacclError : it is no MSCCL-XML, or its ranks are not this many nodes.
    """
    content = read_bytes(path)
    source = target_of_file(path, content)
    program = None
    if source.parse is not None and source.unfold is not None:
        program = source.unfold(source.parse(content, str(path), lambda: None)).two_sided
    if program is None:
        raise TacclError(
            f"a file for {source.described} is not converted: it spells no thread blocks that "
            "send and receive",
            path=path,
            hint="give an MSCCL-XML file",
        )
    node_of = _nodes(program.num_ranks, ranks_per_node)
    report = source.verify(source.read(content, str(path)), readers=None, collective=None, root=None)
    # There are no queues between ranks in a plan that could be full.
    wrong = [error for error in report.errors if error.rule != "deadlock"]
    if wrong:
        raise VerificationError(
            "the file is wrong, so it is not converted",
            path=path,
            findings=[str(error) for error in wrong[:_FINDINGS]],
            hint="taccl verify says all that is wrong",
        )
    plan = translate(program, node_of, in_place=in_place)
    check_plan_fits(plan)
    plan = checked_window(plan)
    text = to_json(plan)
    made = verify_plan_text(text)
    if not made.ok:
        raise VerificationError(
            "the plan made of this file fails verification, so nothing is written",
            path=path,
            findings=[str(error) for error in made.errors[:_FINDINGS]],
            hint="please report this with the file",
        )
    notes = list(_notes(program, plan))
    if not report.ok:
        notes.append("the file hangs where queues between ranks are full; a plan has none, and ends")
    return ConvertedFile(str(path), program, plan, text, tuple(notes))


def _nodes(ranks: int, per_node: int | None) -> list[int]:
    if per_node is None:
        return [0] * ranks
    if not is_whole(per_node) or per_node < 1 or ranks % per_node:
        raise TacclError(
            f"{shown(per_node)} ranks per node, and {ranks} ranks in all",
            hint="as many on each node",
        )
    return [rank // per_node for rank in range(ranks)]


def _notes(program: Program, plan: ExecutionPlan) -> Iterator[str]:
    if program.protocol is not Protocol.SIMPLE:
        yield (f"the file is for {program.protocol.value}; the plan is Simple, without packets")
    if program.in_place and program.out_of_place:
        served = "in place" if plan.in_place else "out of place"
        yield f"the file serves calls in place and out of place, the plan only those {served}"
    if (program.min_bytes, program.max_bytes) != (plan.min_bytes, plan.max_bytes):
        yield (
            f"the file is for calls of {program.min_bytes} to {program.max_bytes} bytes; the plan for "
            f"{plan.min_bytes} to {plan.max_bytes}"
        )

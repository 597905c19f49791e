"""What a program has to compute, by the `coll` of its file or by a collective given as data."""

from __future__ import annotations

from taccl.backend.machine.expected import (
    CUT_BY_RANK,
    MAX_CELLS,
    STANDARD,
    Expectation,
    expectation_of,
    specification,
)
from taccl.backend.machine.report import Collector, Finding
from taccl.backend.program import Program
from taccl.backend.verify.msccl_xml.limits import MAX_COUNT, MAX_OFFSET
from taccl.model.collective import Collective
from taccl.model.collectives import plain_name


def expect_standard(program: Program, root: int | None, collector: Collector) -> Expectation | None:
    """The specification that goes with the `coll` of a program; None, with a finding, if there is none.

    `root` None stands for rank 0 here; see `roots.find_root`.
    """
    name, ranks, chunks = plain_name(program.collective), program.num_ranks, program.chunks_per_loop
    if name not in STANDARD:
        collector.add(
            Finding(
                layer="meaning",
                severity="warning",
                rule="unknown-result",
                message=f"coll is {program.collective!r}, which does not say what the outputs must hold; "
                "only reads of unwritten memory, races and deadlocks were looked for",
                hint="give the collective to check the outputs too",
            )
        )
        return None
    problem = None
    if chunks < 1:
        problem = f"nchunksperloop is {chunks}; it must be at least 1"
    elif chunks > MAX_OFFSET + MAX_COUNT:
        problem = f"nchunksperloop is {chunks}, and steps reach no chunk beyond {MAX_OFFSET + MAX_COUNT - 1}"
    elif name in CUT_BY_RANK and chunks % ranks:
        problem = f"nchunksperloop is {chunks}, which {ranks} ranks cannot share equally in {name}"
    elif root is not None and not 0 <= root < ranks:
        problem = f"root {root} is no rank of 0 .. {ranks - 1}"
    elif ranks * chunks * (ranks if name in ("gather", "scatter") else 1) > MAX_CELLS:
        problem = f"{ranks} ranks with {chunks} chunks each are more than can be compared"
    if problem is not None:
        collector.add(
            Finding(layer="meaning", severity="error", rule="no-such-collective", message=problem), fatal=True
        )
        return None
    return specification(name, ranks, chunks, root)


def expect_collective(program: Program, collective: Collective, collector: Collector) -> Expectation | None:
    """The specification of a collective given as data.

    A program may cut each chunk of the collective into several (instances do): chunk k of a buffer
    is then chunks k * pieces .. k * pieces + pieces - 1 of the program, being the same bytes.
    """
    name = plain_name(collective.name)
    chunks = program.chunks_per_loop * (program.num_ranks if name in ("gather", "scatter") else 1)
    pieces, rest = divmod(chunks, collective.chunks_per_size)
    problem = None
    if collective.num_ranks != program.num_ranks:
        problem = f"the file has {program.num_ranks} ranks, the collective {collective.num_ranks}"
    elif pieces < 1 or rest:
        problem = (
            f"the file cuts a call into {chunks} chunks, which is no multiple of the "
            f"{collective.chunks_per_size} chunks of the collective"
        )
    elif plain_name(program.collective) in STANDARD and plain_name(program.collective) != name:
        problem = f"the file says coll={program.collective!r}, but it is to be checked as {collective.name}"
    if problem is not None:
        collector.add(
            Finding(layer="meaning", severity="error", rule="no-such-collective", message=problem), fatal=True
        )
        return None
    return expectation_of(collective, pieces)

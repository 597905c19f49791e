"""What the outputs of a plan must hold, and where input and output are one memory (contract, 4.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from taccl.backend.machine.expected import (
    MAX_CELLS,
    STANDARD,
    Expectation,
    expectation_of,
    is_rooted,
    specification,
)
from taccl.backend.machine.report import Collector, Finding
from taccl.backend.plan import ExecutionPlan
from taccl.model.collective import Collective, IntArray
from taccl.model.collectives import plain_name
from taccl.support.arguments import shown

SEND_RECEIVE = "sendrecv"
_FREE = (
    "give the collective (--collective) to check the outputs too; the runtime's own test knows allgather, "
    "reducescatter, allreduce, alltoall and sendrecv"
)


@dataclass(frozen=True, eq=False)
class Wanted:
    """What one plan may compute.

    Parameters
    ----------
    collective : its plain name.
    alternatives : the outputs must be one of these (each root; each way to group the ranks of sendrecv);
    none: not
        known.
    shift : shape (num_ranks,); in place, input chunk k is output chunk k + shift.
    """

    collective: str
    alternatives: tuple[Expectation, ...]
    shift: IntArray


def what_is_wanted(
    plan: ExecutionPlan, collective: Collective | None, root: int | None, collector: Collector
) -> Wanted:
    """What a plan must compute; a fatal finding where its chunks cannot be those of its collective."""
    name = plain_name(plan.collective)
    unknown = Wanted(name, (), np.zeros(plan.num_ranks, dtype=np.int64))
    known = name in STANDARD or name == SEND_RECEIVE
    if collective is not None:
        return _as_given(plan, collective, known, collector)
    if not known:
        message = f"the collective is {shown(plan.collective)}, which does not say what the outputs must hold"
        said = f"{message}; only accesses to memory and endless waits were looked for"
        collector.add(Finding("meaning", "warning", "unknown-result", said, hint=_FREE))
        return unknown
    chunks = _chunks(plan, name, collector)
    if chunks is None:
        return unknown
    if name == SEND_RECEIVE:
        return replace(unknown, alternatives=tuple(_rings(plan.num_ranks, chunks)))
    ranks = plan.num_ranks
    if not is_rooted(name):
        one = specification(name, ranks, chunks)
        return Wanted(name, (one,), one.in_place_shift)
    if root is not None and not 0 <= root < ranks:
        message = f"root {root} is no rank of 0 .. {ranks - 1}"
        collector.add(Finding("meaning", "error", "no-such-collective", message), fatal=True)
        return unknown
    roots = range(ranks) if root is None else (root,)
    some = tuple(specification(name, ranks, chunks, each) for each in roots)
    return Wanted(name, some, some[0].in_place_shift)


def _chunks(plan: ExecutionPlan, name: str, collector: Collector) -> int | None:
    """The chunks of a call as the specification counts them."""
    ranks = plan.num_ranks
    inputs, outputs = plan.ranks[0].input_chunks, plan.ranks[0].output_chunks
    each = min(inputs, outputs)
    sizes = {
        "allgather": (each, ranks * each),
        "reducescatter": (ranks * each, each),
        "gather": (each, ranks * each),
        "scatter": (ranks * each, each),
    }.get(name, (each, each))
    problem = None
    for rank in plan.ranks:
        if (rank.input_chunks, rank.output_chunks) != sizes or each < 1:
            problem = (
                f"rank {rank.rank} has {rank.input_chunks} input and {rank.output_chunks} output chunks; "
                f"{name} of {ranks} ranks has {sizes[0]} and {sizes[1]} on every rank"
            )
            break
    if problem is None and name == "alltoall" and each % ranks:
        problem = f"{each} chunks are not shared equally by {ranks} ranks in alltoall"
    if problem is None and ranks * max(sizes) > MAX_CELLS:
        problem = f"{ranks} ranks with {max(sizes)} chunks each are more than can be compared"
    if problem is not None:
        collector.add(Finding("meaning", "error", "no-such-collective", problem), fatal=True)
        return None
    return each if name in ("gather", "scatter") else max(sizes)


def senders(ranks: int) -> list[IntArray]:
    """Each way in which ranks may be grouped for sendrecv: per rank, the one before it in its group.

    All groups have one size and one stride; the group of all comes first.
    """
    found = []
    everyone = np.arange(ranks)
    for size in (each for each in range(ranks, 1, -1) if ranks % each == 0):
        for stride in sorted({1, ranks // size}):
            group = everyone // (size * stride) * (size * stride) + everyone % stride
            place = everyone // stride % size
            found.append(group + (place - 1) % size * stride)
    return found


def _rings(ranks: int, chunks: int) -> list[Expectation]:
    """Every rank receives from the one before it in its group."""
    base = specification("allreduce", ranks, chunks)
    return [
        replace(
            base,
            collective=SEND_RECEIVE,
            values=tuple((((k, 1 << int(each), 0),),) for each in sender for k in range(chunks)),
            wanted_value=np.arange(ranks * chunks),
        )
        for sender in senders(ranks)
    ]


def _as_given(plan: ExecutionPlan, collective: Collective, known: bool, collector: Collector) -> Wanted:
    name = plain_name(collective.name)
    sizes = expectation_of(collective, 1)
    pairs = [
        (had, wanted)
        for rank, had_in, had_out in (
            (each.rank, each.input_chunks, each.output_chunks) for each in plan.ranks[: collective.num_ranks]
        )
        for had, wanted in ((had_in, int(sizes.input_size[rank])), (had_out, int(sizes.output_size[rank])))
        if wanted
    ]
    pieces = pairs[0][0] // pairs[0][1] if pairs else 1
    if not known and {had % collective.chunks_per_size for had, _ in pairs} == {0}:
        pieces = min(had for had, _ in pairs) // collective.chunks_per_size  # buffers of the size of a call
    problem = None
    if collective.num_ranks != plan.num_ranks:
        problem = f"the plan has {plan.num_ranks} ranks, the collective {collective.num_ranks}"
    elif known and plain_name(plan.collective) != name:
        problem = (
            f"the plan says {shown(plan.collective)}, but it is to be checked as {shown(collective.name)}"
        )
    elif pieces < 1 or any(had < pieces * wanted for had, wanted in pairs):
        problem = "the chunks of the plan's buffers are no multiple of those of the collective"
    if problem is not None:
        collector.add(Finding("meaning", "error", "no-such-collective", problem), fatal=True)
        return Wanted(name, (), np.zeros(plan.num_ranks, dtype=np.int64))
    one = expectation_of(collective, pieces)
    return Wanted(name, (one,), one.in_place_shift)

"""Smaller problems that say something of one with sums: a chunk alone, and chunks that go together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gcd

import numpy as np

from taccl.encoding.core.timing import Decision, in_order
from taccl.encoding.engines.cp.sums_model import SumModel
from taccl.encoding.engines.cp.sums_parts import Item, interchangeable_chunks
from taccl.encoding.engines.cp.sums_read import Program
from taccl.encoding.engines.cp.tuning import SUMS_SMALLER_SYMMETRY_WORK
from taccl.encoding.instance import Instance
from taccl.encoding.sending_model.sends import Send
from taccl.encoding.symmetry.group import SymmetryGroup, without_shared_ports
from taccl.encoding.symmetry.search import found_group
from taccl.model.collective import Collective, IntArray, Placement
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.schedule.partial_sums import ranks_of, set_of
from taccl.model.schedule.schedule import compacted
from taccl.support.budget import Budget


def one_chunk(problem: Problem, chunk: int) -> Problem:
    """A chunk with the network to itself. What it needs there, it needs next to others."""
    return replace(problem, collective=_only(problem.collective, [chunk]), symmetry=())


def bundles(instance: Instance) -> tuple[tuple[Instance, list[list[int]]], ...]:
    """The problem with interchangeable chunks going together, the most first; which chunks each bundle has.

    The last is the problem itself. `instance.once(bundles)`.
    """
    problem = instance.problem
    classes = interchangeable_chunks(problem)
    most = gcd(*(len(chunks) for chunks in classes))
    made = []
    for size in range(most, 1, -1):
        if most % size == 0 and size <= problem.max_group:
            together = [chunks[k : k + size] for chunks in classes for k in range(0, len(chunks), size)]
            made.append((Instance(_bundled(problem, together)), together))
    return (*made, (instance, [[chunk] for chunk in range(problem.num_chunks)]))


def symmetry_of(instance: Instance) -> SymmetryGroup | None:
    """Permutations of the ranks that leave the problem as it is; None if none are found.

    No image of a send shares a port with it, so both can go at the same time. `instance.once(symmetry_of)`.
    """
    found = found_group(instance.problem, Budget.of_work(SUMS_SMALLER_SYMMETRY_WORK))
    group = without_shared_ports(instance.problem.topology, found)
    return group if len(group) > 1 else None


def as_one(group: SymmetryGroup) -> SymmetryGroup:
    """What a symmetry does where all chunks, which are interchangeable, go together as one."""
    return replace(group, chunk_map=np.zeros((len(group), 1), dtype=np.int64))


def keep_symmetric(model: SumModel, group: SymmetryGroup) -> None:
    """Leave out programs in which an image of a send is not made, at the same time as that."""
    maps = (group.chunk_map[1:].tolist(), group.rank_map[1:].tolist(), group.link_map[1:].tolist())
    for chunks, ranks, links in zip(*maps, strict=True):

        def image(item: Item, chunks: list[int] = chunks, ranks: list[int] = ranks) -> Item:
            return chunks[item[0]], set_of(ranks[rank] for rank in ranks_of(item[1]))

        for link, sends in enumerate(model.sending.sends_on):
            for send, other in zip(
                sends, _images(sends, model.sending.sends_on[links[link]], image), strict=True
            ):
                if other is None:  # its link is slower by a rounding
                    model.cp.add(send.active == 0)
                    continue
                model.cp.add(send.active == other.active)
                model.cp.add(send.start == other.start)
                for item, member in send.members.items():
                    model.cp.add(member == other.members.get(image(item), 0))
        for (chunk, part, rank), got in model.got.items():
            moved = (*image((chunk, part)), ranks[rank])
            if moved in model.got and not isinstance(got, int):
                model.cp.add(got == model.got[moved])
        for (item, rank), when in model.at.items():
            there = image(item), ranks[rank]
            if there in model.at and not isinstance(when, int):
                model.cp.add(when == model.at[there])


def _images(
    sends: list[Send[Item]], others: list[Send[Item]], image: Callable[[Item], Item]
) -> list[Send[Item] | None]:
    """For each send of a link, which one it is on another link: by its item, or by its place in time."""
    if sends and sends[0].is_shared:
        return [others[k] if k < len(others) else None for k in range(len(sends))]
    by_item = {item: other for other in others for item in other.members}
    return [by_item.get(image(item)) for send in sends for item in send.members]


def _bundled(problem: Problem, together: list[list[int]]) -> Problem:
    size = len(together[0])
    collective = _only(problem.collective, [chunks[0] for chunks in together])
    return replace(
        problem,
        collective=collective,
        chunk_mb=problem.chunk_mb * size,  # a group of bundles has this many times the chunks
        max_group=problem.max_group // size,
        symmetry=(),
    )


def _only(collective: Collective, chunks: list[int]) -> Collective:
    kept = np.full(collective.num_chunks, -1, dtype=np.int64)
    kept[chunks] = np.arange(len(chunks))
    return replace(
        collective,
        inputs=_rows(collective.inputs, kept),
        outputs=_rows(collective.outputs, kept),
        reduces=collective.reduces[chunks],
        owner=collective.owner[chunks],
    )


def _rows(placement: Placement, number: IntArray) -> Placement:
    keep = number[placement.chunk] >= 0
    chunk = number[placement.chunk[keep]]
    return Placement(chunk, placement.rank[keep], chunk)


def unbundled(problem: Problem, program: Program, together: list[list[int]]) -> Schedule:
    """What a program of the bundles says for the chunks in them."""
    decisions, waits = program
    alone = [
        Decision(
            tuple(chunk for bundle in decision.chunks for chunk in together[bundle]),
            decision.link,
            decision.reduce,
            tuple(
                part
                for bundle, part in zip(decision.chunks, decision.sums or (), strict=True)
                for _ in together[bundle]
            ),
        )
        for decision in decisions
    ]
    return compacted(in_order(problem, alone, waits))

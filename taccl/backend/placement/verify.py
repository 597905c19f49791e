"""Whether the places where sums are made do make them: each part added once, each sum where it is wanted.

It looks at the file alone: for each chunk, what is handed over as sums must be a tree into the rank where the
sum is made, from every rank that has a part, and what is handed over as copies a tree from there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from taccl.backend.machine.report import Collector, Facts, Verdict, Verification
from taccl.backend.machine.unequal import Requested, in_equal_chunks
from taccl.backend.placement.document import Handover, MeetingPlaces, PlacementDocument, RankPlan
from taccl.errors import TacclError
from taccl.model.collective import Collective, Placement
from taccl.model.collectives import make_collective

#: Who reads these files.
RUNTIME = "servers"
_HINT = "the file is not what --target placement wrote"

#: From which rank to which a chunk is handed.
_Steps = list[tuple[int, int]]


def verify_placement(
    document: PlacementDocument,
    /,
    *,
    readers: Sequence[str] | None = None,
    collective: Requested | None = None,
    root: int | None = None,
) -> Verification:
    """Check a file that was read.

    Parameters
    ----------
    collective : what it has to compute; None: what the file says.
    root : must be that of the file; None: any.
    """
    places, collector = document.places, Collector()
    for fault in document.faults:
        collector.structure("bad-value", f"{fault.place} {fault.message}", fault.hint or _HINT, fatal=True)
    if not collector.fatal:
        for message in _form(places):
            collector.structure("bad-value", message, _HINT, fatal=True)
    if root is not None and root != places.root:
        collector.structure("root", f"its root is {places.root}, not {root}", "another --root")
    if not collector.fatal:
        computed = _requested(places, in_equal_chunks(collective), collector)
        if computed is not None:
            for message in (*_sizes(places, computed), *_meaning(places, computed)):
                collector.structure("meaning", message, _HINT)
    findings = collector.findings()
    verdict: Verdict = "not checked" if collector.fatal else "wrong" if findings else "right"
    facts = Facts(
        places.collective,
        len(places.ranks),
        sum(len(each.chunks) for rank in places.ranks for each in (*rank.sums, *rank.copies)),
        0,
        "none",
        places.root,
        in_place=verdict,
        out_of_place=verdict,
        readers={RUNTIME: "no" if collector.fatal else "yes"},
    )
    return Verification(findings, facts, document.path)


def _form(places: MeetingPlaces) -> Iterator[str]:
    """Numbers that name no rank or chunk."""
    ranks, chunks = len(places.ranks), len(places.at)
    if any(not 0 <= at < ranks for at in places.at):
        yield "a chunk is at a rank that there is not"
    if any(rank.is_server for rank in places.ranks[: places.num_members]):
        yield "a rank that holds data comes after a server"
    for number, rank in enumerate(places.ranks):
        for each in (*rank.sums, *rank.copies):
            if not 0 <= each.to < ranks or each.to == number:
                yield f"rank {number} hands chunks to {each.to}, which is no other rank"
            if any(not 0 <= chunk < chunks for chunk in each.chunks):
                yield f"rank {number} hands over a chunk that there is not"


def _requested(
    places: MeetingPlaces, collective: Collective | None, collector: Collector
) -> Collective | None:
    """What must be computed, with the servers as helpers; None, and a finding: the file is of another."""
    servers = len(places.ranks) - places.num_members
    if collective is None:
        try:
            collective = make_collective(
                places.collective, places.num_members, places.chunks_per_rank, places.root
            ).with_helpers(servers)
        except TacclError as fault:
            collector.structure("collective", str(fault), _HINT)
            return None
        if collective.root != places.root:
            collector.structure("collective", f"{places.collective} has a root, and the file none", _HINT)
    if (collective.num_ranks, collective.num_chunks) == (len(places.ranks), len(places.at)):
        return collective
    collector.structure(
        "collective",
        f"{collective.name} has {collective.num_ranks} ranks and {collective.num_chunks} chunks; "
        f"the file {len(places.ranks)} and {len(places.at)}",
        _HINT,
    )
    return None


def _sizes(places: MeetingPlaces, collective: Collective) -> Iterator[str]:
    """Sizes of chunks that are none, or do not make the size of the call."""
    each = places.chunk_bytes[0]
    if each < 1 or set(places.chunk_bytes) != {each}:
        yield "its chunks must have one size, a byte or more"
    elif each * collective.chunks_per_size != places.size_bytes:
        yield f"its chunks make a call of {each * collective.chunks_per_size} bytes, not {places.size_bytes}"


def _meaning(places: MeetingPlaces, collective: Collective) -> Iterator[str]:
    """What is wrong with any chunk."""
    sums, copies = (_steps(places, handed) for handed in (lambda rank: rank.sums, lambda rank: rank.copies))
    starts, wanted = _ranks_of(collective.inputs), _ranks_of(collective.outputs)
    for chunk, at in enumerate(places.at):
        for message in (
            *_of_sums(at, sums[chunk], starts[chunk]),
            *_of_copies(at, copies[chunk], wanted[chunk]),
        ):
            yield f"chunk {chunk}: {message}"


def _of_sums(at: int, steps: _Steps, starts: set[int]) -> Iterator[str]:
    """What is wrong with the tree of a chunk's parts."""
    leaves: dict[int, int] = {}
    for src, dst in steps:
        if src == at or src in leaves:
            yield f"rank {src} hands its sum to rank {dst}, and keeps it or hands it on elsewhere, too"
        leaves[src] = dst
    for rank in sorted(starts | set(leaves)):
        if rank not in starts and rank not in leaves.values():
            yield f"rank {rank} has no part of it to hand over"
        if not _leads_to(leaves, rank, at):
            yield f"what rank {rank} has of it never comes to rank {at}"


def _of_copies(at: int, steps: _Steps, wanted: set[int]) -> Iterator[str]:
    """What is wrong with the tree of the copies of a chunk."""
    comes: dict[int, int] = {}
    for src, dst in steps:
        if dst == at or dst in comes:
            yield f"rank {dst} gets the sum twice"
        comes[dst] = src
    for rank in sorted(wanted | set(comes) | {src for src, _ in steps}):
        if not _leads_to(comes, rank, at):
            yield f"rank {rank} never gets the sum"


def _steps(places: MeetingPlaces, handed: Callable[[RankPlan], tuple[Handover, ...]]) -> dict[int, _Steps]:
    """Of each chunk, from which rank to which it is handed."""
    steps: dict[int, _Steps] = defaultdict(list)
    for src, rank in enumerate(places.ranks):
        for each in handed(rank):
            for chunk in each.chunks:
                steps[chunk].append((src, each.to))
    return steps


def _ranks_of(placement: Placement) -> dict[int, set[int]]:
    ranks: dict[int, set[int]] = defaultdict(set)
    for chunk, rank in zip(placement.chunk.tolist(), placement.rank.tolist(), strict=True):
        ranks[chunk].add(rank)
    return ranks


def _leads_to(steps: dict[int, int], rank: int, end: int) -> bool:
    for _ in range(len(steps) + 1):
        if rank == end:
            return True
        if rank not in steps:
            return False
        rank = steps[rank]
    return False

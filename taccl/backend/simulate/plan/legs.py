"""Over which links an operation's bytes go, and what becomes of them at the end of each.

Through a switch that sums, each member gives its bytes to the sum face, and one sum comes from there to the
rank that loads it; through one that copies, the rank's bytes go to the copy face, and from there to each
member. All of that is under way at once, as a switch passes on what it gets. On a machine whose switches do
neither, bytes go to and from each member one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from taccl.backend.faces import find_face
from taccl.backend.simulate.plan.run import PlanRun
from taccl.backend.simulate.plan.work import Moved, Multicast, Work


@dataclass(frozen=True, slots=True)
class Leg:
    """Bytes on a link.

    Parameters
    ----------
    link : of the topology.
    size : bytes.
    alpha_us : from when the last byte has left until it is where it is wanted.
    mover : the thread block whose bandwidth it takes; None: that of nobody.
    awaited : whether the block goes on when it has come; else when it has left.
    lands : whether something is there for its target then.
    packets : that are there then, as a rank, and first byte and bytes of its scratch.
    """

    link: int
    size: float
    alpha_us: float
    mover: object | None
    awaited: bool
    lands: bool = True
    packets: tuple[int, float, float] | None = None


def legs_of(run: PlanRun, rank: int, work: Work, mover: object) -> Iterator[Leg]:
    """All that one operation of a rank moves."""
    for sent in work.sends:
        if isinstance(sent, Moved):
            yield _send(run, rank, sent, mover)
        else:
            yield from _store(run, rank, sent, mover)
    for read in work.reads:
        if isinstance(read, Moved):
            yield _read(run, rank, read, mover)
        else:
            yield from _load(run, rank, read, mover)


def _send(run: PlanRun, rank: int, sent: Moved, mover: object) -> Leg:
    packets = (sent.rank, sent.first, sent.size) if sent.packets else None
    link, alpha_us = run.link(rank, sent.rank), run.alpha_us(rank, sent.rank)
    return Leg(link, sent.wire, alpha_us, mover, awaited=False, packets=packets)


def _read(run: PlanRun, rank: int, read: Moved, mover: object) -> Leg:
    link, alpha_us = run.link(read.rank, rank), run.alpha_us(read.rank, rank)
    return Leg(link, read.wire, alpha_us, mover, awaited=True, lands=False)


def _load(run: PlanRun, rank: int, load: Multicast, mover: object) -> Iterator[Leg]:
    """A sum of what all members have."""
    face = find_face(run.faces, load.ranks, sums=True)
    if face is None:
        yield from (_read(run, rank, read, mover) for read in load.one_by_one(rank))
        return
    for member in load.ranks:
        if member == rank and face.is_looped:
            continue  # the link from the face has its bytes
        alpha_us = run.alpha_us(member, face.rank, rank)
        yield Leg(run.link(member, face.rank), load.wire, alpha_us, None, awaited=True, lands=False)
    yield Leg(run.link(face.rank, rank), load.wire, alpha_us, mover, awaited=True, lands=False)


def _store(run: PlanRun, rank: int, store: Multicast, mover: object) -> Iterator[Leg]:
    """The same to all members."""
    face = find_face(run.faces, store.ranks, sums=False)
    if face is None:
        yield from (_send(run, rank, sent, mover) for sent in store.one_by_one(rank))
        return
    if not face.is_looped:
        yield Leg(run.link(rank, face.rank), store.wire, 0.0, mover, awaited=False, lands=False)
    for member in store.ranks:
        packets = (member, store.first, store.size) if store.packets else None
        alpha_us = run.alpha_us(rank, face.rank, member)
        if member == rank and face.is_looped:
            into = run.link(rank, face.rank)
            yield Leg(into, store.wire, alpha_us, mover, awaited=False, packets=packets)
            continue
        yield Leg(run.link(face.rank, member), store.wire, alpha_us, None, awaited=False, packets=packets)

"""Which cells could be faster, by other cells of their machine: what brings more cannot take less time.

An AllGather brings all that a Gather does, and a ReduceScatter with an AllGather after it is an AllReduce.
Where links are the same both ways, one of each pair read backwards is the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

#: Pairs of which each, read backwards, is the other.
BACKWARDS = (("allgather", "reducescatter"), ("broadcast", "reduce"), ("gather", "scatter"))
#: What is contained in what else, or in several things one after another.
CONTAINED = (
    ("gather", ("allgather",)),
    ("scatter", ("broadcast",)),
    ("scatter", ("alltoall",)),
    ("allgather", ("alltoall",)),
    ("allgather", ("allreduce",)),
    ("broadcast", ("allreduce",)),
    ("broadcast", ("scatter", "allgather")),
    ("allgather", ("gather", "broadcast")),
    ("allreduce", ("reducescatter", "allgather")),
    ("allreduce", ("reduce", "broadcast")),
)
#: What is less than this part slower is as fast.
SLOWER = 0.02


class Slower(NamedTuple):
    """A collective, what it is contained in, and the times of both, us."""

    collective: str
    others: tuple[str, ...]
    time_us: float
    others_us: float


def could_be_faster(times_us: Mapping[str, float]) -> Iterator[Slower]:
    """The collectives of one machine and size that take longer than what they are contained in."""
    for collective, others in _rules():
        if collective in times_us and all(other in times_us for other in others):
            found = Slower(collective, others, times_us[collective], sum(times_us[other] for other in others))
            if found.time_us > found.others_us * (1 + SLOWER):
                yield found


def _rules() -> Sequence[tuple[str, tuple[str, ...]]]:
    """All that is known; what holds of a collective holds of it read backwards."""
    turned = {one: other for pair in BACKWARDS for one, other in (pair, pair[::-1])}
    rules = [(one, (other,)) for one, other in turned.items()]
    for collective, others in CONTAINED:
        rules.append((collective, others))
        back = tuple(turned.get(each, each) for each in reversed(others))
        rules.append((turned.get(collective, collective), back))
    return list(dict.fromkeys(rules))

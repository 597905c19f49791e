"""Switches that sum or copy for the GPUs that they join, as helpers of a machine: their faces.

An NVLink Switch of Hopper and later is two helpers on the same ports: a *sum face*, which sums what members
have at one place for one of them (`may_sum` and not `may_copy`), and a *copy face*, which stores at all
members what one of them gives (`may_copy` and not `may_sum`). Thread blocks of a member reach both through
one switch channel. What else sums or copies, such as a server, stores and runs on its own: no file has words
for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from taccl.model.network import LogicalTopology


@dataclass(frozen=True, slots=True)
class Face:
    """A helper that is a face of a switch.

    Parameters
    ----------
    rank : its number among the ranks.
    sums : whether it is a sum face; else it is a copy face.
    members : the ranks that it joins, ascending.
    is_looped : whether a sum on its way to a member passes that member's way out too, and what a member gives
        to be copied its way in: a load reads what all members have, and a store goes to all.
    """

    rank: int
    sums: bool
    members: tuple[int, ...]
    is_looped: bool = False


def faces_of(topology: LogicalTopology) -> tuple[Face, ...]:
    """The faces of switches among the helpers; helpers of other kinds are left out."""
    found = (_face(topology, rank) for rank in range(topology.num_members, topology.num_ranks))
    return tuple(face for face in found if face is not None)


def find_face(faces: tuple[Face, ...], ranks: tuple[int, ...], sums: bool) -> Face | None:
    """The first face that sums, or that copies, for all of these ranks."""
    return next((face for face in faces if face.sums is sums and {*ranks} <= {*face.members}), None)


def _face(topology: LogicalTopology, rank: int) -> Face | None:
    may_sum = topology.may_sum is None or bool(topology.may_sum[rank])
    may_copy = topology.may_copy is None or bool(topology.may_copy[rank])
    into = {int(topology.src[link]) for link in topology.links_into[rank]}
    out = {int(topology.dst[link]) for link in topology.links_from[rank]}
    are_members = max(into | out, default=topology.num_ranks) < topology.num_members
    memories = {int(topology.memory_of[member]) for member in into | out if member < topology.num_ranks}
    if may_sum is may_copy or into != out or not are_members or len(memories) != 1:
        return None
    return Face(rank, may_sum, tuple(sorted(into)), _is_looped(topology, rank, may_sum))


def _is_looped(topology: LogicalTopology, rank: int, sums: bool) -> bool:
    """Whether links from a sum face pass the ports of those into it, or those into a copy face the other."""
    links = topology.link_index
    for into in topology.links_into[rank]:
        one, other = topology.ports[into], topology.ports[links[rank, int(topology.src[into])]]
        if not (set(one) <= set(other) if sums else set(other) <= set(one)):
            return False
    return True

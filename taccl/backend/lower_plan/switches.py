"""What a switch does for its members: the sum of what all have at one place, stored at all of them.

Messages of a graph are between members, as if each were read and written by itself; see `by_members`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from taccl.backend.faces import faces_of
from taccl.backend.lower_plan.graph import Graph
from taccl.backend.lower_plan.places import Place
from taccl.model.network import LogicalTopology


def use_switches(graph: Graph, switches: tuple[tuple[int, ...], ...]) -> Graph:
    """What switches can do is done by them; see `Graph.switches`."""
    return replace(graph, switches=switches)


def switches_of(topology: LogicalTopology) -> tuple[tuple[int, ...], ...]:
    """The members of switches that both sum and copy for them."""
    faces = faces_of(topology)
    copying = {face.members for face in faces if not face.sums}
    return tuple(face.members for face in faces if face.sums and face.members in copying)


def find_switch(
    graph: Graph, rank: int, read: Mapping[int, Place], written: Mapping[int, Place]
) -> tuple[int, ...]:
    """The members of the switch of a rank, if these are the same places at all of them; else nobody.

    Parameters
    ----------
    read, written : by rank the place that a sum reads, and where it is stored.
    """
    members = next((each for each in graph.switches if rank in each), ())
    everyone = {*members} == read.keys() == written.keys()
    return members if everyone and len({*read.values()}) == len({*written.values()}) == 1 else ()

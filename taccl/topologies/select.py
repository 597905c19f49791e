"""Some GPUs of a machine, in an order, as a machine of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from taccl.errors import TopologyError
from taccl.support.arguments import is_whole, shown
from taccl.topologies.devices import NO_NODE
from taccl.topologies.model import PhysicalTopology


def select(machine: PhysicalTopology, ranks: Sequence[int]) -> PhysicalTopology:
    """The machine with these GPUs alone: their order numbers them, and all else stays.

    Nodes are numbered by their first GPU. Nodes without a GPU are left out with what is in them; switches
    between nodes stay, and so does every NIC of a node that has a GPU.

    Parameters
    ----------
    ranks : of GPUs of the machine, each once.

    Raises
    ------
    TopologyError : no GPU, one that the machine does not have, one that is named twice, or a machine whose
        helpers would lose what they are at.
    """
    chosen = list(ranks)
    if not chosen:
        raise TopologyError("no GPU is selected")
    for rank in chosen:
        if not is_whole(rank) or not 0 <= rank < machine.num_members:
            raise TopologyError(
                f"{machine.name} has GPUs 0 .. {machine.num_members - 1}, and no {shown(rank)}"
            )
    twice = next((rank for rank in chosen if chosen.count(rank) > 1), None)
    if twice is not None:
        raise TopologyError(f"GPU {machine.gpus[twice].name} is named twice")
    gpus = [machine.gpus[rank] for rank in chosen]
    number = {node: place for place, node in enumerate(dict.fromkeys(gpu.node for gpu in gpus))}
    number[NO_NODE] = NO_NODE
    kept = [each for each in machine.devices if each.kind != "gpu" and each.node in number]
    devices = tuple(replace(each, node=number[each.node]) for each in (*gpus, *kept))
    names = {each.name for each in devices}
    links = tuple(link for link in machine.links if link.src in names and link.dst in names)
    return replace(machine, name=f"{machine.name}, {len(gpus)} GPUs", devices=devices, links=links)

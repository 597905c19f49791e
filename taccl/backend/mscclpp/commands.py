"""How mscclpp's own test runs a plan: its command line, for the ranks that a node has by the plan itself."""

from __future__ import annotations

import shlex
from pathlib import Path

from taccl.backend.plan import Channel, ExecutionPlan


def ranks_joined(plan: ExecutionPlan) -> int | None:
    """How many ranks are on each node; None: memory channels do not tell, or not as many on each."""
    groups = _joined_by_memory(plan)
    size = len(groups[0])
    equivalent = all(group == list(range(group[0], group[0] + size)) for group in groups)
    if not equivalent or (size == 1 and plan.num_ranks > 1) or any(len(group) != size for group in groups):
        return None
    return size


def _joined_by_memory(plan: ExecutionPlan) -> list[list[int]]:
    """Groups of ranks that memory and switch channels join, or memory without signals, each in rank order."""
    group_of = list(range(plan.num_ranks))
    for rank in plan.ranks:
        peers = set(rank.peers_of(Channel.MEMORY))
        peers |= {
            remote_buffer.rank
            for remote_buffer in rank.remote_buffers
            if Channel.MEMORY in remote_buffer.access
        }
        peers |= {peer for row in rank.channels for members in row.groups for peer in members}
        for peer in peers:
            old, new = sorted((group_of[rank.rank], group_of[peer]), reverse=True)
            group_of = [new if each == old else each for each in group_of]
    groups: dict[int, list[int]] = {}
    for number, group in enumerate(group_of):
        groups.setdefault(group, []).append(number)
    return list(groups.values())


#: What MSCCL++ needs to know of a network; the user sets the value of each, and the last only with RoCE.
NETWORK = {
    "MSCCLPP_HCA_DEVICES": "$NICS",
    "MSCCLPP_SOCKET_IFNAME": "$INTERFACE",
    "MSCCLPP_IB_GID_INDEX": "${GID_INDEX:-0}",
}
#: What those are.
NETWORK_MEANING = (
    "$HOSTS: file of host names; $FIRST_NODE: one of them; $NICS: of a node, in the order of its GPUs, such "
    "as mlx5_0,mlx5_1; $INTERFACE: that all nodes reach each other by, such as eth0; $GID_INDEX: with RoCE, "
    "of the GID that is routed (show_gids)"
)

#: Collectives whose result the test can judge; it refuses others.
_JUDGED = ("allgather", "reducescatter", "allreduce", "alltoall", "sendrecv")


def executor_test(
    plan: ExecutionPlan, path: Path, size_bytes: int, ranks_per_node: int | None = None
) -> str | None:
    """The command for a call of this many bytes, to be run in a checkout of mscclpp; None if it has no test.

    Parameters
    ----------
    size_bytes : as MSCCL++ counts a message: of an AllGather the output, else the input.
    ranks_per_node : None: those that memory channels join.
    """
    if plan.collective not in _JUDGED:
        return None
    per_node = ranks_joined(plan) if ranks_per_node is None else ranks_per_node
    hosts = ""
    if per_node is not None and per_node < plan.num_ranks:
        hosts = f" -hostfile $HOSTS -map-by ppr:{per_node}:node"
        hosts += "".join(f" -x {name}={value}" for name, value in NETWORK.items())
    command = (
        f"mpirun -np {plan.num_ranks}{hosts} python3 python/test/executor_test.py "
        f"-path {shlex.quote(str(path))} --size {size_bytes}"
    )
    place = " --in_place" if plan.in_place else ""
    return command + place + (" --packet_type LL16" if plan.moves_packets else "")

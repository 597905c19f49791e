"""How mscclpp's own test runs a plan: its command line. It knows plans, and not what makes one right."""

from __future__ import annotations

import shlex
from pathlib import Path

from taccl.backend.mscclpp.nodes import ranks_joined
from taccl.backend.plan import ExecutionPlan

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

"""How mscclpp's own test runs a plan: its command line. It knows plans, and not what makes one right."""

from __future__ import annotations

import shlex
from pathlib import Path

from taccl.backend.plan import ExecutionPlan

#: Collectives whose result the test can judge; it refuses others.
_JUDGED = ("allgather", "reducescatter", "allreduce", "alltoall", "sendrecv")


def executor_test(plan: ExecutionPlan, path: Path, size_bytes: int) -> str | None:
    """The command for a call of this many bytes, to be run in a checkout of mscclpp; None if it has no test.

    Parameters
    ----------
    size_bytes : as MSCCL++ counts a message: of an AllGather the output, else the input.
    """
    if plan.collective not in _JUDGED:
        return None
    command = (
        f"mpirun -np {plan.num_ranks} python3 python/test/executor_test.py "
        f"-path {shlex.quote(str(path))} --size {size_bytes}"
    )
    place = " --in_place" if plan.in_place else ""
    return command + place + (" --packet_type LL16" if plan.moves_packets else "")

"""What to type on the machine for a first run, and what to look for in what it prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from taccl.backend.mscclpp.commands import NETWORK, NETWORK_MEANING, executor_test
from taccl.backend.plan import Channel
from taccl.deployment.plans import DeployedPlan

#: Large enough to see the bandwidth, small enough for the test's buffers.
_TEST_BYTES = 32 * 2**20
#: What NCCL calls of these names MSCCL++ looks for a plan for.
ROUTED = ("allreduce", "allgather", "reducescatter", "broadcast")
_SUMS = ("allreduce", "reducescatter")
#: Memories that ports of a process may know, three of them the plan's own.
_MEMORIES = 512


def test_command(plan: DeployedPlan, path: Path) -> str | None:
    """How mscclpp's own test runs a plan, in its checkout; None where it has no test for the collective."""
    size = max(plan.min_bytes, min(plan.max_bytes, _TEST_BYTES) // plan.unit_bytes * plan.unit_bytes)
    return executor_test(plan.plan, path, size, plan.ranks_per_node)


def torchrun_commands(plans: Sequence[DeployedPlan]) -> tuple[str, ...]:
    """How a PyTorch program is started, for each number of nodes and of ranks on a node."""
    machines = dict.fromkeys((plan.ranks // plan.ranks_per_node, plan.ranks_per_node) for plan in plans)
    network = "".join(f"{name}={value} " for name, value in NETWORK.items())
    return tuple(
        (network if nodes > 1 else "") + "MSCCLPP_LOG_LEVEL=INFO MSCCLPP_NCCL_LIB_PATH=$NCCL_LIB/libnccl.so "
        "LD_PRELOAD=$MSCCLPP_BUILD/lib/libmscclpp_nccl.so "
        f"torchrun --nnodes={nodes} --nproc_per_node={per_node}"
        + (" --rdzv_backend=c10d --rdzv_endpoint=$FIRST_NODE:29500" if nodes > 1 else "")
        + " program.py"
        for nodes, per_node in machines
    )


def placeholders(plans: Sequence[DeployedPlan]) -> tuple[str, ...]:
    """What the commands for several nodes leave to be filled in."""
    return (NETWORK_MEANING,) if any(plan.ranks > plan.ranks_per_node for plan in plans) else ()


def log_lines(plans: Sequence[DeployedPlan]) -> tuple[str, ...]:
    """What the log says of each plan that a call takes."""
    return tuple(
        f"Starting execution with plan: {plan.name}, collective: {plan.collective}" for plan in plans
    )


def cautions(plan: DeployedPlan) -> Iterator[str]:
    """What has to be kept in mind with a plan that is right."""
    if plan.collective not in ROUTED:
        yield (
            f"no call of NCCL's asks MSCCL++ for {plan.collective}: call execute() of what register() returns"
        )
    if plan.collective in _SUMS:
        yield "only adds: a call for a maximum or an average would get the sum"
    if plan.plan.moves_packets:
        yield (
            "packets carry the number of plans that a process has run: all members of a call must have run "
            "as many, and a CUDA graph that is replayed holds more than two calls"
        )
    if plan.needs_whole_buffers:
        yield (
            "ports read the buffers of a call from where their allocation begins: taken only after "
            "register(whole_buffers=True), which promises that all buffers begin one, on all ranks"
        )
    memories = max(
        sum(Channel.PORT in remote_buffer.access for remote_buffer in rank.remote_buffers)
        for rank in plan.plan.ranks
    )
    if memories:
        yield f"ports know {_MEMORIES} memories: enough for {_MEMORIES // (3 + memories)} pairs of buffers"
    if plan.plan.reuse_resources:
        yield (
            "with reuse_resources its scratch is that of all such plans of a communicator and of MSCCL++'s "
            "own kernels: what comes first in one call may be written while a slower rank is still in the "
            "call of another plan"
        )
    if any(row.kind is Channel.SWITCH for rank in plan.plan.ranks for row in rank.channels):
        yield (
            "switch channels need NVIDIA's Hopper or newer (other GPUs silently do nothing), and buffers "
            "made by GpuBuffer or ncclMemAlloc, at one offset of their allocations on all ranks"
        )
    if "mscclpp-0.9" not in plan.releases:
        yield "needs MSCCL++ v0.10"

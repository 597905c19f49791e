"""OptCCL's joint workload (SIGCOMM 2026): point-to-points, AlltoAlls and AllGathers on 8 nodes of 8 A100s.

    python -m benchmarks.several [--time-limit S] [--nodes 4 8]

Sends of 16 MB from each GPU to the GPU of its place in the next node, AlltoAlls of 8 GPUs with 8 MB for each
pair, and AllGathers of 4 GPUs with 16 MB each; their GPUs are of one node, or of as many nodes. Writes
docs/results/several.md.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import report
from taccl.analysis.several import WAYS, several

_GPUS = 8
#: NVLink 6 x 50 GB/s a GPU each way, over NVSwitches; PCIe and NIC as ROUTES states them.
_MACHINE = """
name: optccl-a100
occupancy: pipelined
nodes: {nodes}
node:
  gpus: 8
  switches: [nvswitch]
  nics: 8
  links:
    - {{from: gpus, to: nvswitch, alpha_us: 0.35, bandwidth_gbps: 300}}
    - {{from: gpus, to: nics, match: even, alpha_us: 0, bandwidth_gbps: 32}}
fabric: {{alpha_us: 3, bandwidth_gbps: 25}}
"""
_HEADER = [
    "nodes",
    "groups in",
    "what",
    "alone us",
    "one after another us",
    "overlaid us",
    "joint us",
    "bound us",
    "gap",
]


def workload(nodes: int, across: bool) -> str:
    """The file of parts for so many nodes; `across`: groups are GPUs of one place in several nodes."""
    ranks = nodes * _GPUS
    fours = np.arange(ranks).reshape(-1, 4)
    if across:
        fours = np.arange(ranks).reshape(-1, 4, _GPUS).swapaxes(1, 2).reshape(-1, 4)
    sends = [[rank, (rank + _GPUS) % ranks] for rank in range(ranks)]
    return (
        f"collective: optccl\nranks: {ranks}\nparts:\n"
        f"  - {{name: sends, collective: broadcast, members: {sends}, size: 16MB, chunks: 4}}\n"
        f"  - {{name: alltoalls, collective: alltoall, {'across' if across else 'in'}_groups: 8, "
        f"size: {8 * (nodes if across else _GPUS)}MB}}\n"
        f"  - {{name: allgathers, collective: allgather, members: {fours.tolist()}, size: 64MB, chunks: 2}}\n"
    )


def rows(nodes: int, across: bool, time_limit: float) -> list[list[str]]:
    """A row for each part, and one for all of them."""
    with tempfile.TemporaryDirectory() as folder:
        machine, parts = Path(folder) / "machine.yaml", Path(folder) / "parts.yaml"
        machine.write_text(_MACHINE.format(nodes=nodes))
        parts.write_text(workload(nodes, across))
        found = several(parts, topology=machine, time_limit=time_limit)
    ends = {way: found.parts.ends_us(found.plans[way]) for way in WAYS}
    where = [str(nodes), "several nodes" if across else "one node"]
    named = enumerate(zip(found.parts.requested, found.alone, strict=True))
    of_parts = [
        [*where, part.name, f"{alone.schedule.makespan_us:.1f}"]
        + [f"{ends[way][at]:.1f}" for way in WAYS]
        + ["", ""]
        for at, (part, alone) in named
    ]
    times = [f"{found.plans[way].makespan_us:.1f}" for way in WAYS]
    bound = [f"{found.bound.value_us:.1f}", f"{found.gap:.1%}"]
    return [*of_parts, [*where, "all", "", *times, *bound]]


def main() -> None:
    """Run all rows and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--nodes", type=int, nargs="+", default=[4, 8])
    arguments = parser.parse_args()
    table = [
        row
        for nodes in arguments.nodes
        for across in (False, True)
        for row in rows(nodes, across, arguments.time_limit)
    ]
    intro = (
        "OptCCL's public joint workload (SIGCOMM 2026) on its machine: nodes of 8 A100s, NVLink 300 GB/s a "
        "GPU each way, a NIC of 25 GB/s a GPU. For 8 nodes: 64 sends of 16 MB to the next node, 8 AlltoAlls "
        "of 8 GPUs with 8 MB for each pair, 16 AllGathers of 4 GPUs with 16 MB each. The sizes in bytes and "
        "who belongs to which group are ours, so times are not OptCCL's; it calls the ways concat, overlay "
        f"and joint. {arguments.time_limit:g} s for everything, for each number of nodes "
        "([what the ways are](../several.md))."
    )
    report.write("several", "Several collectives at once", intro, report.table(_HEADER, table))


if __name__ == "__main__":
    main()

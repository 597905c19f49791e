"""TACCL's published inputs against what its published code reaches on them.

    python -m benchmarks.peers SHARED_DATA/taccl [--time-limit SECONDS]

SHARED_DATA/taccl holds TACCL's sketches and profiles (sketch/*.json, topo/*.json). The rules are
TACCL's: serial occupancy, the inter-node beta multiplied by (links / NICs), every chunk at the cost
of the profile's chunk. That code also truncates the cost of a link inside a node to an integer of
the profile's (scaled) unit, in its own favour; `--exact` leaves the costs as they are. Its best times,
over several solvers and seeds, are in `TACCL_US`, in the profile's unit.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import replace
from pathlib import Path

import taccl
from benchmarks import report
from taccl.model import units
from taccl.topologies import Link, PhysicalTopology, load_topology

#: (machine, nodes, collective, sketch file, profile, best executable time of TACCL's code).
TACCL_US = (
    ("ndv2", 2, "allgather", "sk1-ndv2-n2", "1MB", 942.4),
    ("ndv2", 2, "allgather", "sk1-ndv2-n2", "32KB", 394.0),
    ("ndv2", 2, "allgather", "sk1-ndv2-n2", "1KB", 862.0),
    ("ndv2", 2, "allgather", "sk2-ndv2-n2", "1KB", 916.0),
    ("ndv2", 2, "allgather", "sk3-ndv2-n2", "1MB", 957.6),
    ("ndv2", 2, "alltoall", "sk1-ndv2-n2", "1MB", 6753.8),
    ("ndv2", 2, "alltoall", "sk1-ndv2-n2", "1KB", 3628.0),
    ("ndv2", 2, "alltoall", "sk2-ndv2-n2", "1KB", 916.0),
    ("ndv2", 2, "allreduce", "sk1-ndv2-n2", "1MB", 1920.8),
    ("ndv2", 2, "allreduce", "sk1-ndv2-n2", "1KB", 3186.0),
    ("ndv2", 1, "allgather", "sk1-ndv2-n1", "1MB", 69.0),
    ("ndv2", 1, "allgather", "sk1-ndv2-n1", "1KB", 68.0),
    ("ndv2", 1, "alltoall", "sk1-ndv2-n1", "1MB", 161.0),
    ("ndv2", 1, "alltoall", "sk1-ndv2-n1", "1KB", 170.0),
    ("dgx2", 2, "allgather", "sk1-dgx2-n2", "1MB", 563.8),
    ("dgx2", 2, "allgather", "sk2-dgx2-n2", "1KB", 930.0),
    ("dgx2", 2, "allreduce", "sk1-dgx2-n2", "1MB", 1138.2),
    ("dgx2", 2, "alltoall", "sk2-dgx2-n2", "1KB", 2666.0),
    ("dgx2", 1, "allgather", "sk1-dgx2-n1", "1MB", 120.0),
    ("ndv2", 4, "allgather", "sk1-ndv2-n4", "1MB", 2651.0),
)
#: The profiles' costs are microseconds times this.
SCALE = {"1MB": 1.0, "32KB": 10.0, "1KB": 100.0}
HEADER = (
    "machine",
    "collective",
    "sketch",
    "profile",
    "TACCL",
    "ours",
    "bound",
    "gap",
    "ours / TACCL",
    "total s",
)


def main() -> None:
    """Run all rows and write docs/results/peers.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--time-limit", type=float, default=50.0)
    parser.add_argument("--exact", action="store_true")
    arguments = parser.parse_args()
    rows = [_row(arguments.data, case, arguments.time_limit, arguments.exact) for case in TACCL_US]
    rule = "exact costs" if arguments.exact else "TACCL's costs, truncated to integers inside a node"
    intro = (
        f"Times in the profile's unit (us; x10 at 32KB, x100 at 1KB), {rule}; search limit "
        f"{arguments.time_limit:g} s a row. Every row of ours is a verified XML. TACCL: the best executable "
        "time of its published code over HiGHS, CP-SAT and Gurobi."
    )
    name = "peers-exact" if arguments.exact else "peers"
    report.write(name, "TACCL's inputs, TACCL's rules", intro, report.table(HEADER, rows))


def _row(
    data: Path, case: tuple[str, int, str, str, str, float], time_limit: float, exact: bool
) -> list[str]:
    machine, nodes, collective, sketch, profile, peer = case
    scale = SCALE[profile]
    topology = load_topology(machine, nodes=nodes, profile=data / "topo" / f"topo-{machine}-{profile}.json")
    if not exact:
        topology = truncated(topology, scale)
    began = time.monotonic()
    result = taccl.synthesize(
        collective,
        topology=topology,
        sketch=data / "sketch" / f"{sketch}.json",
        time_limit=time_limit,
        executor=False,
    )
    row = [
        f"{machine} x{nodes}",
        collective,
        sketch,
        profile,
        f"{peer:.1f}",
        f"{result.time_us * scale:.1f}",
        f"{result.lower_bound_us * scale:.1f}",
        f"{100 * result.gap:.1f}%",
        f"{result.time_us * scale / peer:.3f}",
        f"{time.monotonic() - began:.1f}",
    ]
    print(*row, sep="  ", file=sys.stderr, flush=True)
    return row


def truncated(topology: PhysicalTopology, scale: float) -> PhysicalTopology:
    """The machine with the costs that TACCL's code really uses inside a node.

    It takes int(alpha + beta) for one chunk; a GPU-switch-GPU way counts as one link.
    """
    chunk_mb = (topology.chunk_bytes or units.MB) / units.MB
    outside = {device.name for device in topology.devices if device.kind in ("nic", "pcie", "fabric")}
    through_switch = {device.name for device in topology.devices if device.kind == "switch"}

    def cut(link: Link) -> Link:
        if {link.src, link.dst} & outside:
            return link
        legs = 2 if {link.src, link.dst} & through_switch else 1
        alpha = link.alpha_us * legs * scale
        whole = math.floor(alpha + link.beta_us_per_mb * chunk_mb * scale + 1e-9)
        alpha = math.floor(alpha + 1e-9)
        beta = (whole - alpha) / scale / chunk_mb
        return replace(link, alpha_us=alpha / legs / scale, beta_us_per_mb=beta)

    return replace(topology, links=tuple(cut(link) for link in topology.links))


if __name__ == "__main__":
    main()

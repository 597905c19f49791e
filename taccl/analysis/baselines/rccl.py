"""What RCCL picks, without a time: its numbers choose, and predict nothing.

For MI300X and MI325X (gfx942). In one node the pick is the least of RCCL's model for rings with LL and with
Simple; trees are off there, and LL128's numbers are not here. Between nodes a table of sizes picks protocols.
Source: ROCm/rocm-systems, projects/rccl, src/graph/tuning.cc and src/rccl_wrap.cc, tuning model 5.
"""

from __future__ import annotations

from dataclasses import dataclass

from taccl.analysis.baselines.node_links import NodeLinks, links_of
from taccl.errors import CollectiveError, TopologyError
from taccl.model.collectives import plain_name
from taccl.model.units import MAX_SIZE_BYTES
from taccl.support.arguments import shown, whole_number
from taccl.topologies import PhysicalTopology
from taccl.topologies.importers.nodes.gpus import arch_of_model

_COLLECTIVES = ("allreduce", "allgather", "reducescatter")


@dataclass(frozen=True)
class TuningModel:
    """A row of RCCL's tables.

    Parameters
    ----------
    arch : of the GPUs.
    base_us, hop_us, share : of rings in one node by protocol: latency, that of a step, and the share of the
        bandwidth.
    reducescatter_ll_bytes : in one node ReduceScatters of up to this many bytes a rank use LL.
    between : by collective, up to how many bytes LL, and then LL128, is picked between nodes: bytes of a
        rank's part, and of an AllReduce all.
    """

    arch: str
    base_us: dict[str, float]
    hop_us: dict[str, float]
    share: dict[str, float]
    reducescatter_ll_bytes: int
    between: dict[str, tuple[int, int]]


MI300X = TuningModel(
    arch="gfx942",
    base_us={"LL": 12.0, "Simple": 17.0},
    hop_us={"LL": 0.8, "Simple": 2.1},
    share={"LL": 0.08, "Simple": 1.0},
    reducescatter_ll_bytes=352128,
    between={
        "allreduce": (512 * 2**10, 4_400_000),
        "allgather": (96 * 2**10, 5_000_000),
        "reducescatter": (640 * 2**10, 3_200_000),
    },
)


def choice(topology: PhysicalTopology, collective: str, size_bytes: int, *, gpu: str | None = None) -> str:
    """What RCCL picks: `Ring LL`, or the protocol alone where the algorithm is not known here.

    Raises
    ------
    TopologyError : the GPUs are not known, or RCCL's numbers for them are not here.
    CollectiveError : a collective whose numbers are not here, or a size out of range.
    """
    _check_gpus(topology, gpu)
    name = plain_name(collective) if isinstance(collective, str) else ""
    if name not in _COLLECTIVES:
        raise CollectiveError(
            f"RCCL's choice for {shown(collective)} is not in this program", hint=", ".join(_COLLECTIVES)
        )
    whole_number(size_bytes, "a size", CollectiveError, least=1, most=MAX_SIZE_BYTES)
    ranks = topology.num_members
    if topology.num_nodes == 1:
        return _in_one_node(MI300X, name, links_of(topology), size_bytes)
    part = size_bytes if name == "allreduce" else size_bytes // ranks
    most_ll, most_ll128 = MI300X.between[name]
    protocol = "LL" if part <= most_ll else "LL128" if part <= most_ll128 else "Simple"
    return protocol if name == "allreduce" else f"Ring {protocol}"


def _check_gpus(topology: PhysicalTopology, gpu: str | None) -> None:
    model = gpu or topology.gpu
    if model is None:
        raise TopologyError(f"{topology.name!r} does not say which GPUs it has", hint="--gpu MI300X")
    arch = arch_of_model(model) or ""
    if arch.startswith("sm"):
        raise TopologyError(f"{model} is NVIDIA's, and RCCL runs on AMD's GPUs", hint="taccl baseline nccl")
    if arch != MI300X.arch:
        raise TopologyError(
            f"RCCL's numbers for {model[:40]!r} are not in this program", hint="mi300x, mi325x"
        )


def _in_one_node(model: TuningModel, collective: str, links: NodeLinks, size_bytes: int) -> str:
    """The least of the model, whose rings fill all links of a GPU."""
    ranks = links.gpus
    if collective == "reducescatter" and size_bytes // ranks <= model.reducescatter_ll_bytes:
        return "Ring LL"
    steps = (2 if collective == "allreduce" else 1) * (ranks - 1)
    times = {
        protocol: model.base_us[protocol]
        + steps * model.hop_us[protocol]
        + size_bytes / (1000 * links.gpu_gbps * model.share[protocol] * ranks / steps)
        for protocol in model.base_us
    }
    return f"Ring {min(times, key=lambda protocol: times[protocol])}"

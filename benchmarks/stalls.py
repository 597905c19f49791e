"""Stalls of training steps and what allocations cost, next to what was published; docs/results/stalls.md.

    python -m benchmarks.stalls

Layers, bytes and times are facts of github.com/aakash-sharma/cluster-sim (astra-sim/workload, commit
0659dcf): forward, gradients of inputs and of weights, of a GPU that it does not name. Stash (Sharma and
others) reports stalls of up to 5x over the network and of up to 90% inside a node, without the times behind
them: rows here say whether such figures are plausible, and test nothing.
"""

from __future__ import annotations

from benchmarks import report
from taccl.analysis.training.placements import rank_placements
from taccl.analysis.training.stalled import stall
from taccl.analysis.training.workload import Layer, Workload
from taccl.topologies import parse_topology
from taccl.topologies.model import PhysicalTopology

#: Bytes of gradients in fp32, microseconds forward and backward, of each layer.
_VGG11 = (
    *((6912, 708, 17339), (294912, 13499, 30087), (1179648, 9910, 20342), (2359296, 17099, 33916)),
    *((4718592, 8210, 14703), (9437184, 14670, 28680), (9437184, 3651, 7021), (9437184, 3133, 7105)),
    *((411041792, 5578, 8750), (67108864, 923, 1670), (16384000, 233, 486)),
)
_ALEXNET = (
    *((92928, 4717, 13558), (1228800, 2986, 6500), (2654208, 1628, 4336), (3538944, 2168, 4575)),
    *((2359296, 1631, 3304), (150994944, 3196, 6346), (67108864, 1575, 2944), (16384000, 455, 743)),
)
_RESNET18 = (
    *((37632, 764, 26986), (147456, 3192, 6350), (147456, 2888, 9141), (147456, 2791, 9457)),
    *((147456, 2943, 9145), (294912, 1769, 6525), (589824, 1780, 5266), (32768, 594, 3878)),
    *((589824, 1735, 4828), (589824, 1623, 5266), (1179648, 1108, 3236), (2359296, 1369, 3590)),
    *((131072, 577, 2214), (2359296, 1502, 3465), (2359296, 1305, 3401), (4718592, 926, 2362)),
    *((9437184, 1468, 3138), (524288, 365, 1099), (9437184, 1390, 3177), (9437184, 1399, 3219)),
    (2048000, 46, 103),
)
#: The batch that the times are for, and that of Stash's runs.
_MODELS = {
    "VGG11": (_VGG11, 256, 80),
    "AlexNet": (_ALEXNET, 512, 256),
    "ResNet18": (_RESNET18, 512, 128),
}
#: Steps over computing, as an earlier version of this model had them for these layers: fp16, fp32.
_BEFORE = {"VGG11": ("5.1", "9.9"), "AlexNet": ("6.0", "11.6"), "ResNet18": ("1.7", "2.0")}
_IN_NODE = {"VGG11": "97%", "ResNet18": "90%"}

_PAIR = """\
name: two p3.8xlarge
nodes: 2
node:
  gpus: 4
  nics: 1
  links:
    - {pairs: [0-1, 0-2, 0-3, 1-2, 1-3, 2-3], alpha_us: 2, bandwidth_gbps: 43}
    - {from: gpus, to: nics, alpha_us: 0, bandwidth_gbps: 12}
fabric: {alpha_us: 25, bandwidth_gbps: 1.25}
"""
_SHARED = """\
name: 16 GPUs of p2
gpus: 16
switches: [root]
links: [{from: gpus, to: root, alpha_us: 5, bandwidth_gbps: 1}]
"""
_CLUSTER = """\
name: cluster
nodes: 4
node:
  gpus: 8
  nics: 1
  switches: [nvswitch]
  links:
    - {from: gpus, to: nvswitch, alpha_us: 1, bandwidth_gbps: 130}
    - {from: nvswitch, to: nics, alpha_us: 0, bandwidth_gbps: 12.5}
fabric:
  alpha_us: 25
  bandwidth_gbps: 12.5
  levels: [{name: rack, nodes: 2, oversubscription: 4, alpha_us: 10}, {name: spine}]
"""
_OFFERS = (
    *("n0", "n[0-1].gpu[0-3]", "n0.gpu[0-4],n1.gpu[0-2]", "n0.gpu[0-5],n1.gpu[0-1]"),
    *("n[1-2].gpu[0-3]", "n1.gpu[0-4],n2.gpu[0-2]"),
)
_SEVEN = ("n0.gpu[0-6]", "n0.gpu[0-3],n1.gpu[0-2]", "n1.gpu[0-3],n2.gpu[0-2]")
_SECONDS = 12.0
#: A ring in one order, as NCCL runs it: chunks cross between two nodes 2 (n - 1) / n times each way; and
#: rings in several orders, dealt so that each chunk crosses once.
_PLANS = "ring both directions,ring"

_INTRO = """\
`taccl stall` and `taccl rank-placements` ([page](../stall.md)): buckets of 25 MB, links alone. *Step* is that
of a ring in one order, half of each chunk each way, whose loads are NCCL's; rings in several orders are dealt
so that a chunk crosses between two nodes once each way. Layers with their bytes and times are those of
cluster-sim, of a GPU that it does not name, in proportion to the batches of Stash's runs; so rows are
plausible or not, and prove nothing about its machines."""


def workload(name: str, batch: float | None = None) -> Workload:
    """A model with the batch of Stash's runs, or another."""
    rows, measured, stash = _MODELS[name]
    layers = tuple(Layer(f"{index}", *row) for index, row in enumerate(rows))
    return Workload(name, measured, layers).with_batch(stash if batch is None else batch)


def over_the_network(machine: PhysicalTopology) -> list[tuple[str, ...]]:
    """Steps over computing on two nodes with 10 Gb/s between them."""
    rows = []
    for name in _MODELS:
        for place, gradients in enumerate(("fp16", "fp32")):
            found = stall(
                workload(name), topology=machine, plan=_PLANS, gradients=gradients, time_limit=_SECONDS
            )
            steps = [each.step for each in found.plans]
            times = [f"{each.step_us / each.compute_us:.1f}x" for each in steps]
            print(name, gradients, times, flush=True)
            rows.append(
                (
                    *(name, gradients, f"{steps[0].compute_us / 1e3:.1f}", f"{steps[0].step_us / 1e3:.1f}"),
                    *(f"{found.bound_us / 1e3:.1f}", *times, f"{_BEFORE[name][place]}x"),
                )
            )
    return rows


def in_one_node(machine: PhysicalTopology) -> list[tuple[str, ...]]:
    """Stalls of 16 GPUs with 1 GB/s each, batch 32."""
    rows = []
    for name, before in _IN_NODE.items():
        found = stall(workload(name, 32), topology=machine, plan="ring both directions", time_limit=_SECONDS)
        print(name, found.best.step.stall, flush=True)
        least = found.exposed_bound_us / found.bound_us
        rows.append((name, f"{100 * found.best.step.stall:.0f}%", f"{100 * least:.0f}%", before))
    return rows


def allocations(machine: PhysicalTopology) -> list[tuple[str, ...]]:
    """Steps of VGG11 on splits of eight and of seven GPUs."""
    rows = []
    for offers in (_OFFERS, _SEVEN):
        found = rank_placements(workload("VGG11"), offers, topology=machine, time_limit=_SECONDS)
        for each in found.rows:
            print(each.allocation.text, each.step_us, flush=True)
            of_best = each.step_us / found.rows[0].step_us
            times = (f"{each.step_us / 1e3:.2f}", f"{each.bound_us / 1e3:.2f}", f"{of_best:.3f}x")
            rows.append((each.allocation.text, each.shape, *times))
    return rows


def main() -> None:
    """Predict all, and write the page."""
    pair, shared, cluster = map(parse_topology, (_PAIR, _SHARED, _CLUSTER))
    network = report.table(
        (
            *("model", "gradients", "compute (ms)", "step (ms)", "bound (ms)", "step / compute"),
            *("rings in several orders", "by ring formula"),
        ),
        over_the_network(pair),
    )
    node = report.table(("model", "stall", "at least", "by ring formula"), in_one_node(shared))
    splits = report.table(("GPUs", "shape", "step (ms)", "bound (ms)", "of best"), allocations(cluster))
    body = (
        f"## Two nodes of four GPUs, 10 Gb/s between them\n\nPublished: up to 5x.\n\n{network}\n\n"
        f"## 16 GPUs in a node, 1 GB/s each, batch 32, fp32\n\nPublished: up to 90%.\n\n{node}\n\n"
        "## Uneven allocations\n\nVGG11, fp32, on two racks of two nodes of eight GPUs, 100 Gb/s a node, "
        "uplinks oversubscribed 4:1. ASTRA-sim, which Dally asks, charges 5+3 as 4+4, and 4+3 as a flat "
        "ring.\n\n"
        f"{splits}"
    )
    report.write("stalls", "Stalls of training steps", _INTRO, report.wrapped(body))


if __name__ == "__main__":
    main()

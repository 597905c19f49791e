"""Machines by name: `ndv2`, `dgx2`, ... for any number of nodes, and shapes such as `torus:4x4`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

from taccl.errors import TopologyError
from taccl.support.arguments import is_whole, shown, word
from taccl.topologies import generators
from taccl.topologies.devices import NO_NODE
from taccl.topologies.machines import amd, clouds, nvidia, pcie, published, tpu
from taccl.topologies.machines.dragonfly import DRAGONFLY_FIGURES, dragonfly
from taccl.topologies.machines.fat_tree import FAT_TREE_FIGURES, fat_tree
from taccl.topologies.machines.figures import Bandwidth, Figure
from taccl.topologies.machines.machine import CONFIDENCE, Confidence, Machine
from taccl.topologies.model import PhysicalTopology
from taccl.topologies.strict_yaml import nearest

__all__ = [
    "CONFIDENCE",
    "CatalogueEntry",
    "build_topology",
    "catalogue",
    "catalogue_entry",
    "is_catalogue_name",
]


@dataclass(frozen=True)
class CatalogueEntry:
    """A name that `build_topology` takes. Of a shape, such as `ring:8`, the part after the colon varies.

    Parameters
    ----------
    summary : what it is.
    default_nodes : how many, if nobody says.
    confidence : a key of `CONFIDENCE`.
    source : who says what it is like.
    figures : its numbers, each with its source; of some machines only those that sources give.
    """

    name: str
    summary: str
    default_nodes: int
    confidence: Confidence = "shape"
    source: str = ""
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class _Shape:
    """`build` takes the sizes after the colon: this many as `example` has, or as are in `counts`.

    `nodes` are those of the example, and `params` what `build` takes next to a cost and an occupancy. With
    `oversubscription` among them, its values may follow the sizes: `fat-tree:16x8:2`.
    """

    build: Callable[..., PhysicalTopology]
    example: str
    summary: str
    confidence: Confidence = "shape"
    source: str = "0.5 us and 50 GB/s a hop, unless given"
    figures: tuple[Figure, ...] = ()
    counts: range | None = None
    nodes: int = 1
    params: tuple[str, ...] = ()


def _one_way_ring(gpus: int, **params: Any) -> PhysicalTopology:
    return generators.ring(gpus, unidirectional=True, **params)


#: Those that results are compared on first, then those that people have.
_MACHINES: dict[str, Machine] = {
    **published.MACHINES,
    **nvidia.MACHINES,
    **clouds.MACHINES,
    **amd.MACHINES,
    **pcie.MACHINES,
}

#: Any number of sizes: the generator says how many are too many.
_ANY = range(1, 100)

_SHAPES = {
    "switch": _Shape(generators.single_switch, "8", "N GPUs behind one switch"),
    "ring": _Shape(generators.ring, "8", "N GPUs in a ring, links both directions"),
    "ring-oneway": _Shape(_one_way_ring, "8", "N GPUs in a ring, links one way"),
    "torus": _Shape(generators.torus, "4x4", "a grid whose lines are rings: AxB, AxBxC", counts=_ANY),
    "mesh": _Shape(generators.mesh, "4x4", "a grid with borders: AxB, AxBxC", counts=_ANY),
    "full": _Shape(generators.fully_connected, "8", "N GPUs, a link from each to each"),
    "hub": _Shape(generators.hub_and_spoke, "8", "N GPUs, GPU 0 linked to each other one"),
    "fat-tree": _Shape(
        fat_tree,
        "8x8",
        "HxL: H hosts at each of L leaves; HxLxP: P pods; K: k-ary; HxL:2 is 2:1 oversubscribed",
        *("shape", "NCCL's constants; a level's latency is ours", FAT_TREE_FIGURES),
        counts=range(1, 4),
        nodes=8,
        params=("level_alpha_us", "oversubscription"),
    ),
    "dragonfly": _Shape(
        dragonfly,
        "8x4x2",
        "GxAxP: G groups of A routers with P hosts each; GxAxPxH: with H links to other groups each",
        *("shape", "Slingshot's ports and routers; NCCL's constants", DRAGONFLY_FIGURES),
        counts=range(3, 5),
        nodes=8,
        params=("local_alpha_us", "global_alpha_us", "local_gbps", "global_gbps"),
    ),
    "pcie": _Shape(
        pcie.pcie_box,
        "2x4",
        "CxN: C CPUs, all joined, with N GPUs each, PCIe 4",
        *("shape", "NCCL's constants", pcie.PCIE_BOX_FIGURES),
    ),
    "tpu-v4": _Shape(
        tpu.TPU_V4.build,
        "4x4x4",
        "AxBxC chips of a TPU v4, a torus where all are multiples of 4",
        *("vendor", "Google", tpu.TPU_V4.figures()),
    ),
    "tpu-v5e": _Shape(
        tpu.TPU_V5E.build,
        "4x4",
        "AxB chips of a TPU v5e, a ring along a dimension of 16",
        *("vendor", "Google", tpu.TPU_V5E.figures()),
    ),
    "tpu-v5p": _Shape(
        tpu.TPU_V5P.build,
        "4x4x4",
        "AxBxC chips of a TPU v5p, a torus where all are multiples of 4",
        *("vendor", "Google", tpu.TPU_V5P.figures()),
    ),
    "tpu-v6e": _Shape(
        tpu.TPU_V6E.build,
        "4x4",
        "AxB chips of a TPU v6e, a ring along a dimension of 16",
        *("vendor", "Google", tpu.TPU_V6E.figures()),
    ),
    "tpu-7x": _Shape(
        tpu.TPU_7X.build,
        "4x4x4",
        "AxBxC chips of a TPU 7x (Ironwood), a torus where all are multiples of 4",
        *("vendor", "Google", tpu.TPU_7X.figures()),
    ),
}


def catalogue() -> tuple[CatalogueEntry, ...]:
    """Every machine, and one example of every shape."""
    return (*map(_entry_of_machine, _MACHINES), *map(_entry_of_shape, _SHAPES))


def catalogue_entry(name: str) -> CatalogueEntry | None:
    """The entry that a name belongs to, which of `ring:5` is that of `ring:8`; None where there is none."""
    family = name.partition(":")[0]
    if family in _SHAPES:
        return _entry_of_shape(family)
    return _entry_of_machine(name) if name in _MACHINES else None


def _entry_of_machine(name: str) -> CatalogueEntry:
    each = _MACHINES[name]
    return CatalogueEntry(name, each.summary, each.default_nodes, each.confidence, each.source, each.figures)


def _entry_of_shape(family: str) -> CatalogueEntry:
    each = _SHAPES[family]
    return CatalogueEntry(
        f"{family}:{each.example}", each.summary, each.nodes, each.confidence, each.source, each.figures
    )


def is_catalogue_name(name: str) -> bool:
    """Whether `name`, up to a colon, is one that `build_topology` knows."""
    return name.partition(":")[0] in _MACHINES.keys() | _SHAPES.keys()


def build_topology(name: str, nodes: int | None = None, **params: Any) -> PhysicalTopology:
    """The machine called `name`.

    Parameters
    ----------
    name : a machine of `catalogue()`, such as `dgx-h100`, or a shape and its size: `switch:8`, `ring:8`,
        `torus:4x4`, `mesh:3x3x3`, `full:8`, `pcie:2x4`, `tpu-v4:4x4x4`, `fat-tree:8x8`, `dragonfly:8x4x2`.
    nodes : how many nodes (2 of most machines when not given). A shape is one node; of a fat tree and a
        dragonfly, whose sizes say how many, only this many are used.
    params : for a shape, what its generator takes: `alpha_us`, `beta_us_per_mb` or `bandwidth_gbps`,
        `occupancy`, and of a fat tree and a dragonfly more. For all others `occupancy`, and for those whose
        figures have a peak `bandwidth`: `nccl`, what kernels get of a link (the default), or `peak`, what the
        vendor says.

    Raises
    ------
    TopologyError : an unknown name, a shape that is no machine, a parameter that it does not take.
    """
    if not isinstance(name, str):
        raise TopologyError(f"a machine is a name, a file or a PhysicalTopology, not {shown(name)}")
    family, colon, shape = name.partition(":")
    if family in _MACHINES and not colon:
        return _build_machine(family, nodes, **params)
    if family in _SHAPES:
        return _build_shape(family, shape, nodes, **params)
    if family in _MACHINES:
        raise TopologyError(f"{family} takes no shape, as in {name!r}", hint="give the number of nodes")
    names = [*_MACHINES, *(f"{name}:{shape.example}" for name, shape in _SHAPES.items())]
    near = nearest(family, [*_MACHINES, *_SHAPES])
    raise TopologyError(
        f"there is no machine called {shown(name)}", hint=near if "," not in near else ", ".join(names)
    )


def _build_machine(name: str, nodes: int | None, **params: Any) -> PhysicalTopology:
    machine = _MACHINES[name]
    _check_params(name, params, ["occupancy", "bandwidth"] if machine.has_peak else ["occupancy"])
    bandwidth = word(params.get("bandwidth", "nccl"), "bandwidth", get_args(Bandwidth), TopologyError)
    topology = machine.build(name, machine.default_nodes if nodes is None else nodes, bandwidth)
    return topology.with_occupancy(params["occupancy"]) if "occupancy" in params else topology


#: The generator says which numbers are too small or too large; so few digits are no work to read.
_SIZES = re.compile(r"-?[0-9]{1,40}(x-?[0-9]{1,40})*")


def _build_shape(family: str, shape: str, nodes: int | None, **params: Any) -> PhysicalTopology:
    entry = _SHAPES[family]
    example = f"{family}:{entry.example}"
    text, *ratios = shape.split(":") if "oversubscription" in entry.params else [shape]
    sizes = [int(size) for size in text.split("x")] if _SIZES.fullmatch(text) else []
    counts = entry.counts or [entry.example.count("x") + 1]
    if len(sizes) not in counts or not all(re.fullmatch(r"\d{1,6}(\.\d{1,6})?", each) for each in ratios):
        what = f"{shape!r} is no shape of a {family}" if shape else f"{family} needs a shape"
        raise TopologyError(what, hint=example)
    _check_params(
        family, params, ["alpha_us", "beta_us_per_mb", "bandwidth_gbps", "occupancy", *entry.params]
    )
    if ratios:
        if "oversubscription" in params:
            raise TopologyError(f"{family}:{shape} has an oversubscription already", hint="give one of them")
        params["oversubscription"] = [float(ratio) for ratio in ratios]
    topology = entry.build(*sizes, **params)
    if nodes is None or (is_whole(nodes) and nodes == topology.num_nodes):
        return topology
    if not is_whole(nodes) or not 1 <= nodes <= topology.num_nodes:
        has = "is one node" if topology.num_nodes == 1 else f"has {topology.num_nodes} nodes"
        raise TopologyError(
            f"{family}:{shape} {has}, so it cannot have {shown(nodes)}", hint="leave nodes out"
        )
    return _first_nodes(topology, nodes)


def _first_nodes(topology: PhysicalTopology, nodes: int) -> PhysicalTopology:
    """The machine with this many of its nodes; what joins nodes stays as it is, and goes where one is
    left.
    """
    kept = [device for device in topology.devices if device.node < nodes]
    names = {device.name for device in kept if nodes > 1 or device.node != NO_NODE}
    return replace(
        topology,
        devices=tuple(device for device in kept if device.name in names),
        links=tuple(link for link in topology.links if {link.src, link.dst} <= names),
    )


def _check_params(name: str, params: dict[str, Any], known: list[str]) -> None:
    for key in params:
        if key not in known:
            raise TopologyError(f"{name} takes no parameter {key!r}", hint=nearest(key, known))

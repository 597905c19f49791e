"""Machines by name: `ndv2`, `dgx2`, ... for any number of nodes, and shapes such as `torus:4x4`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from taccl.arguments import is_whole, shown
from taccl.errors import TopologyError
from taccl.topologies import generators, machines
from taccl.topologies.model import PhysicalTopology
from taccl.topologies.strict_yaml import nearest


@dataclass(frozen=True)
class CatalogueEntry:
    """A name that `build_topology` takes. Of a shape, such as `ring:8`, the part after the colon varies."""

    name: str
    summary: str
    default_nodes: int


@dataclass(frozen=True)
class _Shape:
    """`build` takes the sizes after the colon; `example` is a shape that it takes."""

    build: Callable[..., PhysicalTopology]
    example: str
    summary: str


def _one_way_ring(gpus: int, **params: Any) -> PhysicalTopology:
    return generators.ring(gpus, unidirectional=True, **params)


_MACHINES: dict[str, tuple[Callable[[int], PhysicalTopology], str, int]] = {
    "dgx2": (machines.dgx2, "NVIDIA DGX-2: 16 V100s behind NVSwitches, a NIC for each pair of GPUs", 2),
    "ndv2": (machines.ndv2, "Azure NDv2: 8 V100s in a hybrid cube mesh, one NIC beside GPUs 0 and 1", 2),
    "a100": (machines.a100, "DGX A100: 8 A100s behind NVSwitches, a NIC of 25 GB/s for each GPU", 2),
    "dgx2-teccl": (machines.dgx2_teccl, "DGX-2 as TE-CCL models it: odd to even GPUs, pipelined", 2),
    "ndv2-teccl": (machines.ndv2_teccl, "NDv2 as TE-CCL models it: GPU 0 to GPU 1, pipelined", 4),
}

_SHAPES = {
    "switch": _Shape(generators.single_switch, "8", "N GPUs behind one switch"),
    "ring": _Shape(generators.ring, "8", "N GPUs in a ring, links both ways"),
    "ring-oneway": _Shape(_one_way_ring, "8", "N GPUs in a ring, links one way"),
    "torus": _Shape(generators.torus, "4x4", "a grid whose lines are rings: AxB, AxBxC"),
    "mesh": _Shape(generators.mesh, "4x4", "a grid with borders: AxB, AxBxC"),
    "full": _Shape(generators.fully_connected, "8", "N GPUs, a link from each to each"),
    "hub": _Shape(generators.hub_and_spoke, "8", "N GPUs, GPU 0 linked to each other one"),
}


def catalogue() -> tuple[CatalogueEntry, ...]:
    """Every machine, and one example of every shape."""
    of_nodes = (CatalogueEntry(name, summary, n) for name, (_, summary, n) in _MACHINES.items())
    shapes = (CatalogueEntry(f"{name}:{shape.example}", shape.summary, 1) for name, shape in _SHAPES.items())
    return (*of_nodes, *shapes)


def is_catalogue_name(name: str) -> bool:
    """Whether `name`, up to a colon, is one that `build_topology` knows."""
    return name.partition(":")[0] in _MACHINES.keys() | _SHAPES.keys()


def build_topology(name: str, nodes: int | None = None, **params: Any) -> PhysicalTopology:
    """The machine called `name`.

    Parameters
    ----------
    name : `ndv2`, `dgx2`, `a100`, `ndv2-teccl`, `dgx2-teccl`, or a shape and its size: `switch:8`, `ring:8`,
        `ring-oneway:8`, `torus:4x4`, `mesh:3x3x3`, `full:8`, `hub:8`.
    nodes : how many nodes (2 of most machines when not given); a shape is one node.
    params : for a shape, what its generator takes: `alpha_us`, `beta_us_per_mb` or
        `bandwidth_gbps`, `occupancy`. For all others `occupancy` only.

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
    build, _, default_nodes = _MACHINES[name]
    _check_params(name, params, ["occupancy"])
    topology = build(default_nodes if nodes is None else nodes)
    return topology.with_occupancy(params["occupancy"]) if "occupancy" in params else topology


def _build_shape(family: str, shape: str, nodes: int | None, **params: Any) -> PhysicalTopology:
    entry = _SHAPES[family]
    example = f"{family}:{entry.example}"
    sizes = [int(size) for size in shape.split("x")] if re.fullmatch(r"\d{1,6}(x\d{1,6})*", shape) else []
    takes_one = "x" not in entry.example
    if not sizes or (takes_one and len(sizes) > 1):
        what = f"{shape!r} is no shape of a {family}" if shape else f"{family} needs a shape"
        raise TopologyError(what, hint=example)
    if nodes is not None and not (is_whole(nodes) and nodes == 1):
        raise TopologyError(
            f"{family}:{shape} is one node, so it cannot have {shown(nodes)}", hint="leave nodes out"
        )
    _check_params(family, params, ["alpha_us", "beta_us_per_mb", "bandwidth_gbps", "occupancy"])
    return entry.build(*sizes, **params)


def _check_params(name: str, params: dict[str, Any], known: list[str]) -> None:
    for key in params:
        if key not in known:
            raise TopologyError(f"{name} takes no parameter {key!r}", hint=nearest(key, known))

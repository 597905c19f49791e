"""TACCL's topology profiles: the measured costs of a machine's links, for one size of chunk.

A profile is a JSON file whose name says the chunk size, such as `topo-ndv2-32KB.json`. Its alphas
and betas are microseconds for one chunk of that size, and they are scaled, since the published code
cuts costs to whole numbers: by 100 in files for 1KB, by 10 for 32KB, and by 1 for 1MB. Reading one
undoes both, to microseconds and microseconds per MB.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from taccl.errors import TopologyError
from taccl.model.units import KB, MB, format_size
from taccl.topologies.devices import NO_NODE, Device, Link
from taccl.topologies.model import PhysicalTopology
from taccl.topologies.strict_yaml import Node, load_yaml

#: Chunk size in bytes -> what the costs in a file for it are multiplied by.
SCALE = {1 * KB: 100, 32 * KB: 10, 1 * MB: 1}

_KEYS = ("name", "gpus_per_node", "alpha", "node_betas_list", "remote_alpha", "remote_beta")
_UNUSED_KEYS = ("nics_per_node", "node_invbws_list", "remote_invbw")


@dataclass(frozen=True)
class Profile:
    """The costs of a machine's links.

    Parameters
    ----------
    name : what the file calls the machine.
    chunk_bytes : the chunk size that the costs were measured for.
    gpus_per_node : of the machine they were measured on.
    alpha_us : of a transfer between GPUs of one node.
    betas_us_per_mb : of each class of links inside a node, the fastest first.
    remote_alpha_us, remote_beta_us_per_mb : of a transfer between GPUs of different nodes.
    """

    name: str
    chunk_bytes: int
    gpus_per_node: int
    alpha_us: float
    betas_us_per_mb: tuple[float, ...]
    remote_alpha_us: float
    remote_beta_us_per_mb: float


def load_profile(path: str | Path) -> Profile:
    """Read one of TACCL's `topo-*.json` files.

    Raises
    ------
    FileError : it cannot be read.
    TopologyError : a key is missing, unknown or of a wrong type, or neither `name` nor the file's
        name ends in a chunk size whose scale is known.
    """
    root = load_yaml(path, TopologyError)
    keys = root.mapping(allowed=_KEYS + _UNUSED_KEYS, required=_KEYS)
    chunk_bytes = _chunk_bytes(keys["name"], Path(path).stem)
    scale = SCALE[chunk_bytes]

    def per_mb(node: Node) -> float:
        return float(Fraction(str(node.number(above=0))) * MB / (scale * chunk_bytes))

    betas = [per_mb(beta) for beta in keys["node_betas_list"].elements()]
    if not betas:
        raise keys["node_betas_list"].error("node_betas_list is empty", hint="one beta per class of links")
    return Profile(
        name=keys["name"].string(),
        chunk_bytes=chunk_bytes,
        gpus_per_node=keys["gpus_per_node"].integer(minimum=1),
        alpha_us=keys["alpha"].number(minimum=0) / scale,
        betas_us_per_mb=tuple(sorted(betas)),
        remote_alpha_us=keys["remote_alpha"].number(minimum=0) / scale,
        remote_beta_us_per_mb=per_mb(keys["remote_beta"]),
    )


def _chunk_bytes(name: Node, stem: str) -> int:
    for text in (name.string(), stem):
        match = re.search(r"(?:^|[_-])(\d{1,6})(KB|MB|K|M)$", text, re.IGNORECASE)
        if match:
            size = int(match[1]) * (KB if match[2][0] in "kK" else MB)
            if size in SCALE:
                return size
            raise name.error(
                f"the scale of costs for chunks of {match[0].strip('_-')} is not known",
                hint="profiles are for " + ", ".join(map(format_size, SCALE)),
            )
    raise name.error(
        f"neither the name {text!r} of the file nor {name.raw!r} ends in a chunk size, which tells the scale",
        hint=f"name: {name.raw}_1MB",
    )


def with_profile(topology: PhysicalTopology, profile: Profile) -> PhysicalTopology:
    """The machine with the profile's costs in place of its own, and its `chunk_bytes`.

    Inside a node, links from GPU to GPU and between a GPU and a switch form classes by their beta;
    the k-th fastest class gets the profile's k-th smallest beta. A link to or from a switch gets
    half of the alpha, so that GPU to GPU costs all of it. Between nodes, the links to and from the
    fabric get half of the remote alpha each; links inside a node on the way to a NIC get none; all
    get the remote beta.

    Raises
    ------
    TopologyError : the GPUs per node, or the number of classes, are not the profile's; or the machine has
        several levels between its nodes, whose costs no profile has.
    """
    if topology.num_members != profile.gpus_per_node * topology.num_nodes:
        raise TopologyError(
            f"profile {profile.name!r} is for {profile.gpus_per_node} GPUs per node, but {topology.name!r} "
            f"has {topology.num_members} GPUs in {topology.num_nodes} node(s)"
        )
    device = {device.name: device for device in topology.devices}
    _check_one_network(topology, device)

    def is_remote(link: Link) -> bool:
        ends = device[link.src], device[link.dst]
        return ends[0].node != ends[1].node or any(end.kind in ("nic", "pcie", "fabric") for end in ends)

    classes = sorted({link.beta_us_per_mb for link in topology.links if not is_remote(link)})
    if len(classes) != len(profile.betas_us_per_mb):
        raise TopologyError(
            f"profile {profile.name!r} has {len(profile.betas_us_per_mb)} beta(s) for links inside a node, "
            f"but {topology.name!r} has links of {len(classes)} different betas there"
        )
    beta_of = dict(zip(classes, profile.betas_us_per_mb, strict=True))

    def with_costs(link: Link) -> Link:
        kinds = {device[link.src].kind, device[link.dst].kind}
        if not is_remote(link):
            share = 0.5 if "switch" in kinds else 1.0
            alpha, beta = profile.alpha_us * share, beta_of[link.beta_us_per_mb]
        else:
            share = 0.5 if "fabric" in kinds else float(device[link.src].node != device[link.dst].node)
            alpha, beta = profile.remote_alpha_us * share, profile.remote_beta_us_per_mb
        return replace(link, alpha_us=alpha, beta_us_per_mb=beta)

    links = tuple(with_costs(link) for link in topology.links)
    return replace(topology, links=links, chunk_bytes=profile.chunk_bytes)


def _check_one_network(topology: PhysicalTopology, device: Mapping[str, Device]) -> None:
    """Raise TopologyError where nodes share more than one switch or cloud."""
    for link in topology.links:
        ends = device[link.src], device[link.dst]
        if all(end.node == NO_NODE for end in ends) or any(
            end.node == NO_NODE and end.kind == "switch" for end in ends
        ):
            raise TopologyError(
                f"a profile has one cost between nodes, but {topology.name!r} has "
                f"{link.src} -> {link.dst} there",
                hint="write the measured costs into the machine's file",
            )

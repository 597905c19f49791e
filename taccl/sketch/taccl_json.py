"""TACCL's own JSON sketches, read as they are (github.com/microsoft/taccl, published with NSDI 2023).

They mean TACCL's rule for NICs, `nic_sharing: static`; `gpus_to_sender_rev_map` maps a sender to the
GPUs whose chunks it carries; `enforce_ordering` is `own_first`; `input_chunkup` the chunks per rank.
"""

from __future__ import annotations

from taccl.sketch.gpus import gpu_list, gpu_map
from taccl.sketch.model import (
    INTRANODE_STRATEGIES,
    SWITCH_POLICIES,
    Internode,
    InternodeStrategy,
    Intranode,
    Relay,
    Rotation,
    SenderFor,
    Sketch,
    Switch,
)
from taccl.topologies.strict_yaml import Node

_WITHOUT_RELAYS: tuple[InternodeStrategy, ...] = ("fully-connected", "direct-map")

_KEYS = ("nnodes", "intranode_sketch", "internode_sketch", "symmetry_offsets", "hyperparameters")


def is_taccl_json(root: Node) -> bool:
    """Whether a file is one of TACCL's: it has a key that only those have."""
    return any(key.raw in _KEYS for key, _ in root.items())


def sketch_from_taccl(root: Node, name: str, path: str | None) -> Sketch:
    """The sketch in a TACCL file. Raises SketchError, with the line, for what such a file cannot say."""
    needed = ("nnodes", "intranode_sketch", "symmetry_offsets", "hyperparameters")
    keys = root.mapping(_KEYS, required=needed)
    nodes = keys["nnodes"].integer(minimum=1)
    if nodes > 1 and "internode_sketch" not in keys:
        raise root.error(f"a sketch for {nodes} nodes needs the key 'internode_sketch'")
    hyper = keys["hyperparameters"].mapping(("input_chunkup",), required=("input_chunkup",))
    return Sketch(
        name=name,
        nodes=nodes,
        chunks_per_rank=hyper["input_chunkup"].integer(minimum=1),
        intranode=_intranode(keys["intranode_sketch"]),
        internode=_internode(keys["internode_sketch"]) if "internode_sketch" in keys else Internode(),
        symmetry=tuple(map(_rotation, keys["symmetry_offsets"].elements())),
        path=path,
        chunks_line=hyper["input_chunkup"].line,
    )


def _intranode(node: Node) -> Intranode:
    keys = node.mapping(
        ("strategy", "switches", "switch_hyperedge_strategy"),
        required=("strategy",),
    )
    strategy = keys["strategy"].choice(INTRANODE_STRATEGIES)
    if strategy != "switch":
        return Intranode(strategy, line=node.line)
    keys = node.mapping(keys, required=("switches", "switch_hyperedge_strategy"))
    groups = keys["switches"].elements()
    policies = keys["switch_hyperedge_strategy"].elements(length=len(groups))
    switches = (
        Switch(gpu_list(group), policy.choice(SWITCH_POLICIES), group.line)
        for group, policy in zip(groups, policies, strict=True)
    )
    return Intranode("switch", tuple(switches), node.line)


def _internode(node: Node) -> Internode:
    keys = node.mapping(
        ("strategy", "internode_conn", "gpus_to_sender_rev_map", "enforce_ordering"),
        required=("strategy", "internode_conn"),
    )
    keys["strategy"].choice(("relay",))
    connection = keys["internode_conn"]
    relays: tuple[Relay, ...] = ()
    strategy: InternodeStrategy = "relay"
    if connection.kind == "mapping":
        relays = tuple(Relay(*entry) for entry in gpu_map(connection))
    else:
        strategy = connection.choice(_WITHOUT_RELAYS)
    senders = gpu_map(keys["gpus_to_sender_rev_map"]) if "gpus_to_sender_rev_map" in keys else ()
    return Internode(
        strategy,
        relays=relays,
        sender_for=tuple(SenderFor(*entry) for entry in senders),
        own_first=keys["enforce_ordering"].boolean() if "enforce_ordering" in keys else False,
        nic_sharing="static",
        line=node.line,
    )


def _rotation(node: Node) -> Rotation:
    offset, group = node.elements(length=2)
    return Rotation(offset.integer(minimum=1), group.integer(minimum=1), node.line)

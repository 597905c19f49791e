"""Reading a sketch from a file: the YAML language of `schema`, or TACCL's JSON.

Every fault is a SketchError with the file and the line.
"""

from __future__ import annotations

from pathlib import Path

from taccl.errors import SketchError, UnitError
from taccl.model.units import parse_size
from taccl.sketch.gpus import gpu_list, gpu_map
from taccl.sketch.model import (
    INTERNODE_STRATEGIES,
    INTRANODE_STRATEGIES,
    NIC_SHARINGS,
    SWITCH_POLICIES,
    Group,
    Internode,
    Intranode,
    Offset,
    Relay,
    Rotation,
    SenderFor,
    Sketch,
    Switch,
)
from taccl.sketch.schema import INTERNODE, INTRANODE, ROTATION, SKETCH, SWITCH, Schema
from taccl.sketch.taccl_json import is_taccl_json, sketch_from_taccl
from taccl.topologies.strict_yaml import Node, load_yaml, parse_yaml


def load_sketch(path: str | Path) -> Sketch:
    """The sketch in a file.

    Raises
    ------
    FileError : the file is not there or cannot be read.
    SketchError : it is no sketch; says the line, and the nearest word it knows.
    """
    return _sketch(load_yaml(path, SketchError), Path(path).stem, str(path))


def parse_sketch(text: str, name: str = "sketch") -> Sketch:
    """The sketch in a text. Raises SketchError as `load_sketch` does."""
    return _sketch(parse_yaml(text, None, SketchError), name, None)


def _sketch(root: Node, name: str, path: str | None) -> Sketch:
    if is_taccl_json(root):
        return sketch_from_taccl(root, name, path)
    keys = _mapping(root, SKETCH)
    return Sketch(
        name=name,
        description=keys["description"].string() if "description" in keys else "",
        topology=_topology(keys["topology"], path) if "topology" in keys else None,
        nodes=keys["nodes"].integer(minimum=1) if "nodes" in keys else None,
        size=_size(keys["size"]) if "size" in keys else None,
        chunks_per_rank=keys["chunks_per_rank"].integer(minimum=1) if "chunks_per_rank" in keys else 1,
        intranode=_intranode(keys["intranode"]),
        internode=_internode(keys["internode"]) if "internode" in keys else Internode(),
        symmetry=tuple(map(_rotation, keys["symmetry"].elements())) if "symmetry" in keys else (),
        path=path,
        chunks_line=keys["chunks_per_rank"].line if "chunks_per_rank" in keys else None,
    )


def _mapping(node: Node, schema: Schema) -> dict[str, Node]:
    """The keys of a mapping, where only those of the schema may be and those it requires must be."""
    return node.mapping(tuple(schema["properties"]), schema.get("required", ()))


def _topology(node: Node, path: str | None) -> str:
    """A machine's name, or its file: a file next to the sketch is found from any folder."""
    alongside = None if path is None else Path(path).parent / node.string()
    return str(alongside) if alongside is not None and alongside.is_file() else node.string()


def _size(node: Node) -> int:
    if node.kind not in ("text", "integer"):
        raise node.error(f"{node.name} must be a size, not {node.described}", "write it like 64KB or 16MB")
    try:
        return parse_size(node.raw)
    except UnitError as fault:
        raise node.error(f"{node.name}: {fault.message}", fault.hint) from None


def _intranode(node: Node) -> Intranode:
    keys = _mapping(node, INTRANODE)
    strategy = keys["strategy"].choice(INTRANODE_STRATEGIES)
    _check_only_with(node, keys, "switch", strategy, "switches")
    switches = keys["switches"].elements() if "switches" in keys else ()
    return Intranode(strategy, tuple(map(_switch, switches)), node.line)


def _switch(node: Node) -> Switch:
    keys = _mapping(node, SWITCH)
    gpus = None if keys["gpus"].content == "all" else gpu_list(keys["gpus"])
    policy = keys["policy"].choice(SWITCH_POLICIES) if "policy" in keys else "none"
    return Switch(gpus, policy, node.line)


def _internode(node: Node) -> Internode:
    keys = _mapping(node, INTERNODE)
    strategy = keys["strategy"].choice(INTERNODE_STRATEGIES)
    _check_only_with(node, keys, "relay", strategy, "relay")
    relays = gpu_map(keys["relay"]) if "relay" in keys else ()
    senders = gpu_map(keys["sender_for"]) if "sender_for" in keys else ()
    sharing = keys["nic_sharing"].choice(NIC_SHARINGS) if "nic_sharing" in keys else "port"
    return Internode(
        strategy,
        relays=tuple(Relay(*entry) for entry in relays),
        sender_for=tuple(SenderFor(*entry) for entry in senders),
        own_first=keys["own_first"].boolean() if "own_first" in keys else False,
        nic_sharing=sharing,
        line=node.line,
        nic_line=keys["nic_sharing"].line if "nic_sharing" in keys else None,
    )


def _check_only_with(node: Node, keys: dict[str, Node], needs: str, strategy: str, key: str) -> None:
    """`key` must be there if the strategy is `needs`, and only then."""
    if strategy == needs and (key not in keys or not keys[key].content):
        raise node.error(f"strategy {needs!r} needs the key {key!r}, with at least one entry")
    if strategy != needs and key in keys:
        raise keys[key].error(
            f"{key!r} means nothing with strategy {strategy!r}", f"strategy: {needs}, or leave {key!r} out"
        )


def _rotation(node: Node) -> Rotation:
    if node.kind == "list":
        offset, group = node.elements(length=2)
    else:
        keys = _mapping(node, ROTATION)
        offset, group = keys["rotate"], keys["within"]
    rotate: Offset = "node" if offset.content == "node" else _count(offset, "`node`")
    words: dict[object, Group] = {"node": "node", "machine": "machine"}
    within = words[group.raw] if group.raw in words else _count(group, "`node`, `machine`")
    return Rotation(rotate, within, node.line)


def _count(node: Node, words: str) -> int:
    if node.kind != "integer":
        raise node.error(f"{node.name} must be {words} or a number of ranks, not {node.described}")
    return node.integer(minimum=1)

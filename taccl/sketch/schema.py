"""The YAML language as a JSON Schema (draft-07): the one description of its keys.

The loader takes the keys it knows, those it needs and the words it accepts from here; editors
complete and check with it (`taccl sketch schema`).
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from taccl.sketch.model import INTERNODE_STRATEGIES, INTRANODE_STRATEGIES, NIC_SHARINGS, SWITCH_POLICIES

Schema = dict[str, Any]


def _object(description: str, properties: Schema, required: tuple[str, ...] = ()) -> Schema:
    schema: Schema = {
        "description": description,
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }
    return schema | ({"required": list(required)} if required else {})


def _words(description: str, words: tuple[str, ...], **more: object) -> Schema:
    return {"description": description, "enum": list(words), **more}


_NOT_BLANK = r"\S"
_SIZE = r"^\s*([0-9]+(\.[0-9]*)?|\.[0-9]+)\s*([kKmMgGtT]([iI]?[bB])?|[bB])?\s*$"
_GPU: Schema = {"type": "integer", "minimum": 0}
_GPUS: Schema = {"type": "array", "items": _GPU, "minItems": 1, "uniqueItems": True}


def _by_gpu(description: str, example: Schema) -> Schema:
    return {
        "description": description,
        "type": "object",
        "propertyNames": {"pattern": "^[0-9]+$"},
        "additionalProperties": _GPUS,
        "minProperties": 1,
        "examples": [example],
    }


def _only_with(strategy: str, key: str) -> Schema:
    """`key` is needed with a strategy, and means nothing with another."""
    return {
        "if": {"properties": {"strategy": {"const": strategy}}},
        "then": {"required": [key]},
        "else": {"properties": {key: False}},
    }


SWITCH = _object(
    "GPUs that a switch joins.",
    {
        "gpus": {
            "description": "Local indices of the GPUs behind the switch, or `all`.",
            "anyOf": [{"const": "all"}, _GPUS],
            "examples": ["all", [0, 1, 2, 3]],
        },
        "policy": _words(
            "uc-min: among equally fast routings, use few distinct connections (large sizes); "
            "uc-max: use many (small sizes); none: no preference.",
            SWITCH_POLICIES,
            default="none",
        ),
    },
    required=("gpus",),
)

INTRANODE = _object(
    "Which links inside a node may be used.",
    {
        "strategy": _words(
            "none: all links, as they are; switch: only those between GPUs that one of `switches` "
            "joins; minmax, maxmin: all links, and the load spread over them.",
            INTRANODE_STRATEGIES,
        ),
        "switches": {
            "description": "The GPU groups behind each switch (strategy: switch).",
            "type": "array",
            "items": SWITCH,
            "minItems": 1,
        },
    },
    required=("strategy",),
) | _only_with("switch", "switches")

INTERNODE = _object(
    "Which links between nodes may be used, and by which chunks. GPUs are named by their index in "
    "their node, and what is said holds for every node.",
    {
        "strategy": _words(
            "none: the links between GPUs and the NICs next to them, as they are; relay: only from a "
            "sender to its receivers on other nodes, as in `relay`; direct-map: GPU i to GPU i; "
            "fully-connected: every GPU to every GPU of another node.",
            INTERNODE_STRATEGIES,
        ),
        "relay": _by_gpu(
            "Sender: the GPUs of other nodes that it sends to (strategy: relay).", {"1": [0], "3": [2]}
        ),
        "sender_for": _by_gpu(
            "Sender: the GPUs whose chunks leave their node through it. GPUs that appear nowhere may "
            "use any sender.",
            {"1": [0, 1], "3": [2, 3]},
        ),
        "own_first": {
            "description": "A sender's own chunks leave before those it carries for others.",
            "type": "boolean",
            "default": False,
        },
        "nic_sharing": _words(
            "port: a NIC serves one transfer at a time, whoever uses it; static: every inter-node "
            "link's beta is multiplied by links / NICs, used or not (TACCL's rule).",
            NIC_SHARINGS,
            default="port",
        ),
    },
    required=("strategy",),
) | _only_with("relay", "relay")

ROTATION = _object(
    "Every GPU moves on by `rotate` within its group of `within` ranks, and its chunks with it.",
    {
        "rotate": {
            "description": "GPUs to move on by; `node` is the number of GPUs of a node.",
            "anyOf": [{"const": "node"}, {"type": "integer", "minimum": 1}],
        },
        "within": {
            "description": "Ranks in a group: `node`, `machine`, or a number.",
            "anyOf": [{"enum": ["node", "machine"]}, {"type": "integer", "minimum": 1}],
        },
    },
    required=("rotate", "within"),
)

_PAIR: Schema = {
    "description": "The same as [rotate, within].",
    "type": "array",
    "items": [ROTATION["properties"]["rotate"], ROTATION["properties"]["within"]],
    "minItems": 2,
    "maxItems": 2,
    "additionalItems": False,
}

SKETCH = _object(
    "A communication sketch: which links an algorithm may use, who speaks to other nodes and for whom, "
    "what is symmetric, and how finely data is cut.",
    {
        "description": {
            "description": "One sentence for lists of sketches.",
            "type": "string",
            "pattern": _NOT_BLANK,
        },
        "topology": {
            "description": "The machine it is for: a name of `taccl topology list`, or a YAML file.",
            "type": "string",
            "pattern": _NOT_BLANK,
            "examples": ["dgx2", "ndv2"],
        },
        "nodes": {
            "description": "Number of nodes, if the command line does not say.",
            "type": "integer",
            "minimum": 1,
        },
        "size": {
            "description": "The message size it is meant for, as nccl-tests counts it: 64KB, 16MB, 1GB, "
            "or a number of bytes.",
            "type": ["string", "integer"],
            "pattern": _SIZE,
            "minimum": 1,
            "examples": ["16MB"],
        },
        "chunks_per_rank": {
            "description": "Pieces that each rank's part is cut into.",
            "type": "integer",
            "minimum": 1,
            "default": 1,
        },
        "intranode": INTRANODE,
        "internode": INTERNODE,
        "symmetry": {
            "description": "Permutations of the ranks that leave network and algorithm as they are.",
            "type": "array",
            "items": {"anyOf": [ROTATION, _PAIR]},
            "examples": [[{"rotate": 2, "within": "node"}, {"rotate": "node", "within": "machine"}]],
        },
    },
    required=("intranode",),
)


def sketch_schema() -> Schema:
    """The JSON Schema (draft-07) of a YAML sketch, as a fresh dictionary."""
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "taccl sketch"} | deepcopy(SKETCH)

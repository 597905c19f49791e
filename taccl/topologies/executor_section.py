"""The section `executor:` of a machine's YAML file: read with its lines, and written, by the same tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from taccl.errors import TacclError, TopologyError
from taccl.model.executor import (
    MAX_GBPS,
    MAX_SHARPNESS,
    MAX_SLICES,
    MAX_SLOTS,
    MAX_THREAD_BLOCKS,
    MAX_WIRE,
    MIN_GBPS,
    PROTOCOL_NAMES,
    SHAPES,
    Executor,
    ProtocolCosts,
    ProtocolName,
)
from taccl.model.units import MAX_ALPHA_US, MAX_SIZE_BYTES, format_size, parse_size
from taccl.topologies.strict_yaml import Node


def _us(node: Node) -> float:
    return node.number(minimum=0.0, maximum=MAX_ALPHA_US)


def _gbps(node: Node) -> float:
    return node.number(minimum=MIN_GBPS, maximum=MAX_GBPS)


def _bytes(node: Node) -> int:
    """A size such as 2MB or 50176."""
    try:
        return parse_size(node.raw)
    except TacclError as fault:
        raise TopologyError(
            f"{node.name}: {fault.message}", path=node.source.path, line=node.line, hint=fault.hint
        ) from None


#: A key and how its value is read, in the order in which keys are written.
_Readers = Mapping[str, Callable[[Node], Any]]

_OF_EXECUTOR: _Readers = {
    "reduce_us": _us,
    "reduce_gbps": _gbps,
    "copy_us": _us,
    "copy_gbps": _gbps,
    "thread_blocks": lambda node: node.integer(1, MAX_THREAD_BLOCKS),
    "room_us": _us,
    "link_sharpness": lambda node: node.number(1.0, MAX_SHARPNESS),
}
_NEEDED: _Readers = {"launch_us": _us, "hop_us": _us, "slice_us": _us, "block_gbps": _gbps}
_MORE: _Readers = {"empty_slice_us": _us, "least_us": _us, "sleep_after_us": _us, "wake_us": _us}
_SLEEPS = ("sleep_after_us", "wake_us")
#: Of a protocol's shape, next to `slots`, which are no fewer than its slices.
_OF_SHAPE: _Readers = {
    "slices": lambda node: node.integer(1, MAX_SLICES),
    "least_slice": lambda node: node.integer(0, MAX_SIZE_BYTES),
    "cut_through": Node.boolean,
    "wire": lambda node: node.number(1.0, MAX_WIRE),
}
_SHAPE_KEYS = ("slices", "least_slice", "slots", "cut_through", "wire")
#: Key -> field, where they differ.
_FIELDS = {"piece": "piece_bytes", "least_slice": "least_slice_bytes"}


def read_executor(node: Node) -> Executor:
    """The executor that a section says.

    Raises
    ------
    TopologyError : what is wrong in it, with the line.
    """
    keys = node.mapping((*_OF_EXECUTOR, "protocols"), required=("reduce_us", "reduce_gbps", "protocols"))
    said = keys["protocols"].mapping(PROTOCOL_NAMES)
    protocols = {name: _protocol(name, said[name]) for name in PROTOCOL_NAMES if name in said}
    if not protocols:
        raise keys["protocols"].error(
            f"{keys['protocols'].name} has no protocol", hint=f"one or more of {', '.join(PROTOCOL_NAMES)}"
        )
    return Executor(protocols, **_read(keys, _OF_EXECUTOR))


def executor_lines(executor: Executor) -> Iterator[str]:
    """The section that `read_executor` reads back as the same executor, line by line."""
    yield "executor:"
    for key in _OF_EXECUTOR:
        value = getattr(executor, key)
        if value is not None and (key != "room_us" or value):
            yield f"  {key}: {value!r}"
    yield "  protocols:"
    for name, costs in executor.protocols.items():
        yield f"    {name}:"
        for key in _NEEDED:
            yield f"      {key}: {getattr(costs, key)!r}"
        yield f"      piece: {format_size(costs.piece_bytes)}"
        for key in _MORE:
            value = getattr(costs, key)
            is_said = costs.sleep_after_us is not None if key in _SLEEPS else value is not None
            if is_said and (key != "least_us" or value):
                yield f"      {key}: {value!r}"
        for key in _SHAPE_KEYS:
            value, usual = (getattr(shape, _FIELDS.get(key, key)) for shape in (costs.shape, SHAPES[name]))
            if value != usual:
                yield f"      {key}: {str(value).lower() if key == 'cut_through' else repr(value)}"


def _protocol(name: ProtocolName, node: Node) -> ProtocolCosts:
    needed = (*_NEEDED, "piece")
    keys = node.mapping((*needed, *_MORE, *_SHAPE_KEYS), required=needed)
    if len([key for key in _SLEEPS if key in keys]) == 1:
        raise node.error(f"{node.name} says only one of {' and '.join(_SLEEPS)}")
    shape = replace(SHAPES[name], **_read(keys, _OF_SHAPE))
    slots = max(shape.slices, shape.slots)
    if "slots" in keys:
        slots = keys["slots"].integer(shape.slices, MAX_SLOTS)
    return ProtocolCosts(
        **_read(keys, _NEEDED),
        piece_bytes=_bytes(keys["piece"]),
        shape=replace(shape, slots=slots),
        **_read(keys, _MORE),
    )


def _read(keys: Mapping[str, Node], readers: _Readers) -> dict[str, Any]:
    """The fields that some keys say; the others have their defaults."""
    return {_FIELDS.get(key, key): read(keys[key]) for key, read in readers.items() if key in keys}

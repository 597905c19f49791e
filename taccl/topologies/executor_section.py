"""The section `executor:` of a machine's YAML file: read with its lines, and written."""

from __future__ import annotations

from collections.abc import Iterator

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
    Shape,
)
from taccl.model.units import MAX_ALPHA_US, MAX_SIZE_BYTES, format_size, parse_size
from taccl.topologies.strict_yaml import Node

_NEEDED = ("launch_us", "hop_us", "slice_us", "block_gbps", "piece")
_MORE = ("empty_slice_us", "least_us", "sleep_after_us", "wake_us")
_SHAPE_KEYS = ("slices", "least_slice", "slots", "cut_through", "wire")
_KEYS = (
    "reduce_us",
    "reduce_gbps",
    "copy_us",
    "copy_gbps",
    "thread_blocks",
    "room_us",
    "link_sharpness",
    "protocols",
)


def read_executor(node: Node) -> Executor:
    """The executor that a section says.

    Raises
    ------
    TopologyError : what is wrong in it, with the line.
    """
    keys = node.mapping(_KEYS, required=("reduce_us", "reduce_gbps", "protocols"))
    said = keys["protocols"].mapping(PROTOCOL_NAMES)
    protocols = {name: _protocol(name, said[name]) for name in PROTOCOL_NAMES if name in said}
    if not protocols:
        raise keys["protocols"].error(
            f"{keys['protocols'].name} has no protocol", hint=f"one or more of {', '.join(PROTOCOL_NAMES)}"
        )
    return Executor(
        protocols=protocols,
        reduce_us=_us(keys["reduce_us"]),
        reduce_gbps=_gbps(keys["reduce_gbps"]),
        copy_us=_us(keys["copy_us"]) if "copy_us" in keys else None,
        copy_gbps=_gbps(keys["copy_gbps"]) if "copy_gbps" in keys else None,
        thread_blocks=keys["thread_blocks"].integer(1, MAX_THREAD_BLOCKS)
        if "thread_blocks" in keys
        else None,
        room_us=_us(keys["room_us"]) if "room_us" in keys else 0.0,
        link_sharpness=keys["link_sharpness"].number(1.0, MAX_SHARPNESS)
        if "link_sharpness" in keys
        else None,
    )


def executor_lines(executor: Executor) -> Iterator[str]:
    """The section that `read_executor` reads back as the same executor, line by line."""
    yield "executor:"
    for key in _KEYS[:-1]:
        value = getattr(executor, key)
        if value is not None and (key != "room_us" or value):
            yield f"  {key}: {_plain(value)}"
    yield "  protocols:"
    for name, costs in executor.protocols.items():
        yield f"    {name}:"
        for key in _NEEDED[:-1]:
            yield f"      {key}: {_plain(getattr(costs, key))}"
        yield f"      piece: {format_size(costs.piece_bytes)}"
        if costs.empty_slice_us is not None:
            yield f"      empty_slice_us: {_plain(costs.empty_slice_us)}"
        if costs.least_us:
            yield f"      least_us: {_plain(costs.least_us)}"
        if costs.sleep_after_us is not None:
            yield f"      sleep_after_us: {_plain(costs.sleep_after_us)}"
            yield f"      wake_us: {_plain(costs.wake_us)}"
        usual, shape = SHAPES[name], costs.shape
        if shape.slices != usual.slices:
            yield f"      slices: {shape.slices}"
        if shape.least_slice_bytes != usual.least_slice_bytes:
            yield f"      least_slice: {shape.least_slice_bytes}"
        if shape.slots != usual.slots:
            yield f"      slots: {shape.slots}"
        if shape.cut_through != usual.cut_through:
            yield f"      cut_through: {'true' if shape.cut_through else 'false'}"
        if shape.wire != usual.wire:
            yield f"      wire: {_plain(shape.wire)}"


def _protocol(name: ProtocolName, node: Node) -> ProtocolCosts:
    sleeps = ("sleep_after_us", "wake_us")
    keys = node.mapping((*_NEEDED, *_MORE, *_SHAPE_KEYS), required=_NEEDED)
    if len([key for key in sleeps if key in keys]) == 1:
        raise node.error(f"{node.name} says only one of {' and '.join(sleeps)}")
    usual = SHAPES[name]
    slices = keys["slices"].integer(1, MAX_SLICES) if "slices" in keys else usual.slices
    return ProtocolCosts(
        launch_us=_us(keys["launch_us"]),
        hop_us=_us(keys["hop_us"]),
        slice_us=_us(keys["slice_us"]),
        block_gbps=_gbps(keys["block_gbps"]),
        piece_bytes=_bytes(keys["piece"]),
        shape=Shape(
            slices=slices,
            least_slice_bytes=(
                keys["least_slice"].integer(0, MAX_SIZE_BYTES)
                if "least_slice" in keys
                else usual.least_slice_bytes
            ),
            slots=keys["slots"].integer(slices, MAX_SLOTS) if "slots" in keys else max(slices, usual.slots),
            cut_through=keys["cut_through"].boolean() if "cut_through" in keys else usual.cut_through,
            wire=keys["wire"].number(1.0, MAX_WIRE) if "wire" in keys else usual.wire,
        ),
        empty_slice_us=_us(keys["empty_slice_us"]) if "empty_slice_us" in keys else None,
        least_us=_us(keys["least_us"]) if "least_us" in keys else 0.0,
        sleep_after_us=_us(keys["sleep_after_us"]) if "sleep_after_us" in keys else None,
        wake_us=_us(keys["wake_us"]) if "wake_us" in keys else 0.0,
    )


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


def _plain(value: float) -> str:
    """A number as YAML reads it back."""
    return repr(value)

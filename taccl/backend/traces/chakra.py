"""A trace as Chakra execution traces, one file a rank, which ASTRA-sim reads as a custom collective.

The wire format of protobuf by hand: messages with their lengths before them, first GlobalMetadata, then a
Node for each event. Field numbers are those of Chakra's et_def.proto.
"""

from __future__ import annotations

from taccl.backend.traces.events import Event, Trace

_VERSION = "0.0.4"
_TYPES = {"calc": 4, "send": 5, "recv": 6}
#: Fields of Node, and of its attributes by kind.
_ID, _NAME, _TYPE, _DATA_DEPS, _DURATION, _ATTR = 1, 2, 3, 5, 7, 10
_INT32, _INT64, _BOOL = 7, 9, 27


def to_chakra(trace: Trace, sum_ns_per_byte: float = 0.0) -> tuple[bytes, ...]:
    """The file of each rank; a sum takes whole microseconds, which is what the format has."""
    return tuple(_file(rank, events, sum_ns_per_byte) for rank, events in enumerate(trace.ranks))


def _file(rank: int, events: tuple[Event, ...], sum_ns_per_byte: float) -> bytes:
    nodes = [_node(rank, number, event, sum_ns_per_byte) for number, event in enumerate(events)]
    return b"".join(_varint(len(message)) + message for message in (_bytes(1, _VERSION.encode()), *nodes))


def _node(rank: int, number: int, event: Event, sum_ns_per_byte: float) -> bytes:
    message = _number(_ID, number) + _bytes(_NAME, f"{event.kind}{number}".encode())
    message += _number(_TYPE, _TYPES[event.kind])
    if event.after:
        message += _bytes(_DATA_DEPS, b"".join(map(_varint, event.after)))
    attributes = [("is_cpu_op", _BOOL, 0)]
    if event.kind == "calc":
        message += _number(_DURATION, round(event.size_bytes * sum_ns_per_byte / 1e3) if event.is_sum else 0)
    else:
        source, target = (rank, event.peer) if event.kind == "send" else (event.peer, rank)
        attributes += [("comm_size", _INT64, event.size_bytes), ("comm_src", _INT32, source)]
        attributes += [("comm_dst", _INT32, target), ("comm_tag", _INT32, event.tag)]
    for name, field, value in attributes:
        message += _bytes(_ATTR, _bytes(1, name.encode()) + _number(field, value))
    return message


def _varint(value: int) -> bytes:
    """Seven bits a byte, lowest first; all bytes but the last have their high bit set."""
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value

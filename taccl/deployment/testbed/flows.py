"""Streams of bytes between namespaces, all at once, and how fast they arrive.

One process holds both ends of all streams: a socket belongs to the namespace in which it was made.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from taccl.errors import TacclError

_NET = 0x40000000  # CLONE_NEWNET
_PIECE = 64 * 1024
#: What a sender queues, bytes: all of it has to arrive before the next flows begin.
_BUFFER = 128 * 1024
#: What is sent first is not counted: it goes as fast as the buckets and queues are empty.
_WARM_S = 0.15
#: Counted for so long, or this many packets: fewer are no average.
_LEAST_S, _PACKETS = 0.4, 100
_PACKET_BITS = 72_000
#: Nothing arrives for so long: a wire is broken.
_DRAIN_S = 30.0


@dataclass(frozen=True, slots=True)
class WireFlow:
    """Bytes from an address to an address, each with its namespace before it."""

    source: tuple[str, str]
    target: tuple[str, str]


def rates_of(flows: Sequence[WireFlow], expected_bits: float) -> list[float]:
    """Run all flows at once: the payload of each that arrives, bits per second.

    Parameters
    ----------
    expected_bits : the least rate that will be looked at: it says how long packets have to be counted.

    Raises
    ------
    OSError : one does not connect, or nothing arrives.
    """
    seconds = max(_LEAST_S, _PACKETS * _PACKET_BITS / expected_bits)
    pairs: list[tuple[socket.socket, socket.socket]] = []
    try:
        pairs += map(_connected, flows)
        return _measured(pairs, seconds)
    finally:
        for end in (end for pair in pairs for end in pair):
            end.close()


def _measured(pairs: Sequence[tuple[socket.socket, socket.socket]], seconds: float) -> list[float]:
    """Send for a while, then wait for what is queued, which would be in the way of whatever comes next."""
    piece, taken, counts = bytes(_PIECE), bytearray(4 * _PIECE), [0] * len(pairs)
    begins = time.monotonic() + _WARM_S
    first = last = 0.0
    with selectors.DefaultSelector() as ready:
        for number, (sender, receiver) in enumerate(pairs):
            ready.register(sender, selectors.EVENT_WRITE, None)
            ready.register(receiver, selectors.EVENT_READ, number)
        while (now := time.monotonic()) < begins + seconds:
            for key, _ in ready.select(0.05):
                end: socket.socket = key.fileobj  # type: ignore[assignment]
                if key.data is None:
                    end.send(piece)
                    continue
                number_of_bytes = end.recv_into(taken)
                if first:
                    counts[key.data] += number_of_bytes
                    last = now
                elif now >= begins:
                    first = now
    for sender, receiver in pairs:
        sender.shutdown(socket.SHUT_WR)
        receiver.settimeout(_DRAIN_S)
    for _, receiver in pairs:
        while receiver.recv_into(taken):
            pass
    return [8 * count / (last - first) if last > first else 0.0 for count in counts]


def _connected(flow: WireFlow) -> tuple[socket.socket, socket.socket]:
    """The sender's end and the receiver's."""
    with _inside(flow.target[0]):
        listening = socket.create_server((flow.target[1], 0))
    with listening:
        listening.settimeout(10)
        with _inside(flow.source[0]):
            sender = socket.create_connection(listening.getsockname(), 10, (flow.source[1], 0))
        receiver, _ = listening.accept()
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    for end in (sender, receiver):
        end.setblocking(False)
    return sender, receiver


@contextmanager
def _inside(space: str) -> Iterator[None]:
    """Sockets that are made here belong to that namespace."""
    with Path("/proc/self/ns/net").open("rb") as own, (Path("/run/netns") / space).open("rb") as other:
        _enter(other.fileno())
        try:
            yield
        finally:
            _enter(own.fileno())


def _enter(namespace: int) -> None:
    """As `os.setns`, which came with Python 3.12."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _NET):
        raise TacclError(f"a namespace cannot be entered: {os.strerror(ctypes.get_errno())}")

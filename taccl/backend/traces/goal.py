"""A trace as GOAL text, which LogGOPSim and ATLAHS read (their `txt2bin` first)."""

from __future__ import annotations

from collections.abc import Iterator

from taccl.backend.traces.events import Event, Trace


def to_goal(trace: Trace, sum_ns_per_byte: float = 0.0) -> str:
    """The text; sums take so long, copies nothing."""
    return "\n".join([f"num_ranks {len(trace.ranks)}", *_lines(trace, sum_ns_per_byte), ""])


def _lines(trace: Trace, sum_ns_per_byte: float) -> Iterator[str]:
    for rank, events in enumerate(trace.ranks):
        yield ""
        yield f"rank {rank} {{"
        for number, event in enumerate(events, start=1):
            yield f"l{number}: {_words(event, sum_ns_per_byte)}"
            for before in event.after:
                yield f"l{number} requires l{before + 1}"
        yield "}"


def _words(event: Event, sum_ns_per_byte: float) -> str:
    if event.kind == "calc":
        return f"calc {round(event.size_bytes * sum_ns_per_byte) if event.is_sum else 0}"
    direction = "to" if event.kind == "send" else "from"
    return f"{event.kind} {event.size_bytes}b {direction} {event.peer} tag {event.tag}"

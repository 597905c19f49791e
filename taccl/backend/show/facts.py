"""The summary: lines of label and value, the same at the top of the text, the page and the trace."""

from __future__ import annotations

from taccl.backend.program import Program
from taccl.model import units
from taccl.model.network import LogicalTopology
from taccl.model.schedule import SavedSchedule
from taccl.model.units import format_count


def schedule_facts(saved: SavedSchedule) -> tuple[tuple[str, str], ...]:
    """(label, value) lines: what it computes where, its time, bound and gap, and bandwidths."""
    schedule = saved.schedule
    problem = schedule.problem
    collective = problem.collective
    root = "" if collective.root is None else f", root {collective.root}"
    return (
        ("collective", f"{collective.name}, {format_count(problem.num_ranks, 'rank')}{root}"),
        ("topology", topology_words(problem.topology)),
        ("size", ", in ".join(problem.size_and_chunks)),
        *time_facts(schedule.makespan_us, saved.lower_bound_us, saved.bound_source, " for this chunk count"),
        ("algbw", units.format_bandwidth(schedule.algbw_gbps) + problem.size_of_algbw),
        ("busbw", units.format_bandwidth(schedule.busbw_gbps)),
        ("transfers", f"{len(schedule)} in {format_count(len(schedule.sends), 'send')}"),
    )


def time_facts(
    time_us: float, bound_us: float | None, bound_source: str | None, holds: str = ""
) -> tuple[tuple[str, str], ...]:
    """Time, lower bound and gap, which go together; a bound of 0 means that nothing is proven.

    `bound_us` : None: no bound holds for what was timed.
    `holds` : for what else than that the bound holds, in words.
    """
    if bound_us is None:
        return ("time", f"{time_us:.2f} us"), ("lower bound", "none holds for this file")
    source = f"  ({bound_source})" if bound_source else ""
    gap = max(0.0, (time_us - bound_us) / time_us) if time_us > 0 else 0.0
    return (
        ("time", f"{time_us:.2f} us"),
        ("lower bound", f"{bound_us:.2f} us{holds}{source}" if bound_us > 0 else "none proven"),
        ("gap", f"{100 * gap:.2f}%" if bound_us > 0 or time_us <= 0 else "unknown"),
    )


def program_facts(program: Program) -> tuple[tuple[str, str], ...]:
    """(label, value) lines about the whole program."""
    blocks = sum(len(rank.thread_blocks) for rank in program.ranks)
    steps = sum(len(block.steps) for rank in program.ranks for block in rank.thread_blocks)
    counts = ((blocks, "thread block"), (steps, "step"), (program.num_channels, "channel"))
    served = (("in place", program.in_place), ("out of place", program.out_of_place))
    ranks = format_count(program.num_ranks, "rank")
    places = " or ".join(word for word, serves in served if serves)
    largest = "any size" if program.max_bytes <= 0 else units.format_size(program.max_bytes)
    return (
        ("collective", f"{program.collective}, {ranks}, {program.protocol.value}"),
        ("calls", f"{places or 'none'}, {units.format_size(program.min_bytes)} to {largest}"),
        ("cut into", f"{program.chunks_per_loop} chunks"),
        ("program", ", ".join(format_count(*each) for each in counts)),
    )


def topology_words(topology: LogicalTopology) -> str:
    """Its name, its nodes and how its ports are occupied."""
    return f"{topology.name}, {format_count(topology.num_nodes, 'node')}, {topology.occupancy}"

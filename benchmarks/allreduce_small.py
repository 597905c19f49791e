"""Small AllReduces next to recursive doubling and one-shot, which make each sum at every rank.

    python -m benchmarks.allreduce_small [--time-limit S]

The two programs are built by hand from the cost model, not by an engine, and pass `Schedule.check()`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import taccl
from benchmarks import report
from benchmarks.checkout import DATA
from taccl.api import make_problem
from taccl.encoding.core.timing import Decision, in_order
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule

_RAILS = DATA / "machines" / "h100-rails.yaml"
#: Machine, nodes, sizes, and which program.
_ROWS: tuple[tuple[str | Path, int | None, tuple[str, ...], str], ...] = (
    ("switch:4", None, ("1KB",), "recursive doubling"),
    ("switch:8", None, ("1KB",), "recursive doubling"),
    ("full:8", None, ("1KB",), "one-shot"),
    ("ndv2", 1, ("1KB",), "recursive doubling"),
    (_RAILS, None, ("1KB", "16KB", "64KB"), "recursive doubling"),
)
_HEADER = ("machine", "size", "program", "program us", "ours us", "bound us", "gap", "status", "search s")


def main() -> None:
    """Run all rows and write docs/results/allreduce_small.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--time-limit", type=float, default=15.0)
    limit_s = parser.parse_args().time_limit
    rows = [
        _row(machine, nodes, size, program, limit_s)
        for machine, nodes, sizes, program in _ROWS
        for size in sizes
    ]
    intro = (
        f"AllReduce in one chunk for each rank, search limit {limit_s:g} s a row. The program makes each sum "
        "at every rank; no bound may be above it, and no search should end above it."
    )
    report.write("allreduce_small", "Small AllReduces", intro, report.table(_HEADER, rows))


def _row(machine: str | Path, nodes: int | None, size: str, program: str, limit_s: float) -> list[str]:
    problem = make_problem("allreduce", topology=machine, nodes=nodes, size=size).problem
    known = _recursive_doubling(problem) if program == "recursive doubling" else _one_shot(problem)
    known.check()
    found = taccl.synthesize(
        "allreduce",
        topology=machine,
        nodes=nodes,
        size=size,
        chunks=1,
        time_limit=limit_s,
        executor=False,
    )
    return [
        machine.stem if isinstance(machine, Path) else machine + ("" if nodes is None else f" x{nodes}"),
        size,
        program,
        f"{known.makespan_us:.3f}",
        f"{found.time_us:.3f}",
        f"{found.lower_bound_us:.3f}",
        f"{100 * found.gap:.2f}%",
        found.status,
        f"{found.solve_s:.1f}",
    ]


def _recursive_doubling(problem: Problem) -> Schedule:
    """Every rank exchanges all that it has across bit 0, bit 1, ... of its number."""
    decisions, size = [], 1
    while size < problem.num_ranks:
        for rank in range(problem.num_ranks):
            first = rank // size * size
            decisions.append(_all_chunks(problem, rank, rank ^ size, ((1 << size) - 1) << first))
        size *= 2
    return in_order(problem, decisions)


def _one_shot(problem: Problem) -> Schedule:
    """Every rank sends its own contribution to every other, which adds up for itself."""
    ranks = range(problem.num_ranks)
    return in_order(problem, [_all_chunks(problem, a, b, 1 << a) for a in ranks for b in ranks if a != b])


def _all_chunks(problem: Problem, src: int, dst: int, contributions: int) -> Decision:
    chunks = tuple(range(problem.num_chunks))
    link = problem.topology.link_index[src, dst]
    return Decision(chunks, link, True, (contributions,) * len(chunks))


if __name__ == "__main__":
    main()

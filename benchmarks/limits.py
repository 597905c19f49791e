"""Limits that are kept: wall time next to the time limit, on machines of up to 256 ranks.

    python -m benchmarks.limits [--limits SECONDS ...] [--load idle|busy|both] [--only TEXT ...] [--all]

A call is to be back within `limit * 1.1 + 3` seconds, with a schedule. Each row is a fresh process that
imports taccl, makes the problem and searches, without a file; its wall time is from its start to its end,
and its memory the most that was ever resident. A process that needs more than `--memory` GiB, or far
longer than it may, is ended, and its row says so. `busy` rows run next to a busy loop for each core.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from benchmarks import report
from benchmarks.calls import Case, Outcome, outcome
from taccl.model.collectives import COLLECTIVES

#: (machine, nodes): everything in the catalogue at its largest, up to 256 ranks.
LARGE = (
    ("a100", 32),
    ("dgx2", 16),
    ("ndv2", 32),
    ("ndv2-teccl", 32),
    ("dgx2-teccl", 2),
    ("switch:256", None),
    ("full:256", None),
    ("hub:256", None),
    ("ring:256", None),
    ("ring-oneway:256", None),
    ("torus:16x16", None),
    ("torus:4x8x8", None),
    ("mesh:16x16", None),
)
#: Smaller ones, for the whole matrix.
SMALLER = (
    ("a100", 2),
    ("a100", 16),
    ("dgx2", 2),
    ("dgx2", 8),
    ("ndv2", 2),
    ("ndv2", 16),
    ("ndv2-teccl", 4),
    ("switch:64", None),
    ("full:64", None),
    ("hub:64", None),
    ("ring:64", None),
    ("ring-oneway:64", None),
    ("torus:8x8", None),
    ("mesh:8x8", None),
)
#: The collectives whose rows run at every limit, next to busy loops, and with a search for the number of
#: chunks, where not the whole matrix is requested; and on which machines.
CENTRAL = ("allgather", "allreduce", "alltoall")
HARD = ("a100x32", "dgx2x16", "mesh:16x16")

HEADER = (
    "machine",
    "collective",
    "chunks",
    "load",
    "limit s",
    "wall s",
    "kept",
    "first s",
    "time us",
    "bound us",
    "gap",
    "status",
    "GiB",
)


def main() -> None:
    """Run the rows requested and write docs/results/limits.md."""
    arguments = _arguments()
    cases = [case for case in _cases(arguments) if _is_wanted(case, arguments.only)]
    done: list[tuple[Case, Outcome]] = []
    try:
        for busy in (False, True):
            with _busy_loops() if busy else ExitStack():
                for case in (each for each in cases if each.busy == busy):
                    done.append((case, outcome(case, arguments.memory)))
                    print(*_row(*done[-1]), sep="  ", file=sys.stderr, flush=True)
    finally:
        if done:
            body = report.table(HEADER, [_row(*each) for each in done])
            report.write("limits", "Time limits and how they are kept", _intro(done, arguments), body)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--limits", type=float, nargs="+", default=[5.0, 10.0, 60.0], metavar="SECONDS")
    parser.add_argument("--load", choices=("idle", "busy", "both"), default="both")
    parser.add_argument(
        "--chunks", nargs="+", default=["1", "auto"], metavar="N|auto", help="auto searches for the number"
    )
    parser.add_argument("--size", default="256MB")
    parser.add_argument("--memory", type=float, default=6.0, metavar="GIB", help="more than this ends a row")
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="TEXT",
        help="rows whose `machine/collective` contains one of these, as a100x32/allreduce",
    )
    parser.add_argument("--all", action="store_true", help="the whole matrix, also of smaller machines")
    return parser.parse_args()


def _cases(arguments: argparse.Namespace) -> Iterator[Case]:
    """The whole matrix, or of it what says most: every large machine at the least limit, some in all
    forms.
    """
    least = min(arguments.limits)
    for machine, nodes in (*LARGE, *SMALLER) if arguments.all or arguments.only else LARGE:
        for collective in COLLECTIVES:
            for limit_s in arguments.limits:
                for busy in (False, True):
                    for chunks in (int(each) if each.isdecimal() else "auto" for each in arguments.chunks):
                        if busy != (arguments.load == "busy") and arguments.load != "both":
                            continue
                        case = Case(machine, nodes, collective, arguments.size, chunks, limit_s, busy)
                        # Of three routes to be harder, one at a time.
                        harder = (limit_s > least) + busy + (chunks == "auto")
                        one_way = case.place in HARD and collective in CENTRAL and harder == 1
                        plain = harder == 0 or (harder == 1 and arguments.load == "busy")
                        if arguments.all or arguments.only or plain or one_way:
                            yield case


def _is_wanted(case: Case, only: list[str]) -> bool:
    return not only or any(text in f"{case.place}/{case.collective}" for text in only)


@contextmanager
def _busy_loops() -> Iterator[None]:
    """As many processes that do nothing but count as there are cores."""
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(len(os.sched_getaffinity(0)))
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _is_kept(case: Case, outcome: Outcome) -> bool:
    return bool(outcome.answer) and outcome.wall_s <= case.allowed_s


def _row(case: Case, outcome: Outcome) -> list[str]:
    answer = outcome.answer
    chunks = f"auto: {answer['chunks']}" if answer and case.chunks == "auto" else str(case.chunks)
    figures = ["-", "-", "-", "-", outcome.failure]
    if answer:
        figures = [
            f"{answer['first_s']:.1f}",
            f"{answer['time_us']:.1f}",
            f"{answer['bound_us']:.1f}",
            f"{100 * answer['gap']:.2f}%",
            str(answer["status"]),
        ]
    return [
        case.place,
        case.collective,
        chunks,
        "busy" if case.busy else "idle",
        f"{case.limit_s:g}",
        f"{outcome.wall_s:.1f}",
        "yes" if _is_kept(case, outcome) else "**no**",
        *figures,
        f"{outcome.peak_gib:.2f}",
    ]


def _intro(done: list[tuple[Case, Outcome]], arguments: argparse.Namespace) -> str:
    """What the columns are, and the worst of all rows, each line of no more than 120 characters."""
    kept = sum(_is_kept(*each) for each in done)
    late = max(outcome.wall_s - case.allowed_s for case, outcome in done)
    return (
        f"{arguments.size}; every row is a fresh process, and `wall s` is all of its life, with importing.\n"
        "It is to end within `limit` x 1.1 + 3 s with a schedule (`kept`). `first s` is when its first\n"
        "schedule was there. `busy` rows ran next to a busy loop for each core. `GiB` is the most memory\n"
        "that was resident.\n\n"
        f"{kept} of {len(done)} rows kept their limit; the latest was {abs(late):.1f} s "
        f"{'after' if late > 0 else 'before'} its time; the most memory was\n"
        f"{max(outcome.peak_gib for _, outcome in done):.2f} GiB."
    )


if __name__ == "__main__":
    main()

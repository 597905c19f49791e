"""GOAL files of `taccl export` in a LogGP evaluation of 60 lines, next to what `taccl simulate` says.

The evaluation reads nothing but the text and the alphas and betas of links, each of which is a network card
of its own: a message of s bytes occupies its link for g + s G, g being the alpha, and has arrived then (L and
o are 0).

python -m benchmarks.goal        writes docs/results/goal.md
"""

from __future__ import annotations

import heapq
import re
import tempfile
from collections import defaultdict
from pathlib import Path

from taccl import synthesize
from taccl.analysis.exported import export
from taccl.analysis.simulated import simulate_file
from taccl.model.network import LogicalTopology

PAGE = Path(__file__).parents[1] / "docs" / "results" / "goal.md"
#: Machines on which no two links share a port.
CELLS = [
    (machine, collective, size)
    for machine in ("ring:4", "ring:8", "torus:3x3", "full:4", "ndv2", "mi300x")
    for collective in ("allreduce", "allgather", "alltoall", "broadcast")
    for size in ("64KB", "16MB")
]
_EVENT = re.compile(r"l(\d+): (send|recv|calc) (\d+)b?(?: (?:to|from) (\d+) tag (\d+))?")
_AFTER = re.compile(r"l(\d+) requires l(\d+)")


def evaluate(text: str, network: LogicalTopology) -> float:
    """When the last event of a GOAL text ends, us."""
    events: dict[tuple[int, int], tuple[str, int, int, str]] = {}
    waits: dict[tuple[int, int], int] = defaultdict(int)
    followers: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    rank = -1
    for line in text.splitlines():
        if line.startswith("rank "):
            rank = int(line.split()[1])
        elif event := _EVENT.fullmatch(line):
            kind, amount, peer, tag = event[2], int(event[3]), event[4], event[5]
            events[rank, int(event[1])] = kind, amount, int(peer or -1), tag
        elif after := _AFTER.fullmatch(line):
            waits[rank, int(after[1])] += 1
            followers[rank, int(after[2])].append((rank, int(after[1])))
    arrived: dict[tuple[int, int, str], float] = {}
    expected: dict[tuple[int, int, str], tuple[int, int]] = {}
    free: dict[int, float] = defaultdict(float)
    latest: dict[tuple[int, int], float] = defaultdict(float)
    ready = [(0.0, *event) for event in events if not waits[event]]
    heapq.heapify(ready)
    last = 0.0
    while ready:
        now, rank, name = heapq.heappop(ready)
        kind, amount, peer, tag = events[rank, name]
        done: list[tuple[float, tuple[int, int]]] = []
        if kind == "calc":
            done.append((now + amount / 1e3, (rank, name)))
        elif kind == "send":
            link, message = network.link_index[rank, peer], (rank, peer, tag)
            end = (
                max(now, free[link]) + network.alpha_us[link] + network.beta_us_per_mb[link] * amount / 2**20
            )
            free[link], arrived[message] = end, end
            done.append((end, (rank, name)))
            if message in expected:
                done.append((end, expected.pop(message)))
        elif (message := (peer, rank, tag)) in arrived:
            done.append((max(now, arrived[message]), (rank, name)))
        else:
            expected[message] = rank, name
        for end, event in done:
            last = max(last, end)
            for other in followers[event]:
                waits[other] -= 1
                latest[other] = max(latest[other], end)
                if not waits[other]:
                    heapq.heappush(ready, (latest[other], *other))
    assert not expected, "a receive without its send"
    return last


def measured(
    machine: str, collective: str, size: str, folder: Path, effort: float = 100
) -> tuple[float, ...]:
    """Times of a schedule's GOAL text and of `simulate` of its actions, us."""
    result = synthesize(
        collective, topology=machine, nodes=1, size=size, target="json", effort=effort, executor=False
    )
    (path,) = result.write(folder / "file.json")
    text = export(path, size=size).text
    simulated = simulate_file(
        path, [size], topology=machine, nodes=1, links_only=True, arbitration="first-come"
    )
    return evaluate(text, result.problem.topology), simulated.sizes[0].time_us


def main() -> None:
    """Measure all cells and write the page."""
    rows, ratios = [], []
    with tempfile.TemporaryDirectory() as folder:
        for machine, collective, size in CELLS:
            goal_us, simulated_us = measured(machine, collective, size, Path(folder))
            ratios.append(goal_us / simulated_us)
            times = f"{goal_us:.2f} | {simulated_us:.2f} | {ratios[-1]:.3f}"
            rows.append(f"| {machine} | {collective} | {size} | {times} |")
            print(rows[-1], flush=True)
    most = max(abs(ratio - 1) for ratio in ratios)
    PAGE.write_text(
        "# GOAL files in an independent LogGP evaluation\n\n"
        "`python -m benchmarks.goal` exports schedules as [GOAL](../export.md) and evaluates it by 60 lines\n"
        "that share nothing with `taccl`, next to `taccl simulate`, on machines whose links share no port.\n"
        f"Largest deviation: {100 * most:.2f}% over {len(rows)} cells.\n\n"
        "| machine | collective | size | GOAL (us) | simulate (us) | ratio |\n|---|---|---|---|---|---|\n"
        + "\n".join(rows)
        + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()

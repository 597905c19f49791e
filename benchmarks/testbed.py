"""Plans run on machines of shaped links, next to gloo, Open MPI and rings by hand: times.

    python -m benchmarks.testbed [MACHINE ..]        measure, keep, and write the page
    python -m benchmarks.testbed --page              the page of what was kept

Needs root and network namespaces. Of each machine first `taccl probe`'s programs are run and costs are fitted
to them; then plans are searched with these costs, predicted, and run.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.testbed_cases import (
    GLOO,
    MACHINES,
    MPI,
    PLAN,
    RING,
    Costs,
    Machine,
    fit,
    network_of,
    predicted_us,
    ring,
)
from benchmarks.testbed_page import KEPT, kept_of, write_page
from benchmarks.testbed_rank import Case
from taccl import synthesize
from taccl.backend.program import Protocol
from taccl.backend.rounds.lowering import lower_to_rounds
from taccl.backend.rounds.rounds import Rounds
from taccl.backend.targets.registry import unfold_file
from taccl.calibration.probe.probing import probe
from taccl.errors import TacclError
from taccl.model.network import LogicalTopology

COLLECTIVES = ("allgather", "allreduce", "alltoall", "reducescatter")
CHUNKS = (1, 2, 4, 8)
EFFORT = 800


def main(words: list[str]) -> None:
    """As the module says."""
    if "--page" not in words:
        for machine in MACHINES:
            if not words or machine.name in words:
                measure(machine)
    write_page(report.measured_now())


def measure(machine: Machine) -> None:
    """Run and keep all rows of a machine; of probes and libraries those that are not kept."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "machine.yaml"
        path.write_text(machine.text())
        network = network_of(path)
        probes = {(name, size): rounds for name, rounds, size in _probes(machine, path)}
        rows = kept_of(machine.name, "probe") or _run(
            path, [Case(name, rounds.collective, size, rounds) for (name, size), rounds in probes.items()]
        )
        known = [(probes[row["who"], row["size_bytes"]], row["size_bytes"], row["took_us"]) for row in rows]
        costs = fit(network, known)
        for row, (rounds, size, _) in zip(rows, known, strict=True):
            _keep(machine, "probe", row, predicted_us(rounds, network, size, costs), costs)
        alphas = (max(1.0, each + costs.round_us) for each in (costs.near_us, costs.far_us))
        path.write_text(machine.text(*alphas))
        chosen = _chosen(machine, path, network, costs)
        path.write_text(machine.text())
        cases = list(_cases(machine, network, chosen))
        rounds_of = {(case.who, case.collective, case.size_bytes): case.rounds for case in cases}
        for row in _run(path, cases):
            made = rounds_of[row["who"], row["collective"], row["size_bytes"]]
            time_us = None if made is None else predicted_us(made, network, row["size_bytes"], costs)
            _keep(machine, "call", row, time_us, costs)


def _cases(
    machine: Machine, network: LogicalTopology, chosen: dict[tuple[str, int], Rounds]
) -> Iterator[Case]:
    known = {(row["who"], row["collective"], row["size_bytes"]) for row in kept_of(machine.name, "call")}
    for (name, size), rounds in chosen.items():
        yield Case(PLAN, name, size, rounds)
        if name != "alltoall" or _has_all(network):
            yield Case(RING, name, size, ring(name, machine.order))
        yield from (Case(who, name, size, None) for who in (GLOO, MPI) if (who, name, size) not in known)


def _has_all(network: LogicalTopology) -> bool:
    return len(network.src) == network.num_ranks * (network.num_ranks - 1)


def _probes(machine: Machine, path: Path) -> Iterator[tuple[str, Rounds, int]]:
    """Programs of `taccl probe` with one instance, as rounds, and rings both ways, at sizes of their own."""
    sizes = [machine.sizes[0] // 4, machine.sizes[0] // 2, machine.sizes[1] // 2]
    for program in probe(path, protocols=[Protocol.SIMPLE]).programs:
        if program.instances == 1 and program.pattern != "one_way":  # as rounds the same as pairs
            call = unfold_file(Path(program.file), program.text.encode(), "run").one_call(None, None)
            rounds = lower_to_rounds(call)
            yield from ((program.pattern, rounds, size) for size in sizes)
    for name in ("allgather", "reducescatter"):
        by_hand = ring(name, machine.order)
        assert by_hand is not None
        yield from ((f"{name} both ways", by_hand, size) for size in sizes)


def _chosen(
    machine: Machine, path: Path, network: LogicalTopology, costs: Costs
) -> dict[tuple[str, int], Rounds]:
    """The rounds predicted fastest for each call: of several numbers of chunks, packed and pipelined."""
    chosen: dict[tuple[str, int], Rounds] = {}
    for name in COLLECTIVES:
        made = [rounds for chunks in CHUNKS for rounds in _searched(path, name, machine.sizes[1], chunks)]
        for size in machine.sizes:
            chosen[name, size] = min(made, key=lambda each: predicted_us(each, network, size, costs))
            best = chosen[name, size]
            print(name, size, len(best.rounds), predicted_us(best, network, size, costs), file=sys.stderr)
    return chosen


def _searched(path: Path, name: str, size: int, chunks: int) -> Iterator[Rounds]:
    try:
        found = synthesize(
            name,
            topology=path,
            size=size,
            chunks=chunks,
            effort=EFFORT,
            executor=False,
            target="rccl",
        )
        with tempfile.TemporaryDirectory() as folder:
            written = Path(folder) / "plan.xml"
            found.write(written)
            call = unfold_file(written, written.read_bytes(), "run").one_call(None, None)
    except TacclError as error:
        print(f"{name} {size} {chunks}: {error}", file=sys.stderr)
        return
    yield lower_to_rounds(call)
    yield lower_to_rounds(call, pipelined=True)


def _run(path: Path, cases: list[Case]) -> list[dict[str, Any]]:
    """Calls on a testbed."""
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder) / "cases", Path(folder) / "out.jsonl"
        given.write_bytes(pickle.dumps(cases))
        worker = [sys.executable, "-m", "benchmarks.testbed_rank", str(given), str(out)]
        words = ["testbed", str(path), "--scale", "1", "--", *worker]
        subprocess.run([sys.executable, "-m", "taccl", *words], check=True)
        return [json.loads(line) for line in out.read_text().splitlines()]


def _keep(machine: Machine, kind: str, row: dict[str, Any], time_us: float | None, costs: Costs) -> None:
    whole = {**row, "machine": machine.name, "kind": kind, "predicted_us": time_us, "costs": asdict(costs)}
    with KEPT.open("a") as file:
        file.write(json.dumps(whole) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

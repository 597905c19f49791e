"""One call of `synthesize` in a fresh process, watched from outside: its answer, wall time and memory.

python -m benchmarks.calls CASE         the call itself (a Case as JSON); other benchmarks start it
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import taccl
from benchmarks import report
from taccl.synthesis.search import Progress

#: How often a process is looked at, and how many times what is allowed it may take before it is ended.
_LOOK_S, _MOST_TIMES = 0.05, 4.0
#: A schedule is near the best one if it takes at most this many times as long.
_NEAR = 1.01


@dataclass(frozen=True)
class Case:
    """One call; `chunks` is a number or `auto`, `busy` whether it runs next to busy loops."""

    machine: str
    nodes: int | None
    collective: str
    size: str
    chunks: int | Literal["auto"]
    limit_s: float
    busy: bool = False

    @property
    def place(self) -> str:
        """The machine with its nodes, as one word."""
        return self.machine if self.nodes is None else f"{self.machine}x{self.nodes}"

    @property
    def allowed_s(self) -> float:
        """When the call is to be back."""
        return self.limit_s * 1.1 + 3.0


@dataclass(frozen=True)
class Outcome:
    """What became of a call; `answer` is empty where none came."""

    wall_s: float
    peak_gib: float
    answer: dict[str, Any]
    failure: str = ""


def answer(case: Case) -> dict[str, Any]:
    """Make the call; what it comes back with, and seconds until the first, a near and the best schedule."""
    found: list[tuple[float, float]] = []

    def listen(progress: Progress) -> None:
        if progress.time_us is not None and (not found or progress.time_us < found[-1][1]):
            found.append((time.time() - float(os.environ["TACCL_CALL_BEGAN"]), progress.time_us))

    result = taccl.synthesize(
        case.collective,
        topology=case.machine,
        nodes=case.nodes,
        size=case.size,
        chunks=case.chunks,
        time_limit=case.limit_s,
        file=False,
        on_progress=listen,
        **report.as_published(case.machine),
    )
    return {
        "first_s": found[0][0],
        "near_s": next(at_s for at_s, time_us in found if time_us <= _NEAR * found[-1][1]),
        "best_s": found[-1][0],
        "transfers": len(result.schedule) if result.template is None else result.template.num_transfers,
        "time_us": result.time_us,
        "bound_us": result.lower_bound_us,
        "any_bound_us": result.any_chunks.value_us,
        "gap": result.gap,
        "status": result.status,
        "chunks": result.collective.chunks_per_rank,
    }


def outcome(case: Case, most_gib: float) -> Outcome:
    """The call in a fresh process, watched from outside."""
    command = [sys.executable, "-m", "benchmarks.calls", json.dumps(case.__dict__)]
    environment = {**os.environ, "TACCL_CALL_BEGAN": repr(time.time())}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began, failure, peak_gib = time.monotonic(), "", 0.0
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environment)
        try:
            while process.poll() is None:
                time.sleep(_LOOK_S)
                peak_gib = max(peak_gib, _peak_gib(process.pid))
                if peak_gib > most_gib:
                    failure = f"ended above {most_gib:g} GiB"
                elif time.monotonic() - began > _MOST_TIMES * case.allowed_s:
                    failure = "ended, far too late"
                if failure:
                    process.kill()
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
        wall_s = time.monotonic() - began
        out.seek(0)
        err.seek(0)
        text, reported = out.read(), err.read().strip()
    if process.returncode:
        return Outcome(wall_s, peak_gib, {}, failure or (reported.splitlines() or ["no word"])[-1])
    return Outcome(wall_s, peak_gib, json.loads(text.splitlines()[-1]))


def _peak_gib(pid: int) -> float:
    """The most memory of a process that was ever resident; 0 where it is over, or nobody says."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    peaks = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
    return max(peaks, default=0) / 2**20


if __name__ == "__main__":
    print(json.dumps(answer(Case(**json.loads(sys.argv[1])))))

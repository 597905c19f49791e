"""Plans for MSCCL++ whose switches sum and copy, on several nodes and on NVL72, next to plans without.

    python -m benchmarks.switch_plans [--effort UNITS] [--only WORDS] [--page]

Both are what the command of a user writes, by searches of the same effort: the fastest file by prediction.
"""

from __future__ import annotations

import argparse
import datetime
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import taccl
from benchmarks import report
from benchmarks.kept import keep_line, kept_lines
from taccl.backend.plan import ExecutionPlan, OpName

INTRO = """\
What `taccl synthesize --target mscclpp` writes: plans with switch-channel operations, next to those of the
same machine with `--without nvswitch`, by searches of one `effort`; `--chunks auto` on 16 GPUs, 1 on 72.
Times are predicted by the simulator with the default executor of the machine's GPUs for MSCCL++, launch
included. `schedule` is the time of the schedule that was found, by costs of links as thread blocks serve
them, without launch and sums; a plan [by groups](../mscclpp.md#several-switches) does not follow it and can
be faster. `switch operations` are those of rank 0: none where a plan through memory channels and ports is
predicted to be faster. `blocks` are thread blocks of a rank: with more effort, more of them are tried."""

#: By name, the machine, its nodes, and the numbers of chunks.
MACHINES = {"dgx-h100 x2": ("dgx-h100", 2, "auto"), "gb200-nvl72": ("gb200-nvl72", None, 1)}
SIZES = ("64KB", "1MB", "16MB", "256MB", "1GB")
COLLECTIVES = ("allreduce", "allgather", "reducescatter")
_THROUGH = (OpName.SWITCH_REDUCE_STORE, OpName.SWITCH_STORE)


@dataclass(frozen=True)
class Case:
    """What is requested."""

    machine: str
    collective: str
    size: str
    without: bool

    def measure(self, effort: int) -> dict[str, Any]:
        """The times of a file and of its schedule, what it is, or why there is none."""
        topology, nodes, chunks = MACHINES[self.machine]
        try:
            result = taccl.synthesize(
                self.collective,
                topology=topology,
                nodes=nodes,
                size=self.size,
                chunks=chunks,
                without="nvswitch" if self.without else None,
                target="mscclpp",
                effort=effort,
            )
        except taccl.TacclError as fault:
            return {"refused": str(fault).split("\n")[0]}
        plan, predicted = result.files[0].program, result.execution
        return {
            "file_us": None if predicted is None else predicted.time_us,
            "schedule_us": result.schedule.makespan_us,
            "switch": _switch_operations(plan),
            "blocks": max(len(rank.blocks) for rank in plan.ranks),
            "effort": effort,
        }


def _switch_operations(plan: ExecutionPlan) -> str:
    words = Counter(each.name for block in plan.ranks[0].blocks for each in block.operations)
    return ", ".join(f"{words[name]} {name.value}" for name in _THROUGH if words[name])


def _cases() -> Iterator[Case]:
    for size, machine, collective in product(SIZES, MACHINES, COLLECTIVES):
        yield from (Case(machine, collective, size, without) for without in (False, True))


def main() -> None:
    """Measure what is not kept yet, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--effort", type=int, default=600)
    parser.add_argument("--only", default="", help="cases with all of these words")
    parser.add_argument("--page", action="store_true", help="only write the page of what is kept")
    arguments = parser.parse_args()
    known = {Case(**each["case"]): each["found"] for each in kept_lines("switch_plans")}
    for case in _cases():
        chosen = all(word in str(case) for word in arguments.only.split())
        if case not in known and chosen and not arguments.page:
            known[case] = case.measure(arguments.effort)
            keep_line("switch_plans", {"case": vars(case), "found": known[case]})
            print(case, known[case], flush=True)
    header = [
        "machine",
        "collective",
        "size",
        "schedule",
        "plan",
        "switch operations",
        "blocks",
        "without",
        "gain",
        "effort",
    ]
    rows = [
        _row(case, known[case], known.get(Case(case.machine, case.collective, case.size, without=True)))
        for case in sorted(known, key=[*_cases()].index)
        if not case.without
    ]
    measured = (
        f"Measured {datetime.date.today()} on {report.machine()}, "
        "with `python -m benchmarks.switch_plans --effort EFFORT`."
    )
    report.write("switch_plans", "Plans through switches", INTRO, report.table(header, rows), measured)


def _row(case: Case, found: dict[str, Any], without: dict[str, Any] | None) -> list[str]:
    plain = [_time(found, "schedule_us"), _time(found, "file_us"), found.get("switch") or "-"]
    other = "not measured" if without is None else _time(without, "file_us")
    gain = "-"
    if without is not None and found.get("file_us") and without.get("file_us"):
        gain = f"{without['file_us'] / found['file_us']:.2f}"
    return [
        case.machine,
        case.collective,
        case.size,
        *plain,
        str(found.get("blocks", "-")),
        other,
        gain,
        str(found.get("effort", "-")),
    ]


def _time(found: dict[str, Any], key: str) -> str:
    if "refused" in found:
        return found["refused"]
    return "not predicted" if found[key] is None else f"{found[key]:.2f} us"


if __name__ == "__main__":
    main()

"""Plans for MSCCL++: what is made of sketches and machines, what it is to take, and what is refused.

    python -m benchmarks.mscclpp [--time-limit SECONDS] [--only WORDS] [--full] [--wall SECONDS] [--page]

One search a row; the plan that it chose, and its schedule as MSCCL-XML, each simulated with the machine's
costs. `--full` takes all sizes in factors of 4 and not of 32. Rows are kept in
docs/results/mscclpp.jsonl, so that several goes fill one page; a row that is there is not made again, unless
`--again`. Next to them: the plans of ../shared/data/mscclpp and ours for the same machine and size, and how
long a plan of 64 ranks with 10,000 operations takes to verify.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import taccl
from benchmarks import report
from benchmarks.checkout import DATA, SHARED, test_helper
from benchmarks.kept import keep_line, kept_lines
from taccl.backend.mscclpp.reader import read_plan
from taccl.backend.plan import ExecutionPlan
from taccl.backend.target import LoweringOptions
from taccl.backend.targets.registry import find_target
from taccl.backend.verify.mscclpp import verify_plan
from taccl.errors import CheckError, TacclError
from taccl.model import units
from taccl.sketch import published_sketches
from taccl.synthesis.result import Result

examples = test_helper("backend", "plan_examples")

COLLECTIVES = ("allgather", "reducescatter", "allreduce", "alltoall")
MACHINES = (("dgx-h100", 1), ("dgx-h100", 2), ("mi300x", 1), ("mi300x", 2))
SIZES = tuple(2**k for k in range(10, 31, 5))
ALL_SIZES = tuple(2**k for k in range(10, 31, 2))
#: Up to here, packets are tried too.
_SMALL = 2**21
#: A machine that knows what executing costs, and how long each of its searches may take (s).
_FITTED, _FITTED_LIMIT_S = str(DATA / "machines" / "mi300x-8.yaml"), 10.0
_FITTED_SIZES = ("16KB", "1MB", "16MB", "256MB")
_TWO_BY_FOUR = str(Path(__file__).with_name("two-by-four.yaml"))
#: Plans of others, with the machine that they are simulated on and the size of the call.
BY_HAND = (
    ("dsl-allgather_2", "switch:2", "4MB"),
    ("napkin-allgather_2", "switch:2", "4MB"),
    ("napkin-allreduce_2", "switch:2", "4MB"),
    ("repo-allreduce_2", "switch:2", "4MB"),
    ("repo-allreduce_packet_2", "switch:2", "16KB"),
    ("dsl-alltoall_4", "switch:4", "4MB"),
    ("dsl-alltoall_pipeline_4", "switch:4", "64MB"),
    ("dsl-allgather_hier_2x4", _TWO_BY_FOUR, "8MB"),
    ("dsl-reducescatter_hier_2x4", _TWO_BY_FOUR, "8MB"),
)

_HEADER = (
    "where",
    "collective",
    "size",
    "protocol",
    "operations of the longest block",
    "blocks of a rank",
    "scratch of a rank",
    "schedule us",
    "plan us",
    "as XML us",
    "bound us",
    "bound / plan",
    "no plan, because",
)
_HEADER_FITTED = (
    "collective",
    "size",
    "protocol",
    "instances",
    "thread blocks",
    "plan us",
    "bound us",
    "bound / plan",
)
_HEADER_BY_HAND = (
    "plan",
    "verdict",
    "machine",
    "size",
    "theirs us",
    "protocol",
    "ours us",
    "protocol",
    "theirs / ours",
    "bound of theirs us",
)


@dataclass(frozen=True)
class Case:
    """A row: on a machine, or by a sketch; `size` in bytes, None: the sketch's."""

    sketch: str | None
    machine: str | None
    nodes: int | None
    collective: str
    size: int | None

    @property
    def place(self) -> str:
        """Where, in a word."""
        if self.sketch is not None:
            return self.sketch
        return f"{self.machine}" + ("" if self.nodes is None else f" x{self.nodes}")


@dataclass(frozen=True)
class Row:
    """What became of a case; times in microseconds, None where there is none.

    `protocol` : of the plan that is predicted fastest. `operations` : of the longest block. `blocks` : of the
    rank with most. `scratch` : bytes of the rank with most. `refusal` : why there is no plan.
    """

    case: Case
    day: str
    limit_s: float
    size: int = 0
    protocol: str = ""
    operations: int = 0
    blocks: int = 0
    scratch: int = 0
    schedule_us: float | None = None
    plan_us: float | None = None
    xml_us: float | None = None
    bound_us: float | None = None
    refusal: str = ""
    notes: list[str] = field(default_factory=list)


def main() -> None:
    """Make the rows that are missing and write docs/results/mscclpp.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--time-limit", type=float, default=4.0)
    parser.add_argument("--only", default="", help="rows with all of these words")
    parser.add_argument("--full", action="store_true", help="all sizes")
    parser.add_argument("--again", action="store_true", help="make rows that are there, too")
    parser.add_argument(
        "--wall", type=float, default=float("inf"), help="begin no row after this many seconds"
    )
    parser.add_argument("--page", action="store_true", help="only write the page of what is kept")
    arguments = parser.parse_args()
    rows, began = _kept(), time.monotonic()
    for case in _cases(arguments.full):
        name = f"{case.place} {case.collective} {case.size}"
        if arguments.page or not all(word in name for word in arguments.only.split()):
            continue
        if (case in rows and not arguments.again) or time.monotonic() - began > arguments.wall:
            continue
        rows[case] = _row(case, arguments.time_limit)
        print(name, _cells(rows[case]), file=sys.stderr, flush=True)
        keep_line("mscclpp", asdict(rows[case]))
    done = [rows[case] for case in _cases(True) if case in rows]
    _write(done, _by_hand(arguments.time_limit), _fitted())


def _cases(full: bool) -> Iterator[Case]:
    for sketch in published_sketches():
        for collective in COLLECTIVES:
            yield Case(sketch.name, None, None, collective, None)
    for size in sorted({*SIZES, *(ALL_SIZES if full else ())}):
        for machine, nodes in MACHINES:
            for collective in COLLECTIVES:
                yield Case(None, machine, nodes, collective, size)


def _kept() -> dict[Case, Row]:
    """The last row of each case."""
    rows = (Row(**{**reported, "case": Case(**reported["case"])}) for reported in kept_lines("mscclpp"))
    return {row.case: row for row in rows}


def _row(case: Case, limit_s: float) -> Row:
    row = Row(case, str(datetime.date.today()), limit_s)
    where = {"sketch": case.sketch, "topology": case.machine, "nodes": case.nodes, "size": case.size}
    requested = {key: value for key, value in where.items() if value is not None} | {"executor": False}
    try:
        result = taccl.synthesize(case.collective, target="mscclpp", time_limit=limit_s, **requested)
    except CheckError as error:
        if error.kept is None:
            return replace(row, refusal=_sentence(error))
        result, refusal = error.kept, _sentence(error)
    except TacclError as error:
        return replace(row, refusal=_sentence(error))
    else:
        refusal = ""
    machine = {key: requested[key] for key in requested if key != "size"}
    row = replace(
        row,
        size=result.size_bytes,
        schedule_us=result.time_us,
        bound_us=result.lower_bound_us,
        refusal=refusal,
    )
    with tempfile.TemporaryDirectory() as folder:
        if result.files:
            (made,) = result.files
            file = Path(folder, "plan.json")
            file.write_text(made.text)
            simulated = taccl.simulate_file(file, [result.size_bytes], **machine).sizes[0]
            row = replace(
                row,
                protocol="LL" if made.program.moves_packets else "Simple",
                plan_us=simulated.time_us,
                bound_us=simulated.lower_bound_us,
                refusal="",
                **_shape(made.program, result.size_bytes),
            )
        return replace(row, xml_us=_as_xml(result, Path(folder), machine))


def _as_xml(result: Result, folder: Path, machine: dict[str, Any]) -> float | None:
    """The time of the same schedule as MSCCL-XML, of the protocol that is faster."""
    target, times = find_target("all"), []
    for protocol in ("Simple", "LL") if result.size_bytes <= _SMALL else ("Simple",):
        path = folder / f"{protocol}.xml"
        with contextlib.suppress(TacclError):
            lowered = target.lower(result.schedule, LoweringOptions(protocol=protocol))[0]
            path.write_text(target.write(lowered.program))
            times.append(taccl.simulate_file(path, [result.size_bytes], **machine).sizes[0].time_us)
    return min(times, default=None)


def _shape(plan: ExecutionPlan, size: int) -> dict[str, int]:
    chunk = size // plan.message_chunks
    lengths = [sum(1 + len(o.inner) for o in b.operations) for r in plan.ranks for b in r.blocks]
    times = (2 if plan.moves_packets else 1) * (2 if plan.double_scratch else 1)
    return {
        "operations": max(lengths),
        "blocks": max(len(r.blocks) for r in plan.ranks),
        "scratch": max(r.scratch_chunks for r in plan.ranks) * chunk * times,
    }


def _sentence(error: TacclError) -> str:
    findings = getattr(error, "findings", ()) or ()
    return "; ".join([str(error).splitlines()[0], *map(str, findings[:1])])


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _cells(row: Row) -> list[str]:
    share = "-" if row.plan_us is None or row.bound_us is None else f"{100 * row.bound_us / row.plan_us:.0f}%"
    size = units.format_size(row.size or row.case.size or 0)
    cells = [row.case.place, row.case.collective, size]
    if row.plan_us is None:
        times = [_us(row.schedule_us), "-", _us(row.xml_us), _us(row.bound_us), "-"]
        return [*cells, "-", "-", "-", "-", *times, row.refusal.replace("|", "/")]
    return [
        *cells,
        row.protocol,
        str(row.operations),
        str(row.blocks),
        units.format_size(row.scratch),
        _us(row.schedule_us),
        _us(row.plan_us),
        _us(row.xml_us),
        _us(row.bound_us),
        share,
        "",
    ]


def _by_hand(limit_s: float) -> list[list[str]]:
    """Plans of others, and ours for the same machine and size."""
    rows = []
    for name, machine, size in BY_HAND:
        path = SHARED / "mscclpp" / f"{name}.json"
        if not path.exists():
            continue
        plan = read_plan(path)
        theirs = taccl.simulate_file(path, [size], topology=machine).sizes[0]
        ours_us, protocol = _ours(plan.collective, machine, size, limit_s)
        rows.append(
            [
                name,
                "verified" if verify_plan(plan).ok else "refused",
                Path(machine).stem,
                size,
                f"{theirs.time_us:.2f}",
                "LL" if plan.moves_packets else "Simple",
                _us(ours_us),
                protocol,
                "-" if ours_us is None else f"{theirs.time_us / ours_us:.2f}",
                f"{theirs.lower_bound_us:.2f}",
            ]
        )
        print(*rows[-1], file=sys.stderr, flush=True)
    return rows


def _ours(collective: str, machine: str, size: str, limit_s: float) -> tuple[float | None, str]:
    """The time of the fastest plan of ours, microseconds, and its protocol; None where there is none."""
    best: tuple[float | None, str] = (None, "")
    for protocol in ("Simple", "LL"):
        with contextlib.suppress(TacclError), tempfile.TemporaryDirectory() as folder:
            result = taccl.synthesize(
                collective,
                topology=machine,
                size=size,
                target="mscclpp",
                protocol=protocol,
                time_limit=limit_s,
            )
            file = Path(folder, "ours.json")
            file.write_text(result.files[0].text)
            time_us = taccl.simulate_file(file, [size], topology=machine).sizes[0].time_us
            if best[0] is None or time_us < best[0]:
                best = time_us, protocol
    return best


def _large() -> str:
    """How long a plan of 64 ranks with more than 10,000 operations takes to verify."""
    plan = examples.all_pairs_allgather(64, 4, 2)
    began = time.process_time()
    right = verify_plan(plan).facts.out_of_place
    seconds = time.process_time() - began
    body = [["64", str(plan.num_blocks), str(plan.num_operations), str(right), f"{seconds:.1f}"]]
    return report.table(("ranks", "thread blocks", "operations", "verdict", "CPU seconds to verify"), body)


def _fitted() -> list[list[str]]:
    """What is chosen on a machine with an executor."""
    rows = []
    for collective in COLLECTIVES:
        for size in _FITTED_SIZES:
            result = taccl.synthesize(
                collective, topology=_FITTED, size=size, target="mscclpp", time_limit=_FITTED_LIMIT_S
            )
            run = result.execution
            if run is None:
                raise CheckError(f"{collective} of {size} was not predicted")
            way = (result.protocol, str(result.instances), str(result.blocks_per_gpu))
            times = (f"{run.time_us:.2f}", f"{run.bound.value_us:.2f}")
            rows.append([collective, size, *way, *times, f"{run.bound.value_us / run.time_us:.0%}"])
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def _write(rows: list[Row], by_hand: list[list[str]], fitted: list[list[str]]) -> None:
    made = [row for row in rows if row.plan_us is not None]
    limits = sorted({row.limit_s for row in rows})
    against = [row.plan_us / row.xml_us for row in made if row.plan_us and row.xml_us]
    quicker = sum(each <= 1.0 for each in against)
    seconds = " or ".join(f"{each:g}" for each in limits)
    intro = (
        f"{len(made)} of {len(rows)} rows have a plan that verifies; the others say why there is none. "
        f"Each row is one search of {seconds} s, so these are not the best schedules that can be had. "
        "*schedule*: by the costs of links alone. *plan*: the one that was chosen, simulated with the "
        "machine's costs (docs/simulate.md). *as XML*: the same schedule lowered to MSCCL-XML, with that "
        f"runtime's costs; the plan is as fast or faster in {quicker} of {len(against)} rows. *bound*: under "
        "whatever moves these chunks so; bound / plan is the share of it that the plan reaches."
    )
    body = "\n\n".join(
        (
            report.table(_HEADER, [_cells(row) for row in rows]),
            "## Next to plans that others wrote",
            "Of ../shared/data/mscclpp: read, verified, simulated; ours are for the same machine and size.",
            report.table(_HEADER_BY_HAND, by_hand),
            "## Where executing has a price",
            "The node of 8 MI300X whose costs were fitted to measured times of MSCCL-XML "
            "(docs/machines/executor.md). Protocol, instances, thread blocks are chosen by predicted time, "
            f"{_FITTED_LIMIT_S:g} s a row.",
            report.table(_HEADER_FITTED, fitted),
            "## A large plan",
            "Every rank puts into every other; see `tests/backend/plan_examples.py`, `all_pairs_allgather`.",
            _large(),
        )
    )
    report.write("mscclpp", "Plans for MSCCL++", intro, body)


if __name__ == "__main__":
    main()

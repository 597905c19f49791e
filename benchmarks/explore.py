"""One command for a range of sizes, next to bounds, to what libraries run and to a search for each size.

    python -m benchmarks.explore [--only MACHINE ...] [--search SECONDS] [--compare SIZE ...] [--kills N]
                                 [--bundles] [--page]

Each command of `COMMANDS` is explored on one core without a cache. Then the sizes of `--compare` are searched
for alone, for `--search` seconds each. `--kills` ends a run by SIGKILL at so many random moments, begins it
again each time, and compares its table with that of a run that was left alone. `--bundles` makes a bundle of
each of `BUNDLES` and looks which files take each size. Rows are kept in docs/results/explore.jsonl; `--page`
only writes the page from them.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.kept import keep_line, kept_lines
from taccl import bundle, explore, synthesize, verify_file, verify_plan_file
from taccl.model.units import format_size, parse_size

NAME = "explore"
FOUR = "allgather,reducescatter,allreduce,alltoall"
#: (machine, nodes, collectives, seconds within which all are to be there); no time limit is given.
COMMANDS = (
    ("dgx2", 2, "allgather", 300.0),
    ("dgx-h100", 2, FOUR, 900.0),
    ("ndv2", 2, FOUR, 900.0),
)
#: Sizes that are searched for alone by default, and from which size on the bound is to be near.
COMPARED = ("16KB", "1MB", "64MB", "1GB")
LARGE = 64 * 2**20
#: What is killed again and again.
KILLED = ("--topology", "ndv2", "--nodes", "1", "--collective", "allgather,alltoall", "--effort", "40000")
#: (machine, nodes, target) of bundles for four collectives, and the effort for each.
BUNDLES = (("ndv2", 2, "all"), ("dgx2", 2, "all"), ("dgx-h100", 2, "mscclpp"), ("mi300x", 1, "all"))
BUNDLE_EFFORT = 12_000
INTRO = """\
`taccl explore --topology MACHINE --nodes N --collective .. --sizes 1KB..1GB`, nothing else given, next to the
fastest algorithm that libraries have in the same model, to the bound for any number of chunks, and to a
search of {search:.0f} s for that size alone. Times are of links alone (`--no-executor`). The last column
compares explore's time with that of the search: below 0, explore is faster.
"""


def main() -> None:
    """Measure what is requested, and write docs/results/explore.md."""
    arguments = _arguments()
    if not arguments.page:
        for command in () if arguments.bundles else COMMANDS:
            if not arguments.only or command[0] in arguments.only:
                _measure(*command, arguments.search, arguments.compare)
        for each in BUNDLES if arguments.bundles else ():
            if not arguments.only or each[0] in arguments.only:
                keep_line(NAME, {"bundle": _bundled(*each)} | _when())
        if arguments.kills:
            keep_line(NAME, {"kills": _killed(arguments.kills)} | _when())
    _write(list(kept_lines(NAME)), arguments.search)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="MACHINE")
    parser.add_argument("--search", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--compare", nargs="*", default=list(COMPARED), metavar="SIZE")
    parser.add_argument("--kills", type=int, default=0, metavar="N")
    parser.add_argument("--bundles", action="store_true", help="make bundles, and explore nothing")
    parser.add_argument("--page", action="store_true", help="write the page from what is kept")
    return parser.parse_args()


def _when() -> dict[str, str]:
    return {"day": str(datetime.date.today()), "machine": report.machine()}


def _measure(
    machine: str, nodes: int, collectives: str, limit_s: float, search_s: float, compared: list[str]
) -> None:
    """Explore, and then search for some sizes alone."""
    began = time.monotonic()
    table = explore(collectives, topology=machine, nodes=nodes, executor=False, cache=False)
    row: dict[str, Any] = {
        "topology": machine,
        "nodes": nodes,
        "wall_s": time.monotonic() - began,
        "limit_s": limit_s,
        "searches": len(table.cells),
        "best": list(table.best),
        "alone": {},
    }
    for collective in collectives.split(","):
        for size in compared:
            found = synthesize(
                collective,
                topology=machine,
                nodes=nodes,
                size=size,
                executor=False,
                time_limit=search_s,
                file=False,
            )
            row["alone"][f"{collective} {size}"] = [found.time_us, found.lower_bound_us]
            print(machine, collective, size, f"{found.time_us:.2f} us", file=sys.stderr, flush=True)
    keep_line(NAME, row | _when())


def _killed(times: int) -> dict[str, Any]:
    """Kill a run at random moments, each time after it was begun again, until it ends by itself."""
    draws, command = random.Random(0), [sys.executable, "-m", "taccl", "explore", *KILLED, "--json", "-q"]
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"TACCL_CACHE": folder}
        began = time.monotonic()
        whole = subprocess.run([*command, "--no-cache"], env=environment, capture_output=True, check=True)
        whole_s = time.monotonic() - began
        made: dict[str, int] = {}
        for _ in range(times):
            with subprocess.Popen(
                command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ) as process:
                time.sleep(draws.uniform(0.1, 0.5) * whole_s)
                process.send_signal(signal.SIGKILL)
            for path in Path(folder).glob("*.json"):
                made.setdefault(path.name, path.stat().st_mtime_ns)
        last = subprocess.run([*command], env=environment, capture_output=True, check=True)
        again = sum(
            path.name in made and path.stat().st_mtime_ns != made[path.name]
            for path in Path(folder).glob("*.json")
        )
    tables = [json.loads(run.stdout)["best"] for run in (whole, last)]
    return {
        "times": times,
        "same_table": tables[0] == tables[1],
        "searches": len(json.loads(whole.stdout)["cells"]),
        "finished_before_the_last_run": len(made),
        "computed_twice": again,
    }


def _bundled(machine: str, nodes: int, target: str) -> dict[str, Any]:
    """Which files take calls of each power of two and the byte below it, by runtime and collective."""
    began = time.monotonic()
    made = bundle(FOUR, topology=machine, nodes=nodes, target=target, effort=BUNDLE_EFFORT, cache=False)
    seconds = time.monotonic() - began
    with tempfile.TemporaryDirectory() as folder:
        made.write(Path(folder) / "bundle")
        manifest = json.loads((Path(folder) / "bundle" / "manifest.json").read_text())
        refused = [path for path in _files_of(manifest) if not _verifies(Path(folder) / "bundle" / path)]
        served = {path: _served(Path(folder) / "bundle" / path) for path in _files_of(manifest)}
    sizes = [size for exponent in range(10, 31) for size in (2**exponent - 1, 2**exponent)][1:]
    runtimes = sorted({name for file in manifest["files"] for name in file["paths"]})
    uncovered = sum(
        sum(
            (
                size in served[file["paths"][runtime]]
                if runtime in file["paths"]
                else file["min_bytes"] <= size <= file["max_bytes"]
            )
            for file in manifest["files"]
            if file["collective"] == collective
        )
        != 1
        for runtime in runtimes
        for collective in FOUR.split(",")
        for size in sizes
    )
    plans = [file for file in manifest["files"] if file["kind"] == "plan"]
    return {
        **{"machine": f"{machine} x{nodes}", "target": target, "seconds": seconds, "runtimes": runtimes},
        **{"sizes": len(sizes), "windows": len(manifest["files"]), "plans": len(plans)},
        **{"not_by_one": uncovered, "refused": len(refused), "files": len(_files_of(manifest))},
        "reasons": sorted({file["reason"] for file in manifest["files"] if file["reason"]}),
    }


def _files_of(manifest: dict[str, Any]) -> list[str]:
    return [path for file in manifest["files"] for path in file["paths"].values()]


def _served(path: Path) -> range:
    """The sizes of calls that take a file: msccl leaves out the largest that it names."""
    found = re.search(
        r'minBytes="(\d+)" maxBytes="(\d+)"|"min_message_size": ?(\d+),\s*"max_message_size": ?(\d+)',
        path.read_text(),
    )
    assert found is not None
    least, most = (int(number) for number in found.groups() if number is not None)
    return range(least, most + (path.parent.name != "msccl"))


def _verifies(path: Path) -> bool:
    if path.suffix == ".json":
        return verify_plan_file(path).ok
    return verify_file(path, targets=[path.parent.name]).ok


def _write(rows: list[dict[str, Any]], search_s: float) -> None:
    """The page, of the last row of each command."""
    bundles = {row["bundle"]["machine"]: row["bundle"] for row in rows if "bundle" in row}
    last = {(row.get("topology"), row.get("nodes")): row for row in rows if "bundle" not in row}
    measured = [row for key, row in last.items() if key[0] is not None]
    parts = [report.table(_HEADER, [_summary(row) for row in measured])]
    killed = last.get((None, None))
    if killed is not None:
        kills = killed["kills"]
        table = "the same table" if kills["same_table"] else "ANOTHER table"
        parts.append(
            f"Killed at {kills['times']} random moments (`taccl explore {' '.join(KILLED)}`), the run ended "
            f"with {table} as one that was left alone; of {kills['searches']} searches "
            f"{kills['finished_before_the_last_run']} had finished before the last run, and "
            f"{kills['computed_twice']} of these were computed twice."
        )
    if bundles:
        parts.append("## Bundles of four collectives, 1KB to 1GB")
        parts.append(report.table(_BUNDLES, [_of_bundle(each) for each in bundles.values()]))
        parts.append(
            f"`taccl bundle --effort {BUNDLE_EFFORT}`; sizes: each power of two and the byte below it, for "
            "each runtime and collective, by the range that its file names as that runtime reads it; a "
            "fallback is what the library does by itself, with the reason given."
        )
    for row in measured:
        parts.append(f"## {row['nodes']} nodes of {row['topology']}")
        parts.append(report.table(_SIZES, list(_by_size(row))))
    when = "; ".join(
        f"{row['topology']} x{row['nodes']}: {row['day']} on one core of {row['machine']}" for row in measured
    )
    measured_when = f"Measured with `python -m benchmarks.explore --search {search_s:g}`. {when}."
    intro = INTRO.format(search=search_s).strip()
    report.write(NAME, "One command for all sizes", intro, "\n\n".join(parts), measured_when)


_HEADER = (
    *(
        "machine",
        "cells",
        "searches",
        "seconds",
        "slower than a library",
        f"gap from {format_size(LARGE)} on",
    ),
    *("gap, all", "next to a search alone: median, worst"),
)
_BUNDLES = (
    "machine",
    "for",
    "windows",
    "files",
    "refused by verify",
    "sizes not taken by one",
    "fallbacks",
    "s",
)
_SIZES = (
    "collective",
    "size",
    "time us",
    "bound us",
    "gap",
    "library us",
    "speed-up",
    "alone us",
    "to alone",
)


def _of_bundle(each: dict[str, Any]) -> tuple[str, ...]:
    return (
        *(each["machine"], ", ".join(each["runtimes"]), str(each["windows"]), str(each["files"])),
        *(str(each["refused"]), str(each["not_by_one"])),
        f"{each['windows'] - each['plans']}: {'; '.join(each['reasons']) or '-'}",
        f"{each['seconds']:.0f}",
    )


def _summary(row: dict[str, Any]) -> tuple[str, ...]:
    best = row["best"]
    slower = sum(each["time_us"] > each["baseline_us"] * (1 + 1e-9) for each in best if each["baseline_us"])
    large = [each["gap"] for each in best if each["size_bytes"] >= LARGE]
    off = [now for each in best if (now := _now(row, each)) is not None]
    return (
        *(f"{row['topology']} x{row['nodes']}", str(len(best)), str(row["searches"])),
        *(f"{row['wall_s']:.0f} of {row['limit_s']:.0f}", str(slower)),
        f"median {statistics.median(large):.1%}, most {max(large):.1%}",
        f"median {statistics.median(each['gap'] for each in best):.1%}",
        f"{statistics.median(off):+.1%}, {max(off):+.1%}" if off else "-",
    )


def _now(row: dict[str, Any], best: dict[str, Any]) -> float | None:
    """By how much the time is above that of a search for the size alone, a fraction."""
    alone = row["alone"].get(f"{best['collective']} {format_size(best['size_bytes'])}")
    return None if alone is None else best["time_us"] / alone[0] - 1


def _by_size(row: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    compared = {parse_size(size) for size in COMPARED}
    for each in row["best"]:
        if each["size_bytes"] not in compared and each["size_bytes"].bit_length() % 2:
            continue
        alone = row["alone"].get(f"{each['collective']} {format_size(each['size_bytes'])}")
        now = _now(row, each)
        yield (
            *(each["collective"], format_size(each["size_bytes"])),
            *(f"{each['time_us']:.2f}", f"{each['lower_bound_us']:.2f}", f"{each['gap']:.1%}"),
            *(f"{each['baseline_us']:.2f}", f"{each['speedup']:.2f}x"),
            *(("-", "-") if alone is None or now is None else (f"{alone[0]:.2f}", f"{now:+.1%}")),
        )


if __name__ == "__main__":
    main()

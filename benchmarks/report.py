"""What every benchmark here writes: a Markdown table, the machine, the date and the command."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from taccl import load_topology
from taccl.topologies.helpers import declared_name

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"
WIDTH = 120


def machine() -> str:
    """The processor and how many of it, in one line."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} core{'s' if cores != 1 else ''} of {model}, Python {platform.python_version()}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def wrapped(text: str) -> str:
    """Markdown with its paragraphs in lines of at most `WIDTH` characters; tables and code are left alone."""
    lines, in_code = [], False
    for line in text.split("\n"):
        in_code ^= line.lstrip().startswith("```")
        if in_code or line.lstrip().startswith("|") or len(line) <= WIDTH:
            lines.append(line)
        else:
            lines += textwrap.wrap(line, WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def measured_now() -> str:
    """When, where and with which command: now, and this one."""
    command = shlex.join(["python", "-m", f"benchmarks.{Path(sys.argv[0]).stem}", *sys.argv[1:]])
    return f"Measured {datetime.date.today()} on {machine()}, with `{command}`."


def write(name: str, title: str, intro: str, body: str, measured: str = "") -> None:
    """Write docs/results/NAME.md; `measured` says when and how where that is not now and by this command."""
    text = f"# {title}\n\n{intro}\n\n{body}\n\n{measured or measured_now()}\n"
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.md").write_text(wrapped(text))
    print(f"wrote docs/results/{name}.md", file=sys.stderr)


def as_published(topology: str) -> dict[str, Any]:
    """Keywords for a machine as published comparisons have it: links alone, and no in-switch sums."""
    machine = load_topology(topology)
    helpers = machine.gpus[machine.num_members :]
    switches = sorted({declared_name(each) for each in helpers if each.at is not None})
    return {"executor": False, "without": switches}

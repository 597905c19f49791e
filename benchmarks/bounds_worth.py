"""What is lost where a bound goes: the largest bound of a problem with all bounds, and without each of them.

    python -m benchmarks.bounds_worth [--random N] [--page]

Random tiny problems of four kinds, each without every bound that is the largest; and problems of machines and
sketches, each without the bounds named beside it. Work is counted and not seconds. Rows are kept in
docs/results/bounds_worth.jsonl, so that several goes fill one page; `--page` only writes the page.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.checkout import test_helper
from benchmarks.kept import keep_line, kept_lines
from taccl.api import make_problem
from taccl.encoding import bounds
from taccl.encoding.bounds import BOUNDS, Bound, Proof, flow, proofs, staged_cut
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.support.budget import Budget

NAME = "bounds_worth"
#: Arguments inside a bound, by the ends of their witnesses.
PARTS = {
    "gathered before and spread after": "staged-cut: apart",
    "all of a group gathered and spread at once": "staged-cut: together",
    "collected first": "staged-cut: first sums",
    "the last gathered": "staged-cut: late",
    "in one group or with one more alpha": "staged-cut: one group",
    "a detour or an alpha for each pair of ranks": "flow: fixed charge",
    "flow of whole chunks over all links": "flow: integer capacity",
}
#: The modules that a bound or an argument has for itself.
MODULES = {
    "latency": ("latency",),
    "cut": ("cut",),
    "volume": ("volume",),
    "bottleneck": ("bottleneck",),
    "relay": ("relay",),
    "strength": ("strength", "spanning", "tree_prices", "helped"),
    "center": ("center",),
    "flow": ("flow", "flow_prices", "whole_flow"),
    "waits": ("waits",),
    "broadcast-time": ("broadcast_time",),
    "gather-time": ("gather_time",),
    "fan-out": ("fan_out", "fan_out_setting", "fan_out_worth"),
    "staged-cut": ("staged_cut", "staged_copies", "staged_sums", "entering", "port_turns"),
    "staged-cut: late": ("staged_late",),
    "staged-cut: one group": ("staged_one_group",),
    "moments": ("moments", "moments_program", "equivalence"),
    "timed-flow": ("timed_flow", "timed_flow_layout", "timed_flow_program", "kinds", "orbits"),
}
#: Problems of machines and sketches where a bound was seen to be the largest alone: what is left out, the
#: collective, and what is requested.
SEEN: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("bottleneck", "broadcast", {"topology": "mi250x", "nodes": 1, "size": "64MB"}),
    ("relay", "broadcast", {"topology": "dgx-h100", "nodes": 8, "size": "16MB"}),
    ("relay", "broadcast", {"topology": "torus:8x8", "size": "16MB"}),
    ("strength", "allreduce", {"topology": "dgx-h100", "nodes": 1, "size": "64MB", "without": []}),
    ("strength", "allreduce", {"topology": "gb200-nvl72", "nodes": 1, "size": "64MB", "without": []}),
    ("center", "allreduce", {"sketch": "ndv2-n1-sk-1"}),
    ("center", "allreduce", {"topology": "ndv2", "nodes": 1, "size": "1MB"}),
    ("flow: fixed charge", "alltoall", {"topology": "dgx2", "nodes": 1, "size": "1MB"}),
    ("flow: fixed charge", "alltoall", {"topology": "switch:16", "size": "1MB"}),
    ("flow: integer capacity", "alltoall", {"topology": "ndv2", "nodes": 1, "size": "64KB"}),
    ("waits", "alltoall", {"topology": "torus:8x8", "size": "256KB"}),
    ("waits", "alltoall", {"topology": "ring:8", "size": "128KB"}),
    ("broadcast-time", "broadcast", {"topology": "gb200-nvl72", "nodes": 1, "size": "64KB"}),
    ("broadcast-time", "reduce", {"topology": "dgx-h100", "nodes": 4, "size": "4KB"}),
    ("gather-time", "allgather", {"topology": "gb200-nvl72", "nodes": 1, "size": "1MB"}),
    ("gather-time", "allgather", {"topology": "torus:8x8", "size": "1MB", "chunks": 2}),
    ("staged-cut: together", "broadcast", {"topology": "ndv2", "nodes": 2, "size": "1MB", "chunks": 4}),
    ("staged-cut: first sums", "allreduce", {"topology": "dgx-h100", "nodes": 2, "size": "1MB"}),
    ("staged-cut: late", "reducescatter", {"sketch": "dgx2-sk-3", "size": "512KB"}),
    ("staged-cut: one group", "allgather", {"sketch": "ndv2-sk-2"}),
    ("staged-cut: one group", "reducescatter", {"sketch": "ndv2-sk-2"}),
    ("timed-flow", "broadcast", {"topology": "fat-tree:8x8:2", "size": "256KB", "chunks": 128}),
    ("timed-flow", "allreduce", {"topology": "fat-tree:8x8:2", "size": "64KB", "chunks": 2}),
    ("moments", "allgather", {"topology": "ndv2", "nodes": 1, "size": "64KB"}),
    ("moments", "allgather", {"topology": "ring:8", "size": "1MB", "chunks": 4}),
    ("fan-out", "scatter", {"topology": "a100", "nodes": 4, "size": "1MB"}),
)
#: Units of work for all bounds of a tiny problem, and of others.
TINY, OTHERS = 3_000, 4_000
#: Without these, what holds for any number of chunks is compared.
ANY_CHUNKS = ("bottleneck", "relay", "strength", "broadcast-time")
#: Two bounds are told apart by this part of them.
LEAST = 0.005


@dataclass(frozen=True)
class Row:
    """A problem.

    Parameters
    ----------
    kind, name : which.
    full_us : the largest bound.
    cpu_s : what the turn of each bound took.
    without_us : for each that was left out what the others prove.
    """

    kind: str
    name: str
    full_us: float
    cpu_s: Mapping[str, float]
    without_us: Mapping[str, float]

    def loss(self, part: str) -> float:
        """How much of the largest bound is lost without one."""
        return 1 - self.without_us[part] / self.full_us


@contextmanager
def left_out(name: str) -> Iterator[Sequence[Bound]]:
    """The bounds without one, or without an argument inside one."""
    looks, flows = staged_cut._closer_looks, flow.whole_flow
    staged_cut._closer_looks = lambda *each: (
        case for case in looks(*each) if name != PARTS[case[1].lstrip("0123456789 ")]
    )
    flow.whole_flow = lambda *each: (case for case in flows(*each) if name != PARTS[case[1]])
    try:
        yield [bound for bound in BOUNDS if bound.name != name]
    finally:
        staged_cut._closer_looks, flow.whole_flow = looks, flows


def measured(kind: str, name: str, problem: Problem, effort: int, part: str | None = None) -> Row:
    """All bounds of a problem, and the others without `part`, or without each that is the largest."""
    instance, budget, any_chunks = Instance(problem), Budget.of_work(effort), part in ANY_CHUNKS
    by, cpu_s = dict[str, float](), dict[str, float]()
    for bound in BOUNDS:
        began = time.process_time()
        for proof in proofs(instance, budget, [bound], any_chunks=any_chunks):
            of = _part(bound, proof)
            by[of] = max(proof.value_us, by.get(of, 0.0))
        cpu_s[bound.name] = round(time.process_time() - began, 5)
    full_us, without_us = max(by.values()), dict[str, float]()
    largest = [of for of, value_us in by.items() if value_us >= full_us * (1 - LEAST / 10)]
    for of in largest if part is None else [part]:
        with left_out(of) as others:
            left = proofs(Instance(problem), Budget.of_work(effort), others, any_chunks=any_chunks)
            without_us[of] = max((proof.value_us for proof in left), default=0.0)
    return Row(kind, name, full_us, cpu_s, without_us)


def _part(bound: Bound, proof: Proof) -> str:
    """Which argument a proof is of: that of the row of the registry, or one inside it."""
    inside = next((part for end, part in PARTS.items() if proof.witness.endswith(end)), "")
    return inside if inside.startswith(f"{bound.name}:") else bound.name


def problems(tiny: int) -> Iterator[tuple[str, str, str | None, Callable[[], Problem]]]:
    """(kind, name, what is left out, the problem) of each."""
    drawn = test_helper("encoding", "random_problems")
    for kind, many, draw in (
        ("plain", 2 * tiny // 5, drawn.random_problem),
        ("clusters", 2 * tiny // 5, drawn.random_cluster_problem),
        ("featured", tiny // 10, drawn.random_featured_problem),
        ("helped", tiny // 10, drawn.random_helped_problem),
    ):
        for number in range(many):
            yield kind, str(number), None, _drawn(draw, kind, number)
    for part, collective, requested in SEEN:
        words = " ".join(str(each) for each in (*requested.values(), collective) if each != [])
        of = f"{part}, any chunks" if part in ANY_CHUNKS else part
        yield "seen", f"{words} ({of})", part, _stated(collective, requested)


def _drawn(draw: Callable[[random.Random, bool], Problem], kind: str, number: int) -> Callable[[], Problem]:
    return lambda: draw(random.Random(f"{kind} {number}"), number % 5 > 1)


def _stated(collective: str, requested: Mapping[str, Any]) -> Callable[[], Problem]:
    usual = report.as_published(requested["topology"]) if "topology" in requested else {"executor": False}
    return lambda: make_problem(collective, **{**usual, **requested}).problem


def main() -> None:
    """Measure what is not measured yet, and write docs/results/bounds_worth.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--random", type=int, default=300)
    parser.add_argument("--page", action="store_true", help="only write the page")
    arguments = parser.parse_args()
    done = {(each["kind"], each["name"]) for each in kept_lines(NAME)}
    for kind, name, part, make in problems(arguments.random):
        if not arguments.page and (kind, name) not in done:
            effort = TINY if part is None else OTHERS
            keep_line(NAME, asdict(measured(kind, name, make(), effort, part)))
    intro = _INTRO.format(tiny=TINY, seen=OTHERS)
    report.write(NAME, "What each bound is worth", intro, _body([Row(**each) for each in kept_lines(NAME)]))


_INTRO = """\
What is lost where a bound goes, all others staying: of random tiny problems (those of
[fuzz_bounds](fuzz_bounds.md), a fifth of them with features or helpers), and of problems of machines where
it was seen to be the largest alone. *Largest*: within 0.05% of the largest; *loses*: without it the largest
is less by more than 0.5%. An effort of {tiny:,} for all bounds of a tiny problem together, and of {seen:,} of
others. *Any chunks*: of what is proved for any number of chunks.

Each bound, and each argument inside one, loses something where it goes, so all stay (`staged-soon` is
`staged-cut` sooner, and loses none). The least: `one group`, without which two rows of the [published
sketches](published.md) are 0.45% from a bound that they meet today; and `volume`, which loses none with
this much work: it is there at once, on large machines before others."""


def _body(rows: Sequence[Row]) -> str:
    tiny = [row for row in rows if row.kind != "seen" and row.full_us > 0]
    parts = [*(bound.name for bound in BOUNDS), *PARTS.values()]
    lines = []
    for part in sorted(parts, key=lambda each: (_place(each), each)):
        losses = [row.loss(part) for row in tiny if part in row.without_us]
        lost = [loss for loss in losses if loss > LEAST]
        cpu = [row.cpu_s[part] for row in tiny if part in row.cpu_s]
        lines.append(
            [
                part,
                _lines(part),
                str(len(losses)),
                str(len(lost)),
                f"{100 * max(lost):.0f}%" if lost else "-",
                f"{1e3 * sum(cpu) / len(cpu):.0f}" if cpu else "-",
            ]
        )
    seen = [
        [row.name, f"{row.full_us:.3f}", f"{us:.3f}", f"{100 * row.loss(part):.2f}%"]
        for row in rows
        if row.kind == "seen"
        for part, us in row.without_us.items()
    ]
    return "\n\n".join(
        [
            f"{len(tiny)} random tiny problems:",
            report.table(("bound", "lines", "largest", "loses", "at most", "CPU ms"), lines),
            "Problems of machines and sketches:",
            report.table(("problem (without)", "all, us", "without, us", "lost"), seen),
        ]
    )


def _lines(part: str) -> str:
    modules = [Path(bounds.__file__).parent / f"{name}.py" for name in MODULES.get(part, ())]
    return str(sum(len(each.read_text().splitlines()) for each in modules)) if modules else "-"


def _place(part: str) -> int:
    """Where a bound, or the one that an argument is inside, stands in the registry."""
    return [bound.name for bound in BOUNDS].index(part.partition(":")[0])


if __name__ == "__main__":
    main()

"""Every bound against the fastest of all programs, on random tiny problems.

    python -m benchmarks.fuzz_bounds [--copies N] [--sums N] [--most-sends N] [--seed N]
    python -m benchmarks.fuzz_bounds --clusters N, or --features N, --helpers N, --joint N
    python -m benchmarks.fuzz_bounds --truth KIND FIRST N

A problem is drawn by tests/encoding/random_problems.py, bounded by `all_bounds`, and searched exhaustively by
tests/encoding/brute_force.py, which knows nothing but the cost model. Problems whose search would try too
many sends say nothing and are drawn again; they are counted. A bound above the optimum is a *violation*.
How tight the largest bound is, is its part of the optimum, where that is not 0.

With `--clusters` only this many small clusters are drawn, a third of them with sums, with `--features` only
this many problems with sizes, ready times, tails and helpers, half of them with sums, with `--helpers`
only this many with switches and servers that sum or copy, two thirds of them with sums, and with `--joint`
only this many of several collectives at once, half of them with sums; then only their section of the page is
written anew, and else all of them stay as they are. `--truth` only looks for programs that are faster than
the largest bound, which is sooner done, and prints how many problems it searched: `plain` ones, of a
`cluster`, `featured`, `helped` or `joint` ones, numbered from FIRST on.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import report
from benchmarks.checkout import test_helper
from taccl.encoding.bounds import Proof, all_bounds, lower_bound
from taccl.model.problem import Problem
from taccl.support.budget import Budget

brute_force = test_helper("encoding", "brute_force")
random_problems = test_helper("encoding", "random_problems")

#: A bound that is above the optimum by no more than this is not: times count as equal up to it.
_TOLERANCE_US = 1e-6
#: A bound within this part of another one, or of the optimum, is as good.
_EQUAL = 1e-6
_PROGRESS_S = 60.0


class _Tally:
    """What came of the problems of one kind: with sums, or copies only."""

    def __init__(self) -> None:
        self.searched = self.too_large = self.violations = 0
        #: For each heading the parts of the optimum that the largest bounds were.
        self.tightness: dict[str, list[float]] = defaultdict(list)
        #: How often a bound of each kind was the largest, and how often the only one.
        self.largest: Counter[str] = Counter()
        self.alone: Counter[str] = Counter()

    def take(self, problem: Problem, bounds: tuple[Proof, ...], optimum_us: float) -> None:
        self.searched += 1
        for bound in bounds:
            if bound.value_us > optimum_us + _TOLERANCE_US:
                self.violations += 1
                print(f"VIOLATION: {bound} is above {optimum_us} us: {problem}", file=sys.stderr, flush=True)
        if optimum_us <= _TOLERANCE_US:
            return
        largest = bounds[0].value_us
        kinds = [bound.kind for bound in bounds if bound.value_us >= largest * (1 - _EQUAL)]
        self.largest.update(kinds)
        self.alone.update(kinds if len(kinds) == 1 else [])
        for heading in (
            _collective(problem),
            problem.topology.occupancy,
            f"{problem.num_ranks} ranks",
            "all",
        ):
            self.tightness[heading].append(largest / optimum_us)


def main() -> None:
    """Draw, bound and search until enough were searched to the end; write docs/results/fuzz_bounds.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--copies", type=int, default=4000)
    parser.add_argument("--sums", type=int, default=6000)
    parser.add_argument("--most-sends", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    for section in _SECTIONS:
        parser.add_argument(f"--{section.option}", type=int, default=0)
    parser.add_argument("--truth", nargs=3, metavar=("KIND", "FIRST", "N"))
    arguments = parser.parse_args()
    if arguments.truth:
        kind, first, many = arguments.truth
        _look_for_faster(kind, range(int(first), int(first) + int(many)), arguments.most_sends)
        return
    copies, sums, drawn = arguments.copies, arguments.sums, random_problems.random_problem
    section = next((each for each in _SECTIONS if getattr(arguments, each.option)), None)
    if section is not None:
        many = getattr(arguments, section.option)
        sums, drawn = round(many * section.sums), section.drawn
        copies = many - sums
    began = time.monotonic()
    tallies = {
        "copies only": _searched(drawn, copies, False, arguments.seed, arguments.most_sends),
        "with sums": _searched(drawn, sums, True, arguments.seed, arguments.most_sends),
    }
    minutes = (time.monotonic() - began) / 60
    parts = [_counts(tallies), _TIGHT, _tightness(tallies), _WHICH, _kinds(tallies)]
    page = report.RESULTS / "fuzz_bounds.md"
    whole, texts = _parted(page.read_text() if page.exists() else "")
    if section is None:
        report.write("fuzz_bounds", _TITLE, _INTRO.format(minutes=minutes), "\n\n".join(parts))
        whole = page.read_text()
    else:
        intro = section.intro.format(minutes=minutes)
        texts[section.heading] = report.wrapped("\n\n".join([intro, *parts, report.measured_now()])) + "\n"
    page.write_text(whole + "".join(heading + text for heading, text in texts.items()))
    if any(tally.violations for tally in tallies.values()):
        sys.exit("some bound is above a program")


def _look_for_faster(kind: str, numbers: range, most_sends: int) -> None:
    """Whether some program is faster than the largest bound of a problem; two of five only copy."""
    drawn = {
        "plain": random_problems.random_problem,
        "cluster": random_problems.random_cluster_problem,
        "featured": random_problems.random_featured_problem,
        "helped": random_problems.random_helped_problem,
        "joint": random_problems.random_joint_problem,
        "pairs": random_problems.random_pairs_problem,
    }.get(kind)
    if drawn is None:
        sys.exit(f"there is no kind {kind!r} of problem")
    counted: Counter[str] = Counter()
    for number in numbers:
        problem = drawn(random.Random(f"{kind} {number}"), number % 5 > 1)
        bound = lower_bound(problem, Budget.of_work(1_000_000))
        if math.isinf(bound.value_us):
            continue
        try:
            faster = brute_force.program_before(problem, bound.value_us - _TOLERANCE_US, most_sends)
        except brute_force.TooLarge:
            counted["too large"] += 1
            continue
        counted["searched"] += 1
        if faster is not None:
            faster.check()
            counted["bounds above a program"] += 1
            print(f"VIOLATION: {kind} {number}: {bound} is above {faster.makespan_us} us", flush=True)
    print(f"{kind} {numbers.start} to {numbers.stop - 1}: {dict(counted)}")


def _parted(page: str) -> tuple[str, dict[str, str]]:
    """The page up to its sections, and the text under the heading of each."""
    texts: dict[str, str] = {}
    for section in reversed(_SECTIONS):
        page, heading, text = page.partition(section.heading)
        if heading:
            texts[section.heading] = text
    return page, dict(reversed(texts.items()))


def _searched(
    drawn: Callable[[random.Random, bool], Problem], enough: int, sums: bool, seed: int, most_sends: int
) -> _Tally:
    draw, tally, reported = random.Random(f"{seed} {sums}"), _Tally(), time.monotonic()
    while tally.searched < enough:
        problem = drawn(draw, sums)
        try:
            program = brute_force.program_before(problem, math.inf, most_sends)
        except brute_force.TooLarge:
            tally.too_large += 1
            continue
        if program is None:  # nobody may copy what several want
            continue
        program.check()
        tally.take(problem, all_bounds(problem), program.makespan_us)
        if time.monotonic() > reported + _PROGRESS_S:
            reported = time.monotonic()
            print(f"{tally.searched} of {enough}, {tally.violations} violations", file=sys.stderr, flush=True)
    return tally


def _collective(problem: Problem) -> str:
    """The name; for custom ones, whether every rank contributes to every sum and wants it."""
    collective = problem.collective
    if collective.name != "custom":
        return collective.name
    if not collective.is_reduction:
        return "custom copies"
    everywhere = collective.reduces.all() and collective.pre.all() and collective.post.all()
    return "allreduce" if everywhere else "custom sums"


_TITLE = "Bounds next to exhaustive search"

_INTRO = """\
Random tiny problems: 2 to 4 ranks, rings with chords, serial and pipelined, plain links, shared ports and
switches, costs that differ and that do not (some 0), one or two nodes, groups of 1, 2 or any number of
chunks, rules on who may use a link; named collectives, and chunks that are copied or summed from some ranks
to some. Every bound of each is held against the fastest of *all* programs that the cost model allows: a rank
may hold several partial sums, send one more than once and to several ranks, and mix partial sums and copies
in a send. The search (`tests/encoding/brute_force.py`) runs forwards in time on the network as it is and
shares no code with engines or bounds. What takes it too long says nothing and is not counted.
{minutes:.0f} minutes in all."""

_INTRO_OF_CLUSTERS = """\
The same for two or three nodes of 1 to 3 ranks each, for the bounds that are about nodes (`staged-cut`,
`relay`): links between nodes share a port of each node, or of some ranks, or none; links inside lack, are
one-way, or are slower than those between nodes; up to five chunks go from some ranks into a node, to all or
some of it, as copies or sums; groups of 1, 2, 3 or any number of chunks; now and then rules on who may use
the links between nodes. {minutes:.0f} minutes in all."""

_INTRO_OF_FEATURES = """\
The same for problems, a third of them small clusters, with unequal chunks, inputs that are there later,
tails, helpers (a rank without data), ranks that may not sum, or, where nothing is summed, not copy. Bounds
relax most of that, so they are further from the optimum. {minutes:.0f} minutes in all."""

_INTRO_OF_HELPERS = """\
The same for two or three ranks below a switch, or linked to each other, with one or two helpers: switches and
servers that sum, copy, do both or neither, in one pass or as two faces, on ports of their own or on those of
the ranks, at speeds of their own; of a face that sums to one rank, a sum passes its way out too. A rank that
may not copy uses each part of a sum once. {minutes:.0f} minutes in all."""

_INTRO_OF_JOINT = """\
The same for two or three collectives at once, each among some of the ranks of a random network or a small
cluster, with chunks of a size of its own; in part ready late, as a whole or input by input, in part with
something after them; now and then made and used at the rates of kernels (`--windows`).
{minutes:.0f} minutes in all."""


@dataclass(frozen=True)
class _Section:
    """Problems of one kind in a section of the page: its option, which part has sums, and who draws them."""

    option: str
    heading: str
    sums: float
    drawn: Callable[[random.Random, bool], Problem]
    intro: str


_SECTIONS = (
    _Section(
        "clusters",
        "\n## Small clusters\n\n",
        1 / 3,
        random_problems.random_cluster_problem,
        _INTRO_OF_CLUSTERS,
    ),
    _Section(
        "features",
        "\n## With features\n\n",
        1 / 2,
        random_problems.random_featured_problem,
        _INTRO_OF_FEATURES,
    ),
    _Section(
        "helpers",
        "\n## With helpers\n\n",
        2 / 3,
        random_problems.random_helped_problem,
        _INTRO_OF_HELPERS,
    ),
    _Section(
        "joint",
        "\n## Several at once\n\n",
        1 / 2,
        random_problems.random_joint_problem,
        _INTRO_OF_JOINT,
    ),
)

_TIGHT = "How tight: the largest bound as a part of the optimum."

_WHICH = "Which bound is the largest, in how many problems; and in how many no other is as large."


def _counts(tallies: dict[str, _Tally]) -> str:
    rows = [
        [name, str(tally.searched), str(tally.too_large), str(tally.violations)]
        for name, tally in tallies.items()
    ]
    return report.table(("problems", "searched to the end", "too large", "bounds above an optimum"), rows)


def _tightness(tallies: dict[str, _Tally]) -> str:
    rows = []
    for name, tally in tallies.items():
        for heading, parts in sorted(tally.tightness.items()):
            met = sum(part >= 1 - _EQUAL for part in parts) / len(parts)
            mean, least = sum(parts) / len(parts), min(parts)
            rows.append([name, heading, str(len(parts)), f"{mean:.3f}", f"{least:.3f}", f"{100 * met:.0f}%"])
    return report.table(("problems", "", "number", "mean", "least", "bound is the optimum"), rows)


def _kinds(tallies: dict[str, _Tally]) -> str:
    rows = [
        [name, kind, str(count), str(tally.alone[kind])]
        for name, tally in tallies.items()
        for kind, count in tally.largest.most_common()
    ]
    return report.table(("problems", "bound", "largest", "alone"), rows)


if __name__ == "__main__":
    main()

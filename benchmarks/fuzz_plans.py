"""What verification says of plans for MSCCL++ against what execution shows, on plans damaged at random.

    python -m benchmarks.fuzz_plans [--mutants N] [--runs N] [--seed N] [--only PLAN] [--page]

A mutant is a right plan with one random change (tests/backend/plan_mutations.py). It is *bad* if the runtime
would refuse it or touch memory that is not meant, or if one of this many random executions, three calls in a
row with ranks drifting apart, is wrong or hangs (tests/backend/plan_machine.py, and a few of `taccl run`'s).
A bad mutant that passes verification is *missed*. What execution shows is kept in
docs/results/fuzz_plans.jsonl, so that several goes fill one page; verification is requested anew each time.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from itertools import starmap
from pathlib import Path

import taccl
from benchmarks import report
from benchmarks.checkout import SHARED, test_helper
from benchmarks.kept import keep_line, kept_lines
from taccl.backend.execute import execute_plan
from taccl.backend.machine.report import Verification
from taccl.backend.mscclpp.reader import read_plan
from taccl.backend.plan import ExecutionPlan, Operation
from taccl.backend.verify.mscclpp import verify_plan
from taccl.errors import TacclError

examples = test_helper("backend", "plan_examples")
machine = test_helper("backend", "plan_machine")
layout = test_helper("backend", "plan_layout")
mutations = test_helper("backend", "plan_mutations")
switches = test_helper("backend", "switch_plans")

#: Real plans, and napkins.
REAL = (
    "dsl-allgather_2",
    "dsl-allgather_hier_2x4",
    "dsl-alltoall_4",
    "dsl-alltoall_pipeline_4",
    "dsl-reducescatter_hier_2x4",
    "dsl-sendrecv_4",
    "napkin-allreduce_2",
    "napkin-relay_3",
    "repo-allreduce_2",
    "repo-allreduce_packet_2",
)
#: By hand, for what no real plan here does: semaphores and barriers, pulls, packets through ports.
BY_HAND = (
    "barrier allreduce",
    "pulling reducescatter",
    "pipelined relay",
    "packet allreduce",
    "packet ports",
)
#: Of `taccl synthesize --target mscclpp`: collective, machine, bytes, chunks, protocol.
OURS = (
    ("allgather", "ring:4", 256, 1, "Simple"),
    ("allreduce", "switch:4", 256, 1, "Simple"),
    ("allreduce", "ring:3", 96, 1, "LL"),
    ("alltoall", "ring:4", 256, 1, "Simple"),
)
#: Sizes of chunks that are executed, in units of 16 bytes.
UNITS = (1, 2, 3)
#: Executions by the executor of `taccl run`, of what passes.
SLOW_RUNS = 2
_PIPELINE_BYTES = 32


@dataclass(frozen=True)
class Base:
    """A right plan under a name, with a digest of its file."""

    name: str
    plan: ExecutionPlan
    digest: str


@dataclass(frozen=True)
class Row:
    """A mutant: of which plan, its number, and what execution showed: `right`, or what not.

    `digest` : of the mutant's file. `runs` : executions until the first that was not right.
    """

    name: str
    number: int
    digest: str
    outcome: str
    runs: int


def main() -> None:
    """Run what is requested and write docs/results/fuzz_plans.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mutants", type=int, default=250, help="of each plan")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="plans with this in their names")
    parser.add_argument("--page", action="store_true", help="only write the page of what is kept")
    arguments = parser.parse_args()
    bases = [base for base in _bases() if arguments.only in base.name]
    rows = {(row.name, row.number, row.digest): row for row in starmap(Row, kept_lines("fuzz_plans"))}
    began = time.process_time()
    for number in range(0 if arguments.page else arguments.mutants):
        for base in bases:
            done, mutant = _mutant(base, arguments.seed, number)
            key = base.name, number, _digest(mutant)
            if key in rows:
                continue
            outcome, runs = seen(mutant, arguments.runs, arguments.seed + number)
            rows[key] = Row(*key, outcome, runs)
            keep_line("fuzz_plans", astuple(rows[key]))
            if outcome != "right" and verify_plan(mutant).ok:
                print(f"MISSED {base.name} {number}, {done}: {outcome}", file=sys.stderr, flush=True)
        if number % 10 == 9:
            print(f"{number + 1} of each, {time.process_time() - began:.0f} s", file=sys.stderr, flush=True)
    _write(bases, rows, arguments)


def _bases() -> list[Base]:
    """The plans to damage; their windows opened, and pipelines cut as small calls need it."""
    plans: dict[str, ExecutionPlan] = {}
    for name in REAL:
        plans[name] = read_plan(SHARED / "mscclpp" / f"{name}.json")
    for name in BY_HAND:
        plans[name] = examples.PLANS[name]
    for collective, topology, size, chunks, protocol in OURS:
        plans[f"taccl-{collective}_{topology}_{protocol}"] = (
            taccl.synthesize(
                collective,
                topology=topology,
                size=size,
                chunks=chunks,
                protocol=protocol,
                effort=300,
                target="mscclpp",
            )
            .files[0]
            .program
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "allreduce.xml")
        result = taccl.synthesize("allreduce", topology="ring:4", size=256, chunks=1, effort=300)
        path.write_text(result.files[0].text)
        plans["converted-allreduce_ring:4_2x2"] = taccl.convert_file(path, ranks_per_node=2).plan
    plans |= switches.switch_plans()
    found = []
    for name, plan in plans.items():
        opened = replace(_small(plan), min_bytes=0, max_bytes=2**18)
        verdict, outcome = verify_plan(opened), seen(opened, 100, 0)[0]
        if not verdict.ok or outcome != "right":
            raise SystemExit(f"{name} is not right to begin with: {outcome}, {verdict.errors[:1]}")
        found.append(Base(name, opened, _digest(opened)))
    return found


def _small(plan: ExecutionPlan) -> ExecutionPlan:
    """The plan with pipelines that take turns in small calls."""

    def changed(operation: Operation) -> Operation:
        if operation.turns is None or operation.turns.unit_bytes <= _PIPELINE_BYTES:
            return operation
        return replace(operation, turns=replace(operation.turns, unit_bytes=_PIPELINE_BYTES))

    return replace(
        plan,
        ranks=tuple(
            replace(
                rank,
                blocks=tuple(
                    replace(block, operations=tuple(map(changed, block.operations))) for block in rank.blocks
                ),
            )
            for rank in plan.ranks
        ),
    )


def _digest(plan: ExecutionPlan) -> str:
    return hashlib.sha256(repr(plan).encode()).hexdigest()[:12]


def _mutant(base: Base, seed: int, number: int) -> tuple[str, ExecutionPlan]:
    """What was done, and the plan; drawn again until it differs from the base."""
    dice = random.Random(f"{seed}/{base.name}/{number}")
    while True:
        done, mutant = mutations.mutate(dice, base.plan)
        if mutant != base.plan:
            return done, mutant


def seen(plan: ExecutionPlan, runs: int, seed: int) -> tuple[str, int]:
    """What random executions come to: `right`, or the first thing that is not, and after how many."""
    made, refused = [], "size"
    for times in UNITS:
        units = times * max(1, plan.alignment // 16)
        try:
            made.append(machine.Machine.of(plan, units))
        except layout.CannotRun as error:
            if str(error) != "size":
                return f"refused: {error}", 0
            refused = str(error)
    if not made:
        return f"refused: {refused}", 0
    done = 0
    for share in (20, 1):  # first a few at each size
        for one in made:
            number = max(1, runs // share // len(made))
            outcome, which = one.runs(number, seed + share)
            if outcome != "right":
                return outcome, done + which + 1
            done += number
    for number in range(SLOW_RUNS):
        try:
            verdict = execute_plan(plan, size_bytes=2 * 16 * plan.message_chunks, seed=seed + number).verdict
        except (TacclError, IndexError):
            break  # what it refuses, verification tells; numbers that lead nowhere it is never given
        if verdict in ("wrong", "hangs"):
            return f"{verdict} (taccl run)", done + number + 1
    return "right", done + SLOW_RUNS


def _judged(
    bases: list[Base], rows: dict[tuple[str, int, str], Row], arguments: argparse.Namespace
) -> Iterator[tuple[str, str, str, Row, Verification]]:
    """Per mutant that was executed its plan, what was done, kind, what was seen, and what is said of it."""
    for base in bases:
        for number in range(arguments.mutants):
            done, mutant = _mutant(base, arguments.seed, number)
            row = rows.get((base.name, number, _digest(mutant)))
            if row is not None:
                yield base.name, done, done.split(":")[0], row, verify_plan(mutant)


def _write(bases: list[Base], rows: dict[tuple[str, int, str], Row], arguments: argparse.Namespace) -> None:
    columns = ("mutants", "bad", "missed", "passed", "flagged")
    by_kind: dict[str, Counter[str]] = {}
    by_plan: dict[str, Counter[str]] = {}
    alarms: dict[str, list[str]] = {}
    bad_as: Counter[str] = Counter()
    executions = 0
    for name, done, kind, row, verdict in _judged(bases, rows, arguments):
        bad, ok = row.outcome != "right", verdict.ok
        word = ("missed" if ok else "caught") if bad else ("passed" if ok else "flagged")
        for counts in (by_kind.setdefault(kind, Counter()), by_plan.setdefault(name, Counter())):
            counts["mutants"] += 1
            counts["bad"] += bad
            counts[word] += 1
        executions += row.runs
        if bad:
            bad_as[row.outcome.split(":")[0].split(" ")[0]] += 1
        if word == "flagged":
            alarms.setdefault(verdict.errors[0].rule, []).append(f"{name} {row.number}, {done}")
        if word == "missed":
            print(f"MISSED {name} {row.number}, {done}: {row.outcome} {row.runs}", file=sys.stderr)
    for rule, cases in sorted(alarms.items()):
        print(rule, len(cases), *(f"\n    {case}" for case in cases[:6]), file=sys.stderr)
    tables = []
    for header, table in (("change", by_kind), ("plan", by_plan)):
        total: Counter[str] = sum(table.values(), Counter())
        body = [[key, *(str(counts[each]) for each in columns)] for key, counts in sorted(table.items())]
        body.append(["**all**", *(f"**{total[each]}**" for each in columns)])
        names = (header, "mutants", "bad", "of these missed", "right, passed", "never seen wrong, refused")
        tables.append(report.table(names, body))
    reported = [
        [f"`{rule}`", str(len(cases)), REASONS.get(rule, "-")]
        for rule, cases in sorted(alarms.items(), key=lambda each: -len(each[1]))
    ]
    tables.insert(
        0, report.table(("first finding", "refused", "why execution here does not show it"), reported)
    )
    routes = ", ".join(f"{count} {word}" for word, count in bad_as.most_common())
    sizes = ", ".join(str(16 * each) for each in UNITS)
    intro = (
        f"Right plans ({len(by_plan)}) with one random change each, judged by verification and by "
        f"{executions} random executions in all: up to {arguments.runs} of each mutant, three calls in a row "
        f"with ranks drifting apart, at chunks of {sizes} bytes. *Bad*: an execution was wrong or hung, or "
        f"the runtime would refuse it or touch memory that is not meant ({routes}). *Missed*: bad, and "
        "passed by verification; must be 0. Windows of sizes are opened to 0 .. 256 KB, and pipelines cut to "
        f"{_PIPELINE_BYTES} bytes a turn, so that small calls do all that large ones do.\n\n"
        "Refused, though no execution was wrong, by the first finding:"
    )
    report.write("fuzz_plans", "Verification of plans against execution", intro, "\n\n".join(tables))


#: Why an execution on a CPU does not show what verification refuses, by rule.
REASONS: dict[str, str] = {
    "alignment": "tails of sums and packets are addressed wrongly by the kernel",
    "before-start": "a peer's buffer is read before its kernel runs, and what was read is not used",
    "block-channel": "a block lists a channel that its rank lacks; its packets need none, setting up does",
    "channel-number": "the kernel reads past the block's channels",
    "channel-peer": "a channel to itself or to nobody cannot be set up",
    "channel-type": "an operation that silently does nothing, where nothing was needed",
    "double-scratch": "own and remote scratch are shifted unlike from the second call on",
    "ignored-field": "the runtime takes fields for what they are not",
    "in-place-addressing": "the runtime takes this rank's offset for its peer's",
    "message-size": "a size below 0, which the runtime reads as a 32-bit number without a word",
    "mixed-scratch": "packets and chunks lie on each other, and neither is needed afterwards",
    "nameless-channel": "one end of a channel has no name",
    "offset-range": "offsets of 32 bits wrap in calls larger than are executed here",
    "operand-bounds": "what lies beyond is in the same allocation here, or no turn comes so far",
    "operand-count": "operands that are missing are read as zeros, and zeros name what is meant here",
    "operand-kind": "the kernel takes a peer's buffer number for an offset of its own memory, or the reverse",
    "outstanding-at-end": "a write that may come when the owner's kernel has ended, of what is there already",
    "overlapping-fields": "two fields overwrite each other in the runtime's memory",
    "packet-slot-twice": "a reader may take either packet",
    "packets-outside-scratch": "packets of twice the size lie in an output that is written over later",
    "pipeline-turns": "turns are counted to 65535, which calls as small as here do not reach",
    "port-target-owner": "a channel that leads to another rank than the target",
    "race": "two writes without order that write the same, or one that is written again in time",
    "remote-buffer": "memory that cannot be registered when channels are set up",
    "reused-buffer": "later calls have other buffers, and peers keep writing into those of the first",
    "reused-scratch": "larger calls than are executed here have no room",
    "shared-channel-end": "which of two waits a signal is for is open, and either way was right",
    "shared-semaphore": "two blocks that acquire one semaphore may both miss a release",
    "share-too-fine": "the runtime cuts fewer units than parts wrongly",
    "switch-group": "members that list other channels bind other memory, or hang, when those are set up",
    "thread-count": "not whole warps: a launch that fails, or threads that never meet",
    "unequal-releases": "later calls than are executed here go on too early, or hang",
    "unequal-signals": "later calls than are executed here go on too early, or hang",
    "uneven-operands": "parts of ranges of unlike lengths begin at unlike places",
    "wait-without-end": "nobody can signal there",
}


if __name__ == "__main__":
    main()

"""What verification says against what execution shows, on random programs, whole and damaged.

    python -m benchmarks.fuzz_verify [--cases N] [--mutants N] [--trains N] [--orders N] [--seed N]

Whole: a random collective on a random small network, synthesized by the greedy engine and lowered, must
pass the schedule's check and verification, and be right in every execution. Damaged: one random change
(tests/backend/mutations.py) to such a program, or to a real file of tests/data/xml. A mutant is *bad*
if an execution in some random order, in a mode in which its runtimes call it, gives a wrong result or hangs;
a bad mutant that passes verification is *missed*. Trains: random programs in which groups of chunks travel
through fused steps and return to where they may still be read (fuzzing.random_train), right or wrong by luck.
Executions move int64, and cut data into as many pieces as the largest call that the program serves would be.
"""

from __future__ import annotations

import argparse
import random
import sys
import textwrap
import time
from collections import Counter
from dataclasses import replace

from benchmarks import report
from benchmarks.checkout import DATA, test_helper
from taccl.backend.msccl_xml import read_xml, to_xml
from taccl.backend.program import Op, Program
from taccl.backend.verify.msccl_xml import verify_program, verify_text

fuzzing = test_helper("backend", "fuzzing")
mutations = test_helper("backend", "mutations")

#: Right files of tests/data/xml that are small enough to be run thousands of times.
FILES = (
    "mscclang-allgather_recursive_doubling_8",
    "mscclang-allreduce_a100_ring_8",
    "rccl-alltoall-8n-0-9kb",
    "sched-ncv4-ag_hier_4_LL",
)
HEADER = (
    "change",
    "mutants",
    "bad by execution",
    "of these caught",
    "missed",
    "harmless, passed",
    "flagged, never seen wrong",
)


def main() -> None:
    """Run the study and write docs/results/fuzz_verify.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--mutants", type=int, default=20)
    parser.add_argument("--trains", type=int, default=300)
    parser.add_argument("--orders", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    study = Study(random.Random(arguments.seed), arguments.mutants, arguments.orders)
    began = time.monotonic()
    for _ in range(arguments.cases):
        study.random_case()
    for name in FILES:
        study.real_file(name)
    for _ in range(arguments.trains):
        study.train()
    for line in study.faults:
        print(line, file=sys.stderr)
    _write(study, arguments, time.monotonic() - began)


class Study:
    """Counts, as the cases go by."""

    def __init__(self, dice: random.Random, mutants: int, orders: int) -> None:
        self.dice, self.mutants, self.orders = dice, mutants, orders
        self.whole: Counter[str] = Counter()
        self.damaged: dict[str, Counter[str]] = {}
        self.only_flagged: Counter[str] = Counter()
        self.faults: list[str] = []

    def random_case(self) -> None:
        """One random collective on one random network, and mutants of one of its programs."""
        schedule, programs = fuzzing.random_programs(self.dice)
        schedule.check()
        collective = schedule.problem.collective
        self.whole["schedules"] += 1
        for lowered in programs:
            verdict = verify_text(to_xml(lowered.program), targets=lowered.readers)
            self._whole(lowered.program, verdict.ok, lowered.readers, collective.root, repr(collective))
        chosen = self.dice.choice(programs)
        self._mutants(chosen.program, chosen.readers, collective.root, repr(collective), self.mutants)

    def real_file(self, name: str) -> None:
        """A file that others made, and more mutants of it."""
        program = read_xml(DATA / "xml" / f"{name}.xml")
        program = replace(program, max_bytes=min(program.max_bytes, 2**20))
        self._whole(program, verify_program(program, targets="msccl").ok, ("msccl",), None, name)
        self._mutants(program, ("msccl",), None, name, 10 * self.mutants)

    def train(self) -> None:
        """A program with fused steps of several chunks, as it is."""
        program = fuzzing.random_train(self.dice)
        self._judge("(trains of fused steps)", "a train", program, ("executor",), None)

    def _whole(
        self, program: Program, passes: bool, readers: tuple[str, ...], root: int | None, name: str
    ) -> None:
        seen = self._seen(program, readers, root)
        self.whole["programs"] += 1
        self.whole["verified"] += passes
        self.whole["right"] += seen == {"right"}
        if not passes or seen != {"right"}:
            self.faults.append(f"{name}: verified {passes}, seen {sorted(seen)}")

    def _mutants(
        self, program: Program, readers: tuple[str, ...], root: int | None, name: str, number: int
    ) -> None:
        for _ in range(number):
            done, mutant = mutations.mutate(self.dice, program)
            self._judge(_kind(done, program), f"{done} of {name}", mutant, readers, root)

    def _judge(
        self, kind: str, name: str, program: Program, readers: tuple[str, ...], root: int | None
    ) -> None:
        """Count what verification says of a program against what its executions show."""
        verdict = verify_program(program, targets=readers, root=root)
        seen = self._seen(program, readers, root)
        bad = seen != {"right"}
        counts = self.damaged.setdefault(kind, Counter())
        counts["mutants"] += 1
        counts["bad"] += bad
        counts["caught"] += bad and not verdict.ok
        counts["missed"] += bad and verdict.ok
        counts["passed"] += not bad and verdict.ok
        counts["flagged"] += not bad and not verdict.ok
        if bad and verdict.ok:
            self.faults.append(f"MISSED {name}: {sorted(seen)}")
        if not bad and not verdict.ok:
            self.only_flagged[f"{verdict.errors[0].layer}: {verdict.errors[0].rule}"] += 1

    def _seen(self, program: Program, readers: tuple[str, ...], root: int | None) -> set[str]:
        seed = self.dice.randrange(2**31)
        seen: set[str] = fuzzing.outcomes(program, self.orders, seed, readers, root)
        return seen


def _kind(done: str, program: Program) -> str:
    """The change, without where it was made; duplicating a reduction stands by itself."""
    kind, place = done.split(" at ", 1)
    if kind == "duplicate a step":
        rank, block, step = (int(word.split()[-1]) for word in place.split(", "))
        blocks = {each.id: each for each in program.ranks[rank].thread_blocks}
        if blocks[block].steps[step].op in (Op.REDUCE, Op.RECV_REDUCE_COPY, Op.RECV_REDUCE_COPY_SEND):
            return "duplicate a reduction"
    return kind


def _write(study: Study, arguments: argparse.Namespace, seconds: float) -> None:
    columns = ("mutants", "bad", "caught", "missed", "passed", "flagged")
    total: Counter[str] = sum(study.damaged.values(), Counter())
    rows = [
        [kind, *(str(counts[column]) for column in columns)] for kind, counts in sorted(study.damaged.items())
    ]
    rows.append(["**all**", *(f"**{total[column]}**" for column in columns)])
    whole = study.whole
    flagged = ", ".join(f"{rule} {number}" for rule, number in study.only_flagged.most_common())
    about = (
        f"Whole programs: {whole['schedules']} random schedules by the greedy engine, all valid; of the "
        f"{whole['programs']} programs ({len(FILES)} real files, the others lowered from these schedules), "
        f"{whole['verified']} verified, {whole['right']} right in every execution. Each program and each "
        f"mutant ran in {arguments.orders} random orders in each mode in which its runtimes call it, or "
        "fewer if one was wrong. *Trains* are no mutants: random programs in which groups of chunks travel "
        "through fused steps and return to where they may still be read."
    )
    words = (
        "*Bad*: some execution was wrong or hung. *Missed*: bad, and passed by verify; must be 0. "
        "*Flagged, never seen wrong*: verify refuses what no execution showed to be wrong. By the first "
        f"finding: {flagged}. These are races that need an order that did not come up, and what only a real "
        "runtime trips over, such as an end of a connection that nobody uses, a mode that no call has, or "
        "the threads of a block under LL, which are in no order where an execution moves whole pieces. "
        f"{seconds:.0f} s in all."
    )
    intro = "\n\n".join(textwrap.fill(paragraph, 120, break_on_hyphens=False) for paragraph in (about, words))
    report.write("fuzz_verify", "Verification against execution", intro, report.table(HEADER, rows))


if __name__ == "__main__":
    main()

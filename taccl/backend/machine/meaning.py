"""Whether what was computed is the collective: what outputs hold after every call, and should hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from taccl.backend.machine.acts import Machine
from taccl.backend.machine.contents import Contents
from taccl.backend.machine.expected import NOWHERE, Expectation, Value
from taccl.backend.machine.layout import OUTPUT
from taccl.backend.machine.report import FINDINGS_PER_RULE, Collector, Finding, Severity
from taccl.backend.machine.values import describe, named_ranks
from taccl.model.collective import BoolArray, IntArray

Seen = set[tuple[object, ...]]


def check_meaning(
    machine: Machine,
    contents: Contents,
    expectation: Expectation | None,
    seen: Seen,
    collector: Collector,
    runtimes: tuple[str, ...] = (),
) -> Literal["right", "wrong", "not checked"]:
    """Findings for wrong outputs, changed inputs and reads of nothing; and the verdict.

    Parameters
    ----------
    expectation : what the outputs should hold; None: nobody knows.
    seen : what was reported already, at another size of call; added to.
    runtimes : those that the findings concern; none for all.
    """
    said = _Teller(machine, contents, seen, collector, runtimes)
    wrong = said.changed_inputs() + said.packets_twice()
    if expectation is not None:
        for call in range(len(contents.outputs)):
            wrong += said.wrong_outputs(expectation, call)
    said.unwritten_reads(is_error=wrong > 0 and contents.values.any_tainted(contents.cells))
    if wrong:
        return "wrong"
    return "right" if expectation is not None and contents.outputs else "not checked"


def closest(machine: Machine, contents: Contents, alternatives: Sequence[Expectation]) -> Expectation | None:
    """Of what may be meant, that of which most is right after the first call."""
    if len(alternatives) < 2 or not contents.outputs:
        return next(iter(alternatives), None)
    return min(alternatives, key=lambda expectation: len(_wrong(machine, contents, expectation, 0)[0]))


def _wrong(
    machine: Machine, contents: Contents, expectation: Expectation, call: int
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """The wrong pieces after a call: rows of the expectation, cells of the rank's output, values, writers."""
    pieces = len(machine.layout.cuts)
    row = np.repeat(np.arange(len(expectation.wanted_rank)), pieces)
    rank = expectation.wanted_rank[row]
    cell = expectation.wanted_offset[row] * pieces + np.arange(len(row)) % pieces
    outputs = contents.outputs[call]
    sizes = np.array([len(output.values) for output in outputs])
    at = (np.cumsum(sizes) - sizes)[rank] + cell
    values = np.concatenate([output.values for output in outputs])[at]
    found = contents.values.equal_numbers(values)
    differs: BoolArray = np.ones(len(row), dtype=np.bool_)
    for k in range(max(map(len, expectation.values), default=0)):
        numbers = [
            contents.values.canonical(_in_call(some[min(k, len(some) - 1)], call, len(outputs)))
            for some in expectation.values
        ]
        differs &= found != np.array(numbers, dtype=np.int64)[expectation.wanted_value[row]]
    wrong = np.flatnonzero(differs)
    writer = np.concatenate([output.writer for output in outputs])[at[wrong]]
    return row[wrong], cell[wrong], values[wrong], writer


def _in_call(value: Value, call: int, num_ranks: int) -> Value:
    """A value of the first call, as contributions of a later one."""
    shift = call * num_ranks
    return (
        tuple((offset, ranks << shift, twice << shift) for offset, ranks, twice in value) if shift else value
    )


class _Teller:
    """Says what is wrong, once per place."""

    def __init__(
        self,
        machine: Machine,
        contents: Contents,
        seen: Seen,
        collector: Collector,
        runtimes: tuple[str, ...],
    ) -> None:
        self.machine, self.contents, self.names = machine, contents, machine.names
        self.seen, self.collector, self.runtimes = seen, collector, runtimes
        self.mode = machine.layout.mode

    def wrong_outputs(self, expectation: Expectation, call: int) -> int:
        """Findings for the outputs of one call, and how many pieces are wrong."""
        layout, pieces = self.machine.layout, len(self.machine.layout.cuts)
        rows, cells, values, writers = _wrong(self.machine, self.contents, expectation, call)
        after = f"after call {call + 1} " if len(self.contents.outputs) > 1 else ""
        reported = 0
        for row, cell, value, writer in zip(rows.tolist(), cells.tolist(), values, writers, strict=True):
            if reported == FINDINGS_PER_RULE:
                break
            rank = int(expectation.wanted_rank[row])
            key = ("wrong-result", self.mode, rank, cell // pieces)
            if key in self.seen:
                continue
            self.seen.add(key)
            reported += 1
            wanted = expectation.values[expectation.wanted_value[row]][0]
            message = (
                f"{self.mode}, {after}{layout.name(int(layout.base[rank, OUTPUT]) + cell)} should hold "
                f"{describe(wanted)}, but {self._compare(wanted, int(value), call)}"
            )
            self._tell_output(message, rank, int(writer))
        if reported == FINDINGS_PER_RULE and not call:
            more = Finding("meaning", "error", "wrong-result", "", runtimes=self.runtimes)
            self.collector.add_more(more, len(np.unique(rows)) - reported)
        return len(rows)

    def _tell_output(self, message: str, rank: int, writer: int) -> None:
        finding = Finding("meaning", "error", "wrong-result", message, rank=rank, runtimes=self.runtimes)
        if writer >= 0:
            last = f"{message}; it was last written by {self.names.act(writer)}"
            finding = Finding("meaning", "error", "wrong-result", last, runtimes=self.runtimes)
            finding = finding.at(self.names.location(writer))
        self.collector.add(finding)

    def _compare(self, wanted: Value, number: int, call: int) -> str:
        """What is wrong, said by the difference where that is short, and what is of other calls as such."""
        value, num_ranks = self.contents.values[number], len(self.machine.layout.chunks)
        everyone, shift = (1 << num_ranks) - 1, call * num_ranks
        now: list[tuple[int, int, int]] = []
        before = []
        for offset, ranks, twice in value:
            if offset == NOWHERE:
                now.append((offset, ranks, twice))
                continue
            mine = ranks >> shift & everyone
            if mine:
                now.append((offset, mine, twice >> shift & everyone))
            old = ranks & ~(everyone << shift)
            if old:
                members = sum({1 << (bit % num_ranks) for bit in range(old.bit_length()) if old >> bit & 1})
                before.append(f"input chunk {offset} of {named_ranks(members)} from an earlier call")
        if not before and (short := _difference(wanted, tuple(now))):
            return short
        said = [describe(tuple(now))] if now else []
        return "holds " + " and ".join(said + before)

    def changed_inputs(self) -> int:
        """Out of place, a caller's input stays as it is."""
        return self._all(
            self.contents.changed_inputs,
            "input-changed",
            "out of place, this changes {}, and a caller's input must not change",
            "write to scratch or to the output, or let it serve calls in place only",
        )

    def packets_twice(self) -> int:
        """A reader takes whichever packet of this call it finds."""
        return self._all(
            self.contents.twice,
            "packet-slot-twice",
            "this writes {}, where this call has put other packets already: a reader may take either",
            "use another place of scratch",
        )

    def unwritten_reads(self, is_error: bool) -> None:
        """Errors if what was read may have got into a wrong result, else warnings."""
        self._all(
            self.contents.unwritten,
            "unwritten-read",
            f"{self.mode}, this reads {{}} before anything was written there",
            "write it first, and wait for that",
            "error" if is_error else "warning",
        )

    def _all(self, notes: IntArray, rule: str, message: str, hint: str, severity: Severity = "error") -> int:
        """One finding per operation."""
        for act, cell in notes.tolist():
            key = (rule, self.mode, *self.names.place(act))
            if key not in self.seen:
                self.seen.add(key)
                said = f": {message.format(self.machine.layout.name(cell))}"
                self.collector.add(
                    self.names.finding(act, rule, said, hint, severity, "meaning", self.runtimes)
                )
        return len(notes)


def _difference(wanted: Value, found: Value) -> str:
    """What lacks or is too much in a sum of the same chunks; empty where that says it badly."""
    if not (len(wanted) == len(found) == 1 and wanted[0][0] == found[0][0]):
        return ""
    ranks, seen, twice = wanted[0][1], found[0][1], found[0][2]
    is_sum = ranks & (ranks - 1)
    missing, extra = ranks & ~seen, seen & ~ranks
    said = []
    if is_sum and missing:
        said.append(f"lacks that of {named_ranks(missing)}")
    if is_sum and extra:
        said.append(f"also has that of {named_ranks(extra)}")
    if twice:
        said.append(f"has that of {named_ranks(twice)} more than once")
    return " and ".join(said)

"""Whether a plan computes its collective: what its outputs hold after every call, and should hold."""

from __future__ import annotations

from typing import Literal

import numpy as np

from taccl.backend.machine.expected import NOWHERE, Expectation, Value
from taccl.backend.machine.report import Collector, Finding
from taccl.backend.machine.values import describe, named_ranks
from taccl.backend.verify.mscclpp.acts import Unfolded
from taccl.backend.verify.mscclpp.execution import Trace
from taccl.backend.verify.mscclpp.wanted import Wanted
from taccl.model.collective import BoolArray

Seen = set[tuple[object, ...]]
#: This many wrong pieces of a rank are put into words; a report shows fewer.
_REPORTED = 100


def check_meaning(
    unfolded: Unfolded, trace: Trace, wanted: Wanted, seen: Seen, collector: Collector
) -> tuple[Literal["right", "wrong", "not checked"], int | None]:
    """Findings for wrong outputs, changed inputs and reads of nothing; the verdict, and the root.

    Parameters
    ----------
    seen : what was reported already, at another size of call; added to.
    """
    said = _Teller(unfolded, trace, seen, collector)
    wrong = said.changed_inputs() + said.packets_twice()
    root = None
    if wanted.alternatives and trace.outputs:
        some = _closest(unfolded, trace, wanted)
        root = some.root
        for call in range(len(trace.outputs)):
            wrong += said.wrong_outputs(some, call)
    said.unwritten_reads(is_error=wrong > 0)
    if wrong:
        return "wrong", root
    return ("right" if wanted.alternatives and trace.outputs else "not checked"), root


def _closest(unfolded: Unfolded, trace: Trace, wanted: Wanted) -> Expectation:
    """Of what it may compute, that of which most is right in the first call."""
    if len(wanted.alternatives) == 1:
        return wanted.alternatives[0]
    return min(
        wanted.alternatives,
        key=lambda each: sum(len(_wrong(unfolded, trace, each, 0, rank)) for rank in _ranks(each)),
    )


def _ranks(expectation: Expectation) -> list[int]:
    ranks: list[int] = np.unique(expectation.wanted_rank).tolist()
    return ranks


def _wrong(
    unfolded: Unfolded, trace: Trace, expectation: Expectation, call: int, rank: int
) -> list[tuple[int, int]]:
    """Pieces of a rank's output that are wrong after a call, each with its row in the expectation."""
    pieces = len(unfolded.layout.cuts)
    rows = np.flatnonzero(expectation.wanted_rank == rank)
    cells = (expectation.wanted_offset[rows][:, None] * pieces + np.arange(pieces)).ravel()
    found = trace.outputs[call][rank][0][cells]
    differs: BoolArray = np.ones(len(found), dtype=np.bool_)
    values = [expectation.values[each] for each in expectation.wanted_value[rows].tolist()]
    for k in range(max((len(value) for value in values), default=0)):
        numbers = [
            trace.contents.values.number(_in_call(value[min(k, len(value) - 1)], call, unfolded))
            for value in values
        ]
        differs &= found != np.repeat(np.array(numbers, dtype=np.int64), pieces)
    wrong = np.flatnonzero(differs)
    return list(zip(cells[wrong].tolist(), rows[wrong // pieces].tolist(), strict=True))


def _in_call(value: Value, call: int, unfolded: Unfolded) -> Value:
    """A value of the first call, as contributions of a later one."""
    shift = call * len(unfolded.plan.ranks)
    return tuple((offset, ranks << shift, twice << shift) for offset, ranks, twice in value)


class _Teller:
    """Says what is wrong, once per place."""

    def __init__(self, unfolded: Unfolded, trace: Trace, seen: Seen, collector: Collector) -> None:
        self.unfolded, self.trace = unfolded, trace
        self.seen, self.collector = seen, collector
        self.mode = "in place" if unfolded.layout.in_place else "out of place"

    def wrong_outputs(self, expectation: Expectation, call: int) -> int:
        """Findings for the outputs of one call, and how many pieces are wrong."""
        wrong = 0
        for rank in _ranks(expectation):
            values, writers = self.trace.outputs[call][rank]
            found = _wrong(self.unfolded, self.trace, expectation, call, rank)
            wrong += len(found)
            for cell, row in found[:_REPORTED]:
                chunk = cell // len(self.unfolded.layout.cuts)
                if ("wrong-result", rank, chunk) in self.seen:
                    continue
                self.seen.add(("wrong-result", rank, chunk))
                wanted = expectation.values[expectation.wanted_value[row]][0]
                place = self.unfolded.layout.name(int(self.unfolded.layout.base[rank, 1]) + cell)
                message = (
                    f"{self.mode}, after call {call + 1} {place} should hold "
                    f"{describe(wanted)}, but holds {self._held(int(values[cell]), call)}"
                )
                self._tell(message, rank, int(writers[cell]))
        return wrong

    def _held(self, number: int, call: int) -> str:
        """A value in words, what is of other calls distinguished."""
        value = self.trace.contents.values[number]
        num_ranks = len(self.unfolded.plan.ranks)
        everyone = (1 << num_ranks) - 1
        now, before = [], []
        for offset, ranks, twice in value:
            if offset == NOWHERE:
                now.append((offset, ranks, twice))
                continue
            mine = ranks >> call * num_ranks & everyone
            if mine:
                now.append((offset, mine, twice >> call * num_ranks & everyone))
            old = ranks & ~(everyone << call * num_ranks)
            if old:
                members = sum({1 << (bit % num_ranks) for bit in range(old.bit_length()) if old >> bit & 1})
                before.append(f"input chunk {offset} of {named_ranks(members)} from an earlier call")
        said = [describe(tuple(now))] if now else []
        return " and ".join(said + before)

    def _tell(self, message: str, rank: int, writer: int) -> None:
        actor = self.trace.record.actors[writer] if writer >= 0 else None
        if actor is None or actor.act is None:
            self.collector.add(Finding("meaning", "error", "wrong-result", message, rank=rank))
            return
        message += f"; it was last written by {self.unfolded.place(actor.block, actor.act)}"
        number = self.unfolded.blocks[actor.block][1]
        self.collector.add(
            Finding("meaning", "error", "wrong-result", message, actor.rank, number, actor.act.step)
        )

    def changed_inputs(self) -> int:
        """Out of place, a caller's input stays as it is."""
        return self._each(
            self.trace.contents.changed_inputs,
            "input-changed",
            "out of place, this changes {}, and a caller's input must not change",
            "write to scratch or to the output, or make it a plan for calls in place",
        )

    def packets_twice(self) -> int:
        """A reader takes whichever packet of this call it finds."""
        return self._each(
            self.trace.contents.twice,
            "packet-slot-twice",
            "writes {}, where this call has put other packets already: a reader may take either",
            "use another place of scratch",
        )

    def unwritten_reads(self, is_error: bool) -> None:
        """Errors if what was read may have got into a wrong result, else warnings."""
        self._each(
            self.trace.contents.unwritten,
            "unwritten-read",
            f"{self.mode}, this reads {{}} before anything was written there",
            "write it first, and wait for that",
            is_error,
        )

    def _each(
        self, notes: list[tuple[int, int]], rule: str, message: str, hint: str, is_error: bool = True
    ) -> int:
        for number, cell in notes:
            actor = self.trace.record.actors[number]
            if actor.act is None or (rule, actor.block, actor.act.step, actor.act.inner) in self.seen:
                continue
            self.seen.add((rule, actor.block, actor.act.step, actor.act.inner))
            said = message.format(self.unfolded.layout.name(cell))
            severity: Literal["error", "warning"] = "error" if is_error else "warning"
            self.collector.add(
                self.unfolded.finding(actor.block, actor.act, rule, f": {said}", hint, severity, "meaning")
            )
        return len(notes)

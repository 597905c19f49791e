"""Right plans in styles that no file available has, each with a twin that lacks one thing.

Two ranks do the same: `{me}` and `{you}` are their numbers; remote buffers 0, 1 and 2 are the peer's o, i and
s; channels m0, m1, p0 and p1 lead to the peer.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from plan_examples import CLOSE, HANDSHAKE, Lines, plan, rank
from plan_machine import Machine, run_many

from taccl.backend.plan import ExecutionPlan
from taccl.backend.verify.mscclpp import verify_plan

#: As it stands: compiling it takes longer than some runs.
RUN = run_many.py_func
RELAXED_CLOSE = "nop\nrlxsignal m0\nrlxwait m0"
BODY = "put m i0 > R0:{me}\ncopy i0 > o{me}\n"
GO_THROUGH_PORTS = "signal p0\nwait p0\nnop\n"
LL = {"protocol": "LL", "double_scratch": True}


@dataclass(frozen=True)
class Style:
    """A plan as the text of its blocks (between `---`), what to replace in it, and which rule tells that."""

    collective: str
    chunks: tuple[int, int, int]
    text: str
    twin: tuple[str, str]
    rule: str
    fields: dict[str, Any] = field(default_factory=dict)
    semaphores: tuple[int, ...] = ()

    def build(self, damaged: bool = False) -> ExecutionPlan:
        text = self.text
        if damaged:
            assert self.twin[0] in text
            text = text.replace(*self.twin, 1)
        ranks = []
        for r in range(2):
            # Blocks after the first use channels of their own.
            blocks = [
                Lines(each.format(me=r, you=1 - r), (2 * k, 2 * k + 1), (2 * k, 2 * k + 1))
                for k, each in enumerate(text.split("---\n"))
            ]
            ends = (1 - r,) * (2 * len(blocks))
            letters = "ois" if self.chunks[2] else "oi"
            remotes = tuple((1 - r, letter, "mp") for letter in letters)
            ranks.append(
                rank(
                    r,
                    self.chunks,
                    blocks,
                    memory=ends,
                    port=ends,
                    remotes=remotes,
                    semaphores=self.semaphores,
                )
            )
        return plan(self.collective, ranks, **self.fields)


GATHER, SUM = ("allgather", (1, 2, 0)), ("allreduce", (2, 2, 3))
STYLES = {
    "signals that speak of no data": Style(
        *GATHER,
        "signal m1\nwait m1\n" + HANDSHAKE + BODY + CLOSE,
        ("wait m1\n", ""),
        "unread-signal",
    ),
    "a barrier of one block as a nop": Style(
        *GATHER,
        HANDSHAKE.replace("nop", "barrier bar=15/1") + BODY + CLOSE,
        ("barrier bar=15/1\n", ""),
        "before-start",
    ),
    "a barrier of two of three blocks": Style(
        "allgather",
        (1, 2, 1),
        HANDSHAKE + "copy i0 > s0\nbarrier bar=7/2\n" + CLOSE + "---\nbarrier bar=7/2\ncopy s0 > o{me}\n---\n"
        "rlxsignal m0\nrlxwait m0\nnop\nput m i0 > R0:{me}\n" + CLOSE,
        ("---\nbarrier bar=7/2", "---\nbarrier bar=6/1"),
        "barrier-members",
    ),
    "a barrier of two, where a third block only meets itself": Style(
        "allgather",
        (1, 2, 1),
        HANDSHAKE + "copy i0 > s0\nbarrier bar=7/2\n" + CLOSE + "---\nbarrier bar=7/2\ncopy s0 > o{me}\n---\n"
        "rlxsignal m0\nrlxwait m0\nbarrier bar=7/1\nput m i0 > R0:{me}\n" + CLOSE,
        ("---\nbarrier bar=7/2", "---\nbarrier bar=7/1"),
        "barrier-members",
    ),
    "a get of what lies at the same place": Style(
        *GATHER,
        HANDSHAKE + "get m R0:{you} > o{you}\n" + RELAXED_CLOSE,
        (RELAXED_CLOSE, "nop"),
        "outstanding-at-end",
        {"in_place": True},
    ),
    "a sum of what the peer has, stored at both": Style(
        "allreduce",
        (2, 2, 0),
        HANDSHAKE + "rres m i{me} R1:{me} > o{me} R0:{me}\n" + CLOSE,
        (HANDSHAKE, "nop\n"),
        "before-start",
    ),
    "a sum that is kept in scratch and sent on": Style(
        *SUM,
        HANDSHAKE + "put m i{you} > R2:0\nnop\nsignal m0\nwait m0\nnop\nres m i{me} s0 > s1 R0:{me}\n"
        "copy s1 > o{me}\n" + CLOSE,
        ("wait m0\nnop\nres", "wait m0\nres"),
        "race",
    ),
    "three blocks that share a range": Style(
        *GATHER,
        "---\n".join(
            HANDSHAKE + f"put m i0 > R0:{{me}} share={k}/3\ncopy i0 > o{{me}} share={k}/3\n" + CLOSE
            for k in range(3)
        ),
        ("share=1/3", "share=0/3"),
        "wrong-result",
    ),
    "two channels to one peer, in lanes": Style(
        *GATHER,
        "rlxsignal m0,1\nrlxwait m0,1\nnop\n" + BODY + "nop\nsignal m1,0\nwait m1,0",
        ("signal m1,0", "signal m0"),
        "unequal-signals",
    ),
    "data by memory, signals by port": Style(
        *GATHER,
        GO_THROUGH_PORTS + BODY + "nop\nsignal p1\nwait p1",
        ("nop\nsignal p1", "signal p1"),
        "outstanding-at-end",
    ),
    "a flush that names targets": Style(
        "allgather",
        (1, 2, 1),
        "copy i0 > s0\n" + GO_THROUGH_PORTS + "put p0 s0 > R0:{me}\nsignal p0\nflush p0 > R0:{me}\nnop\n"
        "copy i0 > s0\ncopy i0 > o{me}\nwait p0",
        ("flush p0 > R0:{me}\n", "flush p0\n"),
        "race",
    ),
    "packets that are forwarded": Style(
        "allgather",
        (1, 2, 2),
        "cpkt i0 > s0\nrppkt m s0 > R2:1\nupkt s1 > o{you}\ncopy i0 > o{me}",
        ("upkt s1", "upkt s0"),
        "wrong-result",
        LL,
    ),
    "packets that are added up, kept and sent on": Style(
        *SUM,
        "ppkt m i{you} > R2:0\nrecspkt m i{me} s0 > o{me} s1 R2:2\nupkt s2 > o{you}",
        ("R2:2", "R2:0"),
        "deadlock",
        LL,
    ),
    "scratch that all calls share": Style(
        "allgather",
        (1, 2, 1),
        HANDSHAKE + "put m i0 > R2:0\nnop\nsignal m0\nwait m0\nnop\ncopy s0 > o{you}\ncopy i0 > o{me}\n",
        (HANDSHAKE, ""),
        "race",
        {"reuse_resources": True, "max_bytes": 2**20},
    ),
    "a pipeline that puts and tells slice by slice": Style(
        *GATHER,
        HANDSHAKE
        + "copy i0 > o{me}\npipeline turns=32/1\n  put m i0 > R0:{me}\n  nop\n  signal m0\n  wait m0",
        ("  nop\n", ""),
        "outstanding-at-end",
    ),
    "a pipeline with two places of scratch": Style(
        "allgather",
        (1, 2, 2),
        "copy i0 > o{me}\npipeline turns=32/1\n  rlxsignal m0\n  rlxwait m0\n  nop\n  put m i0 > R2:0\n"
        "  nop\n  signal m0\n  wait m0\n  nop\n  copy s0 > o{you}\n  nop",
        ("  rlxsignal m0\n  rlxwait m0\n", ""),
        "race",
    ),
    "a semaphore that begins at one": Style(
        "allgather",
        (1, 2, 1),
        "sem_acquire sem=0\nnop\ncopy i0 > s0\nnop\nsem_release sem=1\n---\n"
        "sem_acquire sem=1\nnop\ncopy s0 > o{me}\nnop\nsem_release sem=0\n---\n"
        + HANDSHAKE
        + "put m i0 > R0:{me}\n"
        + CLOSE,
        ("nop\nsem_release sem=0\n", "nop\n"),
        "unequal-releases",
        semaphores=(1, 0),
    ),
    "an acknowledgement at the end instead of a handshake": Style(
        "allgather",
        (1, 2, 1),
        "put m i0 > R2:0\ncopy i0 > o{me}\nnop\nsignal m0\nwait m0\nnop\ncopy s0 > o{you}\n" + RELAXED_CLOSE,
        (RELAXED_CLOSE, "nop"),
        "race",
    ),
}


@pytest.mark.parametrize("name", STYLES)
def test_a_right_plan_passes_and_runs_right(name: str) -> None:
    right = STYLES[name].build()
    report = verify_plan(right)
    assert not report.errors
    assert "right" in (report.facts.in_place, report.facts.out_of_place)
    assert Machine.of(right, 1).runs(3, 1, RUN)[0] == "right"


@pytest.mark.parametrize("name", STYLES)
def test_its_twin_that_lacks_one_thing_does_not(name: str) -> None:
    found = verify_plan(STYLES[name].build(damaged=True)).findings
    assert STYLES[name].rule in {each.rule for each in found}
    assert name.startswith("signals that") or any(each.severity == "error" for each in found)

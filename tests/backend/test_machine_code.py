"""Large programs are lowered, verified and simulated by machine code: it says the same as Python does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_schedules import network, ring_allreduce

from taccl.backend.lower import lower
from taccl.backend.program import Program, RankProgram
from taccl.backend.simulate import simulate_program
from taccl.backend.verify.msccl_xml import verify_program

RING = network(4, [(rank, (rank + 1) % 4) for rank in range(4)])


def without_waits(rank: RankProgram) -> RankProgram:
    """The same steps, none of which waits for another thread block."""
    return replace(
        rank,
        thread_blocks=tuple(
            replace(block, steps=tuple(replace(step, depends=None) for step in block.steps))
            for block in rank.thread_blocks
        ),
    )


def reported() -> tuple[object, ...]:
    """A program, what is found in it and in one with races, and when its steps are done."""
    made: Program = lower(ring_allreduce(4, 2), runtimes="rccl", thread_blocks="one-way")[0].program
    racing = replace(made, ranks=tuple(map(without_waits, made.ranks)))
    reports = [verify_program(each, targets="rccl") for each in (made, racing)]
    assert [report.facts.races > 0 for report in reports] == [False, True]
    simulation = simulate_program(made, RING, 1.0, slots=1)
    times = [simulation.ready_us, simulation.start_us, simulation.end_us, simulation.done_us]
    return made, *reports, *(time.tolist() for time in times), simulation.port_busy_us.tolist()


def test_machine_code_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    as_python = reported()
    monkeypatch.setattr("taccl.support.jit._WORTH_COMPILING", 0)
    assert reported() == as_python

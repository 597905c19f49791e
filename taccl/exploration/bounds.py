"""What no algorithm beats at each size of a question, however finely it cuts the message."""

from __future__ import annotations

from dataclasses import replace

from taccl.analysis.any_cutting import any_cutting_bounds
from taccl.encoding.bounds import Proof
from taccl.encoding.bounds.stream import NOTHING
from taccl.exploration.question import Question
from taccl.model import units
from taccl.support.budget import Budget
from taccl.synthesis.job import Job
from taccl.synthesis.predicted import protocol_bound


def bounds_of(question: Question, budget: Budget) -> tuple[Proof, ...]:
    """A bound for each size, on times as the question has them.

    Where files are predicted, no file of any of the target's protocols is faster; else no schedule
    over links. Bounds that would come after the budget are left out.
    """
    links = any_cutting_bounds(question.machine, question.collective, question.sizes, budget)
    alone = [NOTHING if proof is None else proof for proof in links]
    job = question.jobs[0]
    if not job.has_predictions:
        return tuple(alone)
    of_files = _of_files(question, job)
    return tuple(max(pair, key=lambda proof: proof.value_us) for pair in zip(alone, of_files, strict=True))


def _of_files(question: Question, job: Job) -> list[Proof]:
    """What files of the protocol that suits each size best take at least."""
    problem = question.problem(1, question.sizes[-1])
    assert problem is not None, "the sizes of a question are whole numbers of parts"
    many = problem.collective.chunks_per_size
    executor = problem.topology.executor
    wires = {
        name: job.target.wire.get(name, 1.0) if executor is None else executor.costs_of(name).shape.wire
        for name in job.target.protocols
        if executor is None or name in executor.protocols
    }
    return [
        min(
            (
                protocol_bound(replace(problem, chunk_mb=size / many / units.MB), name, wire)
                for name, wire in wires.items()
            ),
            key=lambda proof: proof.value_us,
            default=NOTHING,
        )
        for size in question.sizes
    ]

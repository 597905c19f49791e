"""What no algorithm beats at each size of a question, however finely it cuts the message."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from taccl.analysis.any_cutting import any_cutting_bounds
from taccl.analysis.exploration.question import Question
from taccl.encoding.bounds import Proof
from taccl.encoding.bounds.stream import NOTHING
from taccl.model import units
from taccl.model.executor import Executor
from taccl.model.problem import Problem
from taccl.support.budget import Budget
from taccl.synthesis.predicted import protocol_bound, trusted_value, wires_bound


def bounds_of(question: Question, budget: Budget) -> tuple[Proof, ...]:
    """A bound for each size, on times as the question has them.

    What bytes take through ports grows with the size, and what hops take is the same for all: one proof of
    each is made in any case, so that no time stands without a bound. What else is proved of links comes
    within the budget. Where files are predicted, no file of any of the target's protocols is faster.
    """
    problem = question.problem(1, question.sizes[-1])
    assert problem is not None, "the sizes of a question are whole numbers of parts"
    links = replace(problem, topology=replace(problem.topology, executor=None))
    fluid = wires_bound(links)
    proved = any_cutting_bounds(question.machine, question.collective, question.sizes, budget)
    return tuple(
        _largest(
            (
                proof or NOTHING,
                protocol_bound(_sized(links, size), "", 1.0, _scaled(fluid, size / question.sizes[-1])),
                _of_files(question, _sized(problem, size), _scaled(fluid, size / question.sizes[-1])),
            )
        )
        for size, proof in zip(question.sizes, proved, strict=True)
    )


def _of_files(question: Question, problem: Problem, fluid: Proof) -> Proof:
    """What files of the protocol that suits a size best take at least; nothing where none is predicted."""
    target, executor = question.jobs[0].target, problem.topology.executor
    if executor is None or not question.jobs[0].has_predictions:
        return NOTHING
    known = [name for name in target.protocols if name in executor.protocols]
    return min(
        (_of_protocol(problem, executor, name, fluid) for name in known),
        key=lambda proof: proof.value_us,
        default=NOTHING,
    )


def _of_protocol(problem: Problem, executor: Executor, name: str, fluid: Proof) -> Proof:
    wire = executor.costs_of(name).shape.wire
    proof = protocol_bound(problem, name, wire, fluid)
    return replace(proof, value_us=trusted_value(proof.value_us, problem, executor))


def _sized(problem: Problem, size_bytes: int) -> Problem:
    return replace(problem, chunk_mb=size_bytes / problem.collective.chunks_per_size / units.MB)


def _scaled(proof: Proof, factor: float) -> Proof:
    """Of a bound that is proportional to the bytes, that of this many times as many."""
    if factor == 1.0:
        return proof
    witness = f"{factor:.3g} times what the largest size takes: {proof.witness}"
    return replace(proof, value_us=proof.value_us * factor, witness=witness)


def _largest(proofs: Iterable[Proof]) -> Proof:
    return max(proofs, key=lambda proof: proof.value_us)

"""A search for the chunks of one node, whose images are the schedule of a whole cluster.

`taccl.model.template` says what that proves, and why bounds that count what all chunks must carry hold for
the whole. Others would say nothing of it, so none is tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taccl.encoding.bounds import soonest
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import Engine
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.journal import Journal
from taccl.errors import SolverError
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def solve_node_0(
    problem: Problem, images: int, engines: Sequence[Engine], journal: Journal, budget: Budget
) -> Iterator[Update]:
    """Yield a bound of the whole, then better and better schedules of a problem of node 0's chunks.

    Parameters
    ----------
    images : how many images of its chunks are those of the whole.
    engines : those that may be run, in the order of their turns.

    Raises
    ------
    SolverError : none of them plans one node's chunks.
    """
    instance = Instance(problem, is_quotient=True)
    for proof in soonest(instance):
        journal.hears(proof)
        yield Update("bounds", lower_bound_us=proof.value_us, bound_source=proof.witness)
    if all(engine.of_node_0 is None for engine in engines):
        raise SolverError(
            f"{', '.join(engine.name for engine in engines)} plans no single node of a cluster",
            hint="--engine auto",
        )
    for engine in engines:
        if engine.of_node_0 is not None:
            yield from journal.kept(engine.name, instance, budget, engine.of_node_0(problem, images, budget))

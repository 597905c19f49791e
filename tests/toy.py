"""An engine of another package: it sends every chunk straight to whoever wants it, one send each.

`tests/support/test_plugins.py` installs it as an entry point, as its users would. This is all it takes.
"""

from __future__ import annotations

from collections.abc import Iterator

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.timing import Decision, in_order
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Engine, Verdict, no
from taccl.encoding.instance import Instance
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


def serves(instance: Instance) -> Verdict:
    """Whether there is a link from each rank to each other."""
    topology = instance.problem.topology
    if topology.num_links < topology.num_ranks * (topology.num_ranks - 1):
        return no("some rank has no link to another")
    return YES


def straight(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield the one schedule that it knows."""
    collective, links = instance.problem.collective, instance.problem.topology.link_index
    have = dict(zip(collective.inputs.chunk.tolist(), collective.inputs.rank.tolist(), strict=True))
    wanted = zip(collective.outputs.chunk.tolist(), collective.outputs.rank.tolist(), strict=True)
    sends = [Decision((chunk,), links[have[chunk], rank]) for chunk, rank in wanted if rank != have[chunk]]
    yield Update("straight", in_order(instance.problem, sends))


ENGINE = Engine("straight", "every chunk straight to its rank", frozenset({"reductions"}), serves, straight)

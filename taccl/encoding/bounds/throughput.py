r"""The throughput bound: what stays of cuts and volume however finely the same size is cut.

By time T, port p has let at most T / beta_p MB through, whatever the chunks. So for a set W of ranks whose
chunks C(W) must enter it through a set P of ports, and for all that must cross between the parts of a
partition (`partitions`) through a set P of ports,

    T  >=  (MB of C(W)) / sum over P of 1 / beta_p,        T  >=  (MB that cross) / sum over P of 1 / beta_p.

Alphas, heads, tails and the rounding to whole chunks are left out: with enough chunks they vanish beside
a large size. COST_MODEL, lower bound c.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taccl.collectives import IntArray
from taccl.encoding.bounds.bound import Bound
from taccl.encoding.bounds.capacity import chunks_per_us, port_rates
from taccl.encoding.bounds.cuts import Cut, crossings, name_ports
from taccl.encoding.bounds.partitions import Partition, least_crossings
from taccl.problem import Problem

#: Taken off, so that float error never puts it above the cut and volume bounds, which say more.
_ROUNDING = 1e-9


def throughput_bound(problem: Problem, cuts: Sequence[Cut], partitions: Sequence[Partition]) -> Bound:
    """The best over the given cuts and partitions; holds for any number of equal chunks."""
    nothing = Bound(0.0, "nothing has to move", "throughput")
    # Rounded, so that of equal ones the first is taken: a rank or a node says more than everything.
    bounds = _bounds(problem, cuts, partitions)
    return max(bounds, key=lambda bound: float(f"{bound.value_us:.9g}"), default=nothing)


def _bounds(problem: Problem, cuts: Sequence[Cut], partitions: Sequence[Partition]) -> Iterator[Bound]:
    for cut in cuts:
        for chunks, links in crossings(problem, cut):
            yield _bound(problem, len(chunks), links, cut.name)
    for partition in partitions:
        if len(links := partition.crossing(problem)):
            where = f"in transfers between {partition.name}"
            yield _bound(problem, least_crossings(problem, partition), links, where)


def _bound(problem: Problem, chunks: int, links: IntArray, where: str) -> Bound:
    ports = port_rates(problem, links)
    value_us = chunks / chunks_per_us(ports) * (1 - _ROUNDING)
    witness = f"{chunks * problem.chunk_mb:g} MB {where} through {name_ports(problem, ports)}"
    return Bound(value_us, witness, "throughput")

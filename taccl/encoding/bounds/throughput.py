r"""The throughput bound: what stays of cuts and volume however finely the same size is cut.

By time T, port p has let at most T / beta_p MB through, whatever the chunks. So for a set W of ranks whose
chunks C(W) must enter it through a set P of ports, and for all that must cross between the parts of a
partition (`partitions`) through a set P of ports,

    T  >=  (MB of C(W)) / sum over P of 1 / beta_p,        T  >=  (MB that cross) / sum over P of 1 / beta_p.

Chunks of unequal sizes count as what they are at cuts, and as the smallest of them between parts.
Alphas, heads, tails and the rounding to whole chunks are left out: with enough chunks they vanish next to
a large size. COST_MODEL, lower bound c.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.capacity import Covers, name_ports
from taccl.encoding.bounds.cuts import Crossings, Cut
from taccl.encoding.bounds.partitions import Counts, Partition, partitions
from taccl.encoding.bounds.tuning import THROUGHPUT_UNITS
from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray
from taccl.support.budget import Budget

#: Taken off, so that float error never puts it above the cut and volume bounds, which say more.
_ROUNDING = 1e-9


def throughput_bound(
    view: View, cuts: Iterable[Cut], parts: Iterable[Partition], budget: Budget | None = None
) -> Proof:
    """The best over the given cuts and partitions; holds for any number of equal chunks.

    Those that the budget does not let it come to are left out.
    """
    best = THROUGHPUT.proof(0.0, "nothing has to move")
    for proof in _each(view, cuts, parts):
        # Rounded, so that of equal ones the first is taken: a rank or a node says more than everything.
        best = max(best, proof, key=lambda each: float(f"{each.value_us:.9g}"))
        if budget is not None:
            budget.spend(THROUGHPUT_UNITS)
            if not budget.remaining_s():
                break
    return best


def _each(view: View, cuts: Iterable[Cut], parts: Iterable[Partition]) -> Iterator[Proof]:
    instance = view.instance
    for cut in cuts:
        for crossing in instance.once(Crossings).of(cut):
            many = len(crossing.chunks) if view.units is None else float(view.units[crossing.chunks].sum())
            yield _at(instance, many, crossing.links, cut.name)
    for partition in parts:
        if len(links := partition.crossing(instance.problem)):
            transfers = instance.once(Counts).least_crossings(partition)
            yield _at(instance, transfers, links, f"in transfers between {partition.name}")


def _at(instance: Instance, chunks: float, links: IntArray, where: str) -> Proof:
    problem = instance.problem
    ports = instance.once(Covers).narrowest(links)
    value_us = chunks / ports.chunks_per_us * (1 - _ROUNDING)
    through = name_ports(problem, ports.ports)
    return THROUGHPUT.proof(value_us, f"{chunks * problem.chunk_mb:g} MB {where} through {through}")


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    cuts = view.instance.once(Crossings).cuts
    yield throughput_bound(view, cuts, partitions(view.problem, cuts), budget)


THROUGHPUT = Bound(
    name="throughput",
    about="so much data must pass such bandwidth, however finely it is cut: what stays of cut and volume "
    "without alphas, heads, tails and whole chunks",
    remedy="more or faster links there; a number of chunks does not",
    prove=_prove,
    features=RELAXED,
    is_quick=True,
    holds_for_any_chunks=True,
)

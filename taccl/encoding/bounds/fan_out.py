r"""A root feeds the ports across a line one send after another, and each carries only what has come to it.

Let W be a set of ranks, A all others, and C chunks that are copied and must enter W, all of which start at
ranks S in A. A pair is a chunk of C and a rank of W that wants it. Take a schedule that ends by T, and of
each pair one way of the chunk to that rank: its last send out of S, its last *crossing* into W, and what
follows, inside W. Pairs *cross* with the send that is their crossing. The pairs that one send of n chunks
serves with L left are no more than `staged_copies` says of chunks that spread as if each were by itself.

Choose any prices: fed(t) in [0, 1] and late(L) >= 0 that only fall, and c >= 0. A crossing that leaves at t,
from a rank that is not in S, *pays* fed(t) for each pair; any crossing that ends L before T pays late(L) for
each pair whose rank is not its receiver. What is paid has to come from somewhere:

*What feeds.* A pair that leaves a rank outside S at t has left S by a send that came by then, so it pays no
more than fed of when that came. So together these pairs pay no more than the ports out of S have turns for,
a send of n chunks that comes at e being worth fed(e) for each pair of its chunks.

*What is passed on.* A pair that pays late(L) comes to its rank by a send inside W that begins with no more
than L left. So together they pay no more than the ports inside W to these ranks have turns for, a send of n
chunks that begins with L left being worth n late(L).

*Who begins.* Of a cover of the links into W let p be a *fed* port: no rank of S uses it. Let f_p(t) be the
most that its sends in turns serve, less what they pay, if the first leaves at t or later. The port pays
q(t) = max(0, max over p of f_p(t) - c) when its first send leaves, so it keeps no more than c (nor than
f_p(0)). Before that its sender has a first chunk of C, and of the ranks that are not in S each gets its first
chunk by a send from S, or from another that had one before: a tree. So with k(u) the fed ports that rank u
uses, all fed ports together pay no more than the sum over sends out of S that come to u at e of U(u, e),

    U(u, t) = k(u) q(t) + sum over ports of u of V(u, p, t),
    V(u, p, t) = max over x >= t and links l of p that lead to v of  U(v, x + d_l) + V(u, p, x + b_l),

where one chunk takes d_l and keeps the port busy for b_l; and each link is taken once. Ranks that have as
many fed ports and links of equal costs are one; of others with as many fed ports the best counts.

So all pairs are no more than the sum of

- c, or f_p(0) if that is less, for each fed port;
- for each other port across: what its turns are worth. A send from S is worth what it serves, and what it
  feeds: fed(e) for each pair that it may not serve, or that pays more later, and U of its receiver;
- for each port from S to A: what its turns are worth, by what they feed;
- for each port inside W: what its turns are worth, by what they pass on.

Where that is less than there are pairs, no schedule ends by T: so many sends out of S, each with an alpha of
its own, cannot come early and be large. Any prices are valid: good ones are searched for.

*Any number of chunks.* Cut each chunk of C into equal parts, and count parts. A send of more than n - 1 of
them counts as n, and takes its port for what n - 1 take; what is said of one chunk alone holds for one that
takes alphas alone. A send of whole chunks of any size is such a send. Of the sets that `staged_copies` counts
there are so many times as many. Where alphas are no time of a port nothing is said.

*Cells.* T is cut into equal cells, and every duration is rounded down to whole cells. If each moment of a
schedule is rounded down as well, sends that take turns still do, and nothing leaves before it has come. What
is left until the end is no less than it was.

*Backwards*, where ports are busy at the ends of sends (`steps`), a turn on a port begins d - b after its send
leaves, and ends when that has come.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.capacity import Covers, name_ports
from taccl.encoding.bounds.cuts import Crossing, Crossings, Cut, members, narrow_cuts
from taccl.encoding.bounds.fan_out_setting import Setting
from taccl.encoding.bounds.fan_out_worth import OutOfSight, Prices, Worth
from taccl.encoding.bounds.steps import OutOfBudget, is_too_large
from taccl.encoding.bounds.tuning import (
    FAN_OUT_ANY_MORE,
    FAN_OUT_FINE,
    FAN_OUT_FIRST,
    FAN_OUT_FORMS,
    FAN_OUT_HORIZON,
    FAN_OUT_KEPT,
    FAN_OUT_LOOKS,
    FAN_OUT_MORE,
    FAN_OUT_MOST_CUTS,
    FAN_OUT_MOST_S,
    FAN_OUT_PARTS,
    FAN_OUT_PATIENCE,
    FAN_OUT_ROUNDS,
    FAN_OUT_SHARE,
    FAN_OUT_WIDE,
)
from taccl.encoding.bounds.views import View
from taccl.model.network import FloatArray
from taccl.model.units import format_count
from taccl.support.budget import Budget

#: What is served less than needed by no more than this part is a rounding error.
_CLOSE = 1e-6
#: Taken off, against float error.
_ROUNDING = 1e-9


class _Search:
    """Moments by which not all can be served, later and later, each refuted at some prices.

    Forms of the prices are drawn round the mean of the best ones (an evolution strategy), since what they
    prove is neither smooth nor equally steep; draws are those of a fixed seed.
    """

    def __init__(self, setting: Setting, known_us: float) -> None:
        self._setting, self._draws = setting, np.random.default_rng(0)
        self._mean = self._best = np.log(np.array(FAN_OUT_FIRST))
        self._wide, self._stalled = FAN_OUT_WIDE, 0
        self._more = FAN_OUT_ANY_MORE if setting.parts else FAN_OUT_MORE
        self._least, self.refuted_us = np.inf, known_us
        self._worth: Worth | None = None

    @property
    def is_over(self) -> bool:
        """Whether later moments are not worth a try."""
        return self._more < FAN_OUT_FINE

    def goes_on(self, budget: Budget) -> bool:
        """Try some prices; whether they refute a later moment.

        Raises
        ------
        OutOfSight : nothing can be said of a later moment.
        """
        if self._worth is None:
            self._worth = Worth(self._setting, self.refuted_us * (1 + self._more))
            self._stalled, self._least = 0, np.inf
        budget.spend(self._worth.units(FAN_OUT_FORMS))
        drawn = self._mean + self._wide * self._draws.normal(size=(FAN_OUT_FORMS, len(self._mean)))
        drawn[0] = self._best
        lacking = self._worth.served(self._prices(drawn)) - self._setting.need
        order = np.argsort(lacking, kind="stable")
        self._best, self._mean = drawn[order[0]], drawn[order[:FAN_OUT_KEPT]].mean(axis=0)
        if lacking[order[0]] < -_CLOSE * self._setting.need:
            self.refuted_us = self._worth.end_us
            self._more, self._worth = self._more * 1.3, None
            return True
        if lacking[order[0]] > self._least - 1e-3 * self._setting.need:
            self._wide, self._stalled = self._wide * 0.75, self._stalled + 1
        self._least = min(self._least, float(lacking[order[0]]))
        if self._stalled >= FAN_OUT_PATIENCE:
            self._more, self._worth, self._wide = self._more / 2, None, FAN_OUT_WIDE
        return False

    def _prices(self, drawn: FloatArray) -> Prices:
        """Prices by their logarithms, shape (num_forms, 7)."""
        first, first_for, second, second_for, port, passed_on, passed_on_for = np.exp(drawn.T)
        fed, fed_for = np.stack([first, second]), np.stack([first_for, second_for])
        # Where one rank wants each chunk, ports into ranks of W have time enough for all.
        return Prices(fed, fed_for, port, passed_on * (self._setting.each > 1), passed_on_for)


def fan_out_bound(
    view: View,
    cut: Cut,
    crossing: Crossing,
    known_us: float,
    budget: Budget,
    any_chunks: bool = False,
) -> Iterator[Proof]:
    """What is proved of a line beyond what is known, better and better."""
    inside = members(view.problem.num_ranks, cut.ranks)
    parts = math.ceil(FAN_OUT_PARTS / len(crossing.chunks)) if any_chunks else 0
    for _ in range(FAN_OUT_LOOKS):
        before_us = known_us
        setting = Setting(view, inside, crossing, FAN_OUT_HORIZON * known_us, budget, parts)
        if not setting.is_fed:
            return
        try:
            for refuted_us in _refuted(setting, known_us, budget):
                known_us, value_us = refuted_us, refuted_us * (1 - _ROUNDING)
                yield FAN_OUT.proof(value_us, _named(view, cut, setting), any_chunks=any_chunks)
            return
        except OutOfSight:
            if known_us == before_us:
                return  # the next look would be this one
        except OutOfBudget:
            return


def _refuted(setting: Setting, known_us: float, budget: Budget) -> Iterator[float]:
    """Moments by which not all can be served, later and later.

    Raises
    ------
    OutOfBudget, OutOfSight : by `Setting` and `Worth`.
    """
    search = _Search(setting, known_us)
    for _ in range(FAN_OUT_ROUNDS):
        if search.is_over or not budget.remaining_s():
            return
        if search.goes_on(budget):
            yield search.refuted_us


def _named(view: View, cut: Cut, setting: Setting) -> str:
    through = name_ports(view.problem, setting.cover.ports)
    sources = np.flatnonzero(setting.sources).tolist()
    root = f"rank {sources[0]}" if len(sources) == 1 else f"{len(sources)} ranks"
    chunks = len(setting.crossing.chunks)
    much = f"{chunks * view.problem.chunk_mb:g} MB" if setting.parts else format_count(chunks, "chunk")
    return f"{much} {cut.name} through {through}, fed by {root} send by send"


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    instance = view.instance
    may_say = known_us and view.problem.chunk_mb and not instance.demand.reduces.any()
    may_say = may_say and not is_too_large(view.problem)
    budget = budget.at_most(FAN_OUT_MOST_S)
    # Of other ports turns may be so short that nothing is left of them, and chunks may differ in size.
    if may_say and view.problem.topology.is_serial and view.units is None:
        yield from _of_lines(view, known_us, budget.share(FAN_OUT_SHARE), any_chunks=True)
    yield FAN_OUT.proof(0.0, "nothing is fed")
    if may_say:
        yield from _of_lines(view, known_us, budget, any_chunks=False)


def _of_lines(view: View, known_us: float, budget: Budget, any_chunks: bool) -> Iterator[Proof]:
    """What is proved of each line beyond what is known."""
    instance, seen, proved_us = view.instance, set[frozenset[int]](), 0.0
    for cut in narrow_cuts(instance):
        crossings = instance.once(Crossings).of(cut)
        if cut.ranks in seen or not crossings:
            continue
        if len(seen) == FAN_OUT_MOST_CUTS or not budget.remaining_s():
            return
        crossing = crossings[-1]
        # Others may prove more meanwhile; of any number of chunks it is not said what they proved.
        begin_us = _at_least_us(view, crossing) if any_chunks else max(known_us, instance.bound_us)
        if not begin_us:  # small sends across take no time
            continue
        for proof in fan_out_bound(view, cut, crossing, max(begin_us, proved_us), budget, any_chunks):
            proved_us = proof.value_us
            seen.add(cut.ranks)
            yield proof


def _at_least_us(view: View, crossing: Crossing) -> float:
    """What crosses takes no less, however it is cut."""
    cover = view.instance.once(Covers).narrowest(crossing.links)
    alpha_us = view.problem.topology.alpha_us[crossing.links].min()
    return max(float(alpha_us), cover.fluid_us(len(crossing.chunks)))


FAN_OUT = Bound(
    name="fan-out",
    about="a root feeds the NICs of its node one send after another: each carries only what has come to it, "
    "none begins before its first chunk has come, and what has crossed is still spread behind it",
    remedy="shorter alphas, more or faster ports out of that root or across that line",
    prove=_prove,
    features=RELAXED,
    has_any_chunks=True,
)

r"""Bounds from cuts: what must pass a narrow place, how early it can be there, how far it is after.

Let W be a set of ranks and C the chunks that must enter W (`cuts`). Every chunk of C enters W at least once,
over some link of E(W). Write, for a chunk c with sources U(c) and wanting ranks D(c),

    head(c) = min over u in U(c) of ready(c, u) + min over links l in E(W) of dist(u, src(l)),
    tail(c) = max over r in D(c) and W of min over l in E(W) of dist(dst(l), r) + tail(c, r),

with the ready times and tails of the problem as it is requested, 0 where it has none.

The entry that first serves the farthest rank starts no earlier than head(c) and ends at least
tail(c) before the schedule does. Links that share a port take turns, so by time T, between h and
T - t, port p can let at most floor((T - h - t - alpha_p) / (s * beta_p)) chunks of s MB in, with alpha_p
and beta_p as in `capacity`. Hence for every pair of thresholds (h, t)

    |{c in C : head(c) >= h, tail(c) >= t}| <= sum over ports of E(W) of that floor,

and the least T for which this holds is a bound. For a sum, the entry that carries the contribution
of the *farthest* source counts, so head(c) takes the maximum over sources.

COST_MODEL, lower bounds b (one port: head + load + tail) and c (a cut of several ports), joined and
made whole: chunks are not divisible. For any number of chunks what is left is the size of C over the
bandwidth of the ports (`capacity`); there chunks of unequal sizes count as what they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.capacity import Covers, least_time, name_ports
from taccl.encoding.bounds.cuts import Crossing, Crossings, Cut, members
from taccl.encoding.bounds.tuning import CUT_MOST_THRESHOLDS, CUT_UNITS, CUT_UNITS_PER_ROW
from taccl.encoding.bounds.views import AT_ONCE, Moments, View
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray
from taccl.model.network import FloatArray
from taccl.model.units import format_count
from taccl.support.budget import Budget


def cut_bound(
    instance: Instance,
    cuts: Sequence[Cut],
    budget: Budget | None = None,
    moments: Moments = AT_ONCE,
) -> Proof:
    """The best bound over the given cuts, of those that the budget lets it come to.

    `moments` : ready times and tails of the problem, which the instance may leave out.
    """
    best = CUT.proof(0.0, "nothing has to move")
    for cut in cuts:
        if budget is not None and not budget.remaining_s():
            break
        for crossing in instance.once(Crossings).of(cut):
            proof = _at(instance, cut, crossing, moments)
            best = proof if proof.value_us > best.value_us else best
        if budget is not None:
            budget.spend(CUT_UNITS + CUT_UNITS_PER_ROW * len(instance.demand.wants))
    return best


def _at(instance: Instance, cut: Cut, crossing: Crossing, moments: Moments) -> Proof:
    problem = instance.problem
    head, tail = _heads_and_tails(instance, members(problem.num_ranks, cut.ranks), crossing, moments)
    covers = instance.once(Covers).of(crossing.links)
    best, count, through = 0.0, 0, name_ports(problem, covers[0].ports)
    heads, tails = _thresholds(head), _thresholds(tail)
    for cover in covers:
        last = least_time(len(head), cover.rates)
        for h in heads:
            for t in tails:
                if h + t + last <= best:
                    continue
                waiting = int(((head >= h) & (tail >= t)).sum())
                value = h + t + least_time(waiting, cover.rates)
                if waiting and value > best:
                    best, count, through = value, waiting, name_ports(problem, cover.ports)
    return CUT.proof(best, f"{format_count(count, 'chunk')} {cut.name} through {through}")


def _heads_and_tails(
    instance: Instance, inside: BoolArray, crossing: Crossing, moments: Moments
) -> tuple[FloatArray, FloatArray]:
    """The head and tail of each chunk of a crossing, microseconds, two of shape (len(chunks),)."""
    topology, distance_us = instance.problem.topology, instance.distances_us
    demand, chunks, links = instance.demand, crossing.chunks, crossing.links
    to_cut = distance_us[:, np.unique(topology.src[links])].min(axis=1)
    from_cut = distance_us[np.unique(topology.dst[links])].min(axis=0)
    nearest = np.full(demand.num_chunks, np.inf)
    farthest, tail = np.full((2, demand.num_chunks), -np.inf)
    # What is the same for all chunks is looked at once: there may be a row for each pair of ranks.
    if moments.ready_us is not None:
        inputs = instance.problem.collective.inputs
        starts = np.flatnonzero(~inside[inputs.rank])
        comes_us = moments.ready_us[starts] + to_cut[inputs.rank[starts]]
        np.minimum.at(nearest, inputs.chunk[starts], comes_us)
        np.maximum.at(farthest, inputs.chunk[starts], comes_us)
    elif demand.all_start_at is not None:
        outside = to_cut[demand.all_start_at[~inside[demand.all_start_at]]]
        nearest[:], farthest[:] = outside.min(initial=np.inf), outside.max(initial=-np.inf)
    else:
        begin = demand.starts.some(~inside[demand.starts.rank])
        np.minimum.at(nearest, begin.chunk, to_cut[begin.rank])
        np.maximum.at(farthest, begin.chunk, to_cut[begin.rank])
    if moments.tail_us is not None:
        outputs = instance.problem.collective.outputs
        wants = np.flatnonzero(inside[outputs.rank])
        np.maximum.at(tail, outputs.chunk[wants], from_cut[outputs.rank[wants]] + moments.tail_us[wants])
    elif demand.all_wanted_by is not None:
        tail[:] = from_cut[demand.all_wanted_by[inside[demand.all_wanted_by]]].max(initial=-np.inf)
    else:
        end = demand.wants.some(inside[demand.wants.rank])
        np.maximum.at(tail, end.chunk, from_cut[end.rank])
    head = np.where(demand.reduces, farthest, nearest)
    return head[chunks], tail[chunks]


def _thresholds(times_us: FloatArray) -> list[float]:
    """Some of the different times, the least and the largest among them."""
    times = np.unique(times_us)
    if len(times) > CUT_MOST_THRESHOLDS:
        times = times[np.linspace(0, len(times) - 1, CUT_MOST_THRESHOLDS).round().astype(np.int64)]
    return [float(time_) for time_ in times]


def fluid_cut_bound(view: View, cuts: Sequence[Cut], budget: Budget | None = None) -> Proof:
    """The best over the given cuts that holds for any number of equal chunks, as far as the budget goes."""
    best = CUT.proof(0.0, "nothing has to move", any_chunks=True)
    for cut in cuts:
        if budget is not None and not budget.remaining_s():
            break
        for crossing in view.instance.once(Crossings).of(cut):
            many = len(crossing.chunks) if view.units is None else float(view.units[crossing.chunks].sum())
            cover = view.instance.once(Covers).narrowest(crossing.links)
            through = name_ports(view.problem, cover.ports)
            witness = f"{many * view.problem.chunk_mb:g} MB {cut.name} through {through}"
            proof = CUT.proof(cover.fluid_us(many), witness, any_chunks=True)
            # Rounded, so that of equal ones the first is taken: a rank or a node says more than everything.
            best = max(best, proof, key=lambda each: float(f"{each.value_us:.9g}"))
        if budget is not None:
            budget.spend(CUT_UNITS)
    return best


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    cuts = view.instance.once(Crossings).cuts
    yield fluid_cut_bound(view, cuts, budget)
    yield cut_bound(view.instance, cuts, budget, view.moments)


CUT = Bound(
    name="cut",
    about="this many whole chunks must enter a set of ranks through its ports; none is there before its "
    "head, and after the last one its tail still remains",
    remedy="more or faster links there, or shorter routes to and from there",
    prove=_prove,
    features=RELAXED,
    is_quick=True,
    has_any_chunks=True,
)

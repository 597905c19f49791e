r"""The center bound: with hardly more than the fewest transfers, most sums meet over a link, and few can.

It knows what the fewest transfers of an AllReduce look like, and how many fit; it knows no roots and no trees
of any engine.

Take one chunk to which all n ranks contribute and which all want, and say that a rank knows a contribution
once it has anything that it was added to. `partitions` counts 2n - 2 transfers at least. Let there be no
more, and order them by their ends. Let r be the first rank that knows everything, by the transfer at place
k.

- Each other rank has sent one of the first k, and each other rank is still to receive one of the others. So
  k = n - 1, and of the first k each rank but r sends one: they are a tree into r. Of the others each rank but
  r receives one, and r sends none before, so what all others know of r comes by these: a tree out of r.
- The first tree ends at t, with a transfer b -> r. Let r -> a be of the second tree, and leave at s < t. What
  is below b in the first tree has not come to r by then, so all of it has come to a by the first tree: it is
  below a there. Both a and b are next to r, so a = b =: x. There is one such x, or none.

*None.* All is at r by t, and leaves it from t on: the end T is no sooner than what r is away from the
farthest rank on the way in, and on the way out. *One.* Let s', t be the times of x -> r, and e the end of r
-> x, which is no sooner than t, since x knows everything by it. Each u is below x in the first tree or not,
and each v in the second, so

    dist(u, x) <= s'  or  dist(u, r) <= s < t,    and    e + dist(x, v) <= T  or  t + dist(r, v) <= T.

So both transfers between r and x lie in windows of time that follow from T alone: (r, x) is a *center*.

Let the ports pass N(T) transfers by T (`volume`), and M have to be. Then all but N(T) - M of the chunks have
no more than the fewest. If no r is near enough to all, each of these has two transfers in the windows of its
center. Those let a port through only this many: what passes port p after x and before y is no more than
floor((y - x - alpha_p) / (s beta_p)), alpha_p and beta_p as in `capacity`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.capacity import Cover, Covers, least_time
from taccl.encoding.bounds.partitions import Counts, Partition
from taccl.encoding.bounds.tuning import CENTER_MOST_CELLS, CENTER_UNITS_PER_CELL
from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.model.network import FloatArray
from taccl.support.budget import Budget

#: Moments are the same to this part of them, and bounds are distinguished to that.
_CLOSE, _APART = 1e-12, 1e-12
#: More halvings than this tell nothing apart.
_MOST_STEPS = 100


def center_bound(instance: Instance, known_us: float, budget: Budget) -> Proof:
    """How long all sums need centers for which there is no room; nothing that is no later than `known_us`."""
    nothing = CENTER.proof(0.0, "no sum of all for all")
    problem, demand = instance.problem, instance.demand
    ranks, links = problem.num_ranks, np.arange(problem.topology.num_links)
    if ranks < 2 or not len(links):
        return nothing
    sources = np.bincount(demand.starts.chunk, minlength=problem.num_chunks)
    wanting = np.bincount(demand.wants.chunk, minlength=problem.num_chunks)
    sums = int((demand.reduces & (sources == ranks) & (wanting == ranks)).sum())
    if not sums or len(links) * ranks**2 > CENTER_MOST_CELLS:
        return nothing
    transfers = instance.once(Counts).least_crossings(Partition(np.arange(ranks), f"{ranks} ranks"))
    covers = instance.once(Covers).of(links)
    far = instance.distances_us
    at_one_rank_us = float((far.max(axis=0) + far.max(axis=1)).min())
    # From then on nothing of all this says anything.
    high = min(at_one_rank_us, *(least_time(transfers + sums, cover.rates) for cover in covers))
    low = known_us
    if low >= high:
        return nothing
    centers, at_once = _Centers.of(instance), np.zeros(len(links))

    def has_room(end_us: float) -> bool:
        spare = min(_between(cover, at_once, at_once, end_us) for cover in covers) - transfers
        if not 0 <= spare < sums:
            return spare > 0
        budget.spend(CENTER_UNITS_PER_CELL * centers.first_us.size * ranks)
        windows = centers.windows_us(end_us)
        return min(_between(cover, *windows, end_us) for cover in covers) >= 2 * (sums - spare)

    if has_room(low):
        return nothing
    for _ in range(_MOST_STEPS):
        if high - low <= _APART * high or not budget.remaining_s():
            break
        middle = (low + high) / 2
        if has_room(middle):
            high = middle
        else:
            low = middle
    return CENTER.proof(low, f"{sums} sums meet at one rank or over a link, {transfers} transfers")


def _between(cover: Cover, first_us: FloatArray, last_us: FloatArray, end_us: float) -> int:
    """How many chunks pass a cover at most, over each link from a moment on until so long before the end.

    Both of shape (num_links,), infinite where none passes.
    """
    place = cover.place
    first, last = np.full((2, len(cover.ports)), np.inf)
    np.minimum.at(first, place, first_us)
    np.minimum.at(last, place, last_us)
    window = end_us * (1 + _CLOSE) - first - last - cover.alpha_us
    if ((window >= 0) & (cover.chunk_us == 0)).any():
        return int(np.iinfo(np.int32).max)
    fits = np.isfinite(window) & (cover.chunk_us > 0)
    return int(np.maximum(0, np.floor(window[fits] / cover.chunk_us[fits])).sum())


@dataclass(frozen=True, eq=False)
class _Centers:
    """Links that are there both directions, and how the ranks can be parted between the two ends of each.

    Parameters
    ----------
    one, other : shape (num_centers,); the links r -> x and x -> r.
    first_us, first_other_us : shape (num_centers, num_ranks); the nearest of the ranks come to r by the one,
        and then the others to x by the other.
    last_us, last_other_us : the same for what is left after the ends of r -> x and x -> r.
    takes_us, takes_other_us : shape (num_centers,); of one chunk.
    """

    num_links: int
    one: np.ndarray
    other: np.ndarray
    first_us: FloatArray
    first_other_us: FloatArray
    last_us: FloatArray
    last_other_us: FloatArray
    takes_us: FloatArray
    takes_other_us: FloatArray

    @staticmethod
    def of(instance: Instance) -> _Centers:
        topology, far = instance.problem.topology, instance.distances_us
        index = topology.link_index
        both = [(link, index[x, r]) for (r, x), link in index.items() if (x, r) in index]
        one, other = np.array(both, dtype=np.int64).reshape(-1, 2).T
        r, x = topology.src[one], topology.dst[one]
        first, first_other = _parted(far.T[r], far.T[x])
        last, last_other = _parted(far[x], far[r])
        takes = instance.durations_us
        return _Centers(
            topology.num_links, one, other, first, first_other, last, last_other, takes[one], takes[other]
        )

    def windows_us(self, end_us: float) -> tuple[FloatArray, FloatArray]:
        """From when on a transfer of a center may be on each link, and how long before the end it is over.

        Both of shape (num_links,), infinite for links that are no center.
        """
        close = end_us * (1 + _CLOSE)
        here_us, there_us = (self.last_us[:, None, :], self.last_other_us[:, None, :])
        met_us = self.first_other_us[:, :, None] + self.takes_other_us[:, None, None]
        both = self.first_us[:, :, None] + self.takes_us[:, None, None] + here_us <= close
        both &= met_us + np.maximum(here_us, there_us) <= close
        both &= self.first_us[:, :, None] + there_us <= close
        before, after = both.any(axis=2), both.any(axis=1)
        first, last = np.full((2, self.num_links), np.inf)
        # A link may be one way of a center and the other of another.
        for links, begins, ends in (
            (self.one, self.first_us, self.last_us),
            (self.other, self.first_other_us, np.maximum(self.last_us, self.last_other_us)),
        ):
            np.minimum.at(first, links, np.where(before, begins, np.inf).min(axis=1, initial=np.inf))
            np.minimum.at(last, links, np.where(after, ends, np.inf).min(axis=1, initial=np.inf))
        return first, last


def _parted(near: FloatArray, far: FloatArray) -> tuple[FloatArray, FloatArray]:
    """For each row, each entry of the one as the largest that is taken there, and the largest of the others.

    Both of shape (num_rows, num_ranks), and so are the results.
    """
    order = np.argsort(near, axis=1)
    taken = np.take_along_axis(near, order, axis=1)
    left = np.take_along_axis(far, order, axis=1)[:, ::-1]
    most = np.maximum.accumulate(left, axis=1)[:, ::-1]
    return taken, np.concatenate([most[:, 1:], np.zeros((len(near), 1))], axis=1)


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    if view.problem.collective.is_reduction and not view.backwards:
        yield center_bound(view.instance, known_us, budget)


CENTER = Bound(
    name="center",
    about="where ports have hardly room for more than 2n - 2 transfers of each sum of n ranks, most sums are "
    "complete at one rank at first, or at both ends of one link; and only this many can meet on such links",
    remedy="more or faster links, or more of those that are near to all ranks",
    prove=_prove,
    features=RELAXED,
)

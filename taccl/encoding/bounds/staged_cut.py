r"""Staged cuts (gather, cross, scatter): what comes late through a narrow cut is worth little.

Let W be a set of ranks and C the chunks that must enter it (`cuts`). Every rank of W that wants a
chunk of C has it from some last crossing into W, in a group that leaves u at x and arrives at u' at
e. By the end T, one chunk that arrived at u' serves at most w(u', T - e) ranks of W (`postal`, over links
inside W). Cut C into *disjoint sets*, of which no rank of W wants two chunks. A set spreads no faster than
one chunk: put one chunk in the place of all chunks of a set. Every send still happens, with groups that are
no larger; each pair of a chunk of the set and a rank that wants it is then a rank of its own that has the
one chunk. Let

    v         the most ranks of W that want one chunk of C,
    H(u, x)   the most chunks of C, and K(u, x) the most sets with a chunk, that rank u can hold at x.

A group of n chunks then serves at most

    value(n, x, e) = min(n v, min(n, K(u, x)) w(u', T - e)),  where n <= H(u, x).

Groups through one port take turns, so what all that use port p serve is at most A(p, T), with

    A(p, y) = max over links l of p into W, and n, of  A(p, y - b_ln) + value(n, y - b_ln, y - b_ln + d_ln),

and T is possible only if the sum of A(p, T) over the ports into W is no less than the number of pairs
of a chunk of C and a rank of W that wants it. The least such T is a bound by decomposition: the time
before the cut (H, K), on it (turns, over all routes of grouping) and after it (w).

*Sums.* Let X be the ranks outside W, C the sums with contributors in X and wanting ranks in W, and for one
of them let (q, r) be a pair of such a contributor and such a rank. What q contributes comes to r in some
last crossing into W, in a group that leaves u at x and arrives at u' at e. What leaves u then was added up
from no more than g(u, x) contributions of X, g counting what one rank can have collected by then: a spread
on the reversed links. And it comes to no more than w(u', T - e) ranks of W. So n chunks are worth, in whole
sums, at most

    n min(1, g(u, x) / |X|) min(1, w(u', T - e) / |W|),

|X| and |W| being the fewest contributors and wanting ranks there, and all groups must be worth |C|. This
holds wherever sums are made, and however often.

*Lemma (the tree of last transfers).* g(u, x), counted as a spread from u on the reversed links, is no less
than the number of ranks whose contributions to one chunk can be in the sum that u holds at x. For a program,
let R be the ranks other than u from which transfers of this chunk lead to u by x, and keep for each rank of R
the last transfer with which such a way begins. (1) They are a tree with root u: the transfer kept for q goes
to a rank q' on a way to u; if q' is not u, a transfer leaves q' after it has arrived there, so the one kept
for q' leaves later still, and no circle is possible. (2) It loses nothing: every contribution in the sum of u
came along some way to u, so its rank is in R. (3) Read backwards from x, each kept transfer copies the chunk
from q' to q over the reversed link, after q' has it, on the same ports for as long: a spread from u that
reaches all of R. `stages`, `all_ports` and the reversed views rest on this lemma.

*Backwards* (see `postal`), A(p, y) = max of A(p, y - b_ln) + value(n, y - d_ln, y).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.broadcast_time import may_go_equally
from taccl.encoding.bounds.capacity import name_ports
from taccl.encoding.bounds.cuts import Crossing, Crossings, Cut, members, node_cuts
from taccl.encoding.bounds.group_options import GroupOptions, Turns
from taccl.encoding.bounds.postal import Layer, max_gathered, max_informed
from taccl.encoding.bounds.ticks import in_ticks
from taccl.encoding.bounds.tuning import (
    STAGED_CUT_CELLS_OF_TURNS,
    STAGED_CUT_MOST_CLASSES,
    STAGED_CUT_MOST_CUTS_OF_SUMS,
    STAGED_CUT_PASSES,
)
from taccl.encoding.bounds.views import View
from taccl.encoding.core.demand import Pairs
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.support.budget import Budget

#: A closer look at a cut proves at most 1.17 times as much in all that was tried (120 cuts of four machines),
#: and takes seconds.
_CLOSER = 1.25


class Entries:
    """What was proved here of each cut of an instance, for bounds that look closer at the same cuts.

    `instance.once(Entries)`.
    """

    def __init__(self, _: Instance) -> None:
        self._proved_us: dict[frozenset[int], float] = {}

    def note(self, cut: Cut, value_us: float) -> None:
        """So much is proved of a cut; 0: nothing is."""
        self._proved_us[cut.ranks] = max(value_us, self._proved_us.get(cut.ranks, 0.0))

    def may_come_to(self, cut: Cut, known_us: float) -> bool:
        """Whether a closer look at a cut may prove more than is known; also where nothing is noted of it."""
        proved_us = self._proved_us.get(cut.ranks, 0.0)
        return not proved_us or _CLOSER * proved_us > known_us


def staged_cut_bound(view: View, cut: Cut, known_us: float, budget: Budget) -> Proof:
    """The best bound over the sets of copied chunks that must enter; `known_us` is a yardstick."""
    best = STAGED_CUT.proof(0.0, "nothing has to enter")
    instance = view.instance
    inside = members(view.problem.num_ranks, cut.ranks)
    crossings = instance.once(Crossings).of(cut)
    for crossing in crossings if len(crossings) <= STAGED_CUT_MOST_CLASSES else crossings[-1:]:
        if not budget.remaining_s():
            break
        options = _options(instance, crossing)
        if options is None:
            continue
        staged = _Copies(view, inside, crossing, options)
        value_us = _in_ticks(view, known_us, staged, budget)
        if value_us > best.value_us:
            through = name_ports(view.problem, options.ports)
            many = len(crossing.chunks)
            witness = f"{many} chunks {cut.name} through {through}, gathered before and spread after"
            best = STAGED_CUT.proof(value_us, witness)
    return best


def staged_sums_bound(view: View, cut: Cut, known_us: float, budget: Budget) -> Proof:
    """When all sums that have contributors outside a set can have come to all who want them inside.

    `known_us` is another bound, as a yardstick.
    """
    nothing = STAGED_CUT.proof(0.0, "no sum has to enter")
    crossings = view.instance.once(Crossings).of(cut)
    if not crossings:
        return nothing
    chunks = crossings[-1].chunks
    chunks = chunks[view.problem.collective.reduces[chunks]]
    if not len(chunks):
        return nothing
    inside = members(view.problem.num_ranks, cut.ranks)
    crossing = Crossing(chunks, crossings[-1].links)
    options = _options(view.instance, crossing)
    if options is None:
        return nothing
    value_us = _in_ticks(view, known_us, _Sums(view.instance, inside, crossing, options), budget)
    through = name_ports(view.problem, options.ports)
    witness = f"{len(chunks)} sums {cut.name} through {through}, collected before and spread after"
    return STAGED_CUT.proof(value_us, witness)


def _options(instance: Instance, crossing: Crossing) -> GroupOptions | None:
    """The groups in which chunks can cross; None if they are too many to look at."""
    most = Layer.of(instance, crossing.chunks).many_on()[crossing.links]
    return GroupOptions.over(instance, crossing.links, most)


def _in_ticks(view: View, known_us: float, staged: _Copies | _Sums, budget: Budget) -> float:
    width = len(staged.options.kind)
    each = STAGED_CUT_CELLS_OF_TURNS + STAGED_CUT_PASSES * width + 2 * view.problem.topology.num_links
    return in_ticks(view.problem, known_us, width, staged.least_ticks, budget, lambda rows: each * rows)


class _Copies:
    """One set of chunks that must enter W, and the links by which it may."""

    def __init__(self, view: View, inside: BoolArray, crossing: Crossing, options: GroupOptions) -> None:
        instance, chunks = view.instance, crossing.chunks
        many = wanting(instance, chunks, inside)
        self.instance, self.backwards = instance, view.backwards
        self.need = int(many.sum())
        self.each = int(many.max())
        self.all = Layer.of(instance, chunks)
        self.within = Layer.of(instance, chunks, inside)
        sets = disjoint_sets(instance, chunks, inside)
        self.sets = Layer.of(instance, chunks[np.unique(sets, return_index=True)[1]])
        self.options = options
        self.sets_on = self.options.best_of(self.sets.many_on()[self.options.links])
        slots = range(len(self.options.ports))
        # What all chunks that may use a port serve together.
        self.cap = np.array(
            [many[self.all.may_use_any(self.options.links_of(slot))].sum() for slot in slots], dtype=np.int64
        )

    def least_ticks(self, tick_us: float, rows: int) -> int | None:
        """The least T in ticks; None if it is not below `rows`."""
        options, instance, backwards = self.options, self.instance, self.backwards
        topology = instance.problem.topology
        takes, busy = options.ticks(instance.problem, tick_us)
        src, dst = topology.src[options.links], topology.dst[options.links]
        w = options.best_of(max_informed(instance, [self.within], tick_us, rows, backwards)[:, 0, dst])
        held = sets = options.best_of(max_gathered(instance, [self.all], tick_us, rows, backwards)[:, 0, src])
        if len(self.sets.chunks) < len(self.all.chunks):
            sets = options.best_of(max_gathered(instance, [self.sets], tick_us, rows, backwards)[:, 0, src])
        leaves = options.count <= held
        spreads = np.minimum(np.minimum(options.count, self.sets_on), sets)
        every = np.arange(len(options.count))

        def values(end: int) -> IntArray:
            left = end - np.arange(end + 1)[:, None] - takes
            served = spreads[: end + 1] * w[np.maximum(left, 0), every]
            worth = np.minimum(options.count * self.each, served)
            return np.where(leaves[: end + 1] & (left >= 0), worth, 0)

        turns = Turns(options, busy, takes if backwards else busy)
        return turns.least_end(values, self.cap, self.need, rows)


class _Sums:
    """Sums with contributors outside W and wanting ranks inside, and the links into W."""

    def __init__(
        self, instance: Instance, inside: BoolArray, crossing: Crossing, options: GroupOptions
    ) -> None:
        chunks = crossing.chunks
        contributing = contributing_outside(instance, chunks, inside)
        self.instance, self.num_sums = instance, len(chunks)
        self.back = instance.once(on_reversed_links)
        self.within = Layer.of(instance, chunks, inside)
        every = Layer.of(instance, chunks)
        contributors = np.zeros(len(inside), dtype=np.bool_)
        contributors[contributing.rank] = True
        self.outside = replace(every, wanted=contributors)
        size = np.bincount(contributing.chunk, minlength=instance.problem.num_chunks)
        self.contributors = int(size[chunks].min())
        self.wanting = int(wanting(instance, chunks, inside).min())
        self.options = options
        slots = range(len(self.options.ports))
        self.cap = np.array(
            [every.many_on_any(self.options.links_of(slot)) for slot in slots], dtype=np.int64
        )

    def least_ticks(self, tick_us: float, rows: int) -> int | None:
        """The least T in ticks; None if it is not below `rows`."""
        options, topology = self.options, self.instance.problem.topology
        takes, busy = options.ticks(self.instance.problem, tick_us)
        src, dst = topology.src[options.links], topology.dst[options.links]
        backwards = not topology.reads_backwards
        g = options.best_of(max_informed(self.back, [self.outside], tick_us, rows, backwards)[:, 0, src])
        w = options.best_of(max_informed(self.instance, [self.within], tick_us, rows)[:, 0, dst])
        collected = options.count * np.minimum(1.0, g / self.contributors)
        spread = np.minimum(1.0, w / self.wanting)
        every = np.arange(len(options.count))

        def values(end: int) -> FloatArray:
            left = end - np.arange(end + 1)[:, None] - takes
            worth = collected[: end + 1] * spread[np.maximum(left, 0), every]
            return np.where(left >= 0, worth, 0.0)

        return Turns(options, busy, busy).least_end(values, self.cap, self.num_sums, rows)


def on_reversed_links(instance: Instance) -> Instance:
    """The same demand with every link turned round."""
    problem = instance.problem
    return Instance(replace(problem, topology=problem.topology.reversed()))


def wanting(instance: Instance, chunks: IntArray, inside: BoolArray) -> IntArray:
    """How many ranks of a set want each chunk, shape (len(chunks),)."""
    wants = instance.demand.wants
    many = np.bincount(wants.chunk[inside[wants.rank]], minlength=instance.problem.num_chunks)
    return np.asarray(many[chunks])


def contributing_outside(instance: Instance, chunks: IntArray, inside: BoolArray) -> Pairs:
    """Where some chunks start outside a set of ranks."""
    starts = instance.demand.starts
    chosen = np.zeros(instance.problem.num_chunks, dtype=np.bool_)
    chosen[chunks] = True
    return starts.some(chosen[starts.chunk] & ~inside[starts.rank])


def disjoint_sets(instance: Instance, chunks: IntArray, inside: BoolArray) -> IntArray:
    """A number for each chunk, the same for chunks of one set: no rank of W wants two chunks of a set.

    Only chunks that start at the same ranks and may go the same routes come into one set.
    """
    wants = instance.demand.wants
    place = np.full(instance.problem.num_chunks, -1, dtype=np.int64)
    place[chunks] = np.arange(len(chunks))
    kept = (place[wants.chunk] >= 0) & inside[wants.rank]
    chunk, rank = place[wants.chunk[kept]], wants.rank[kept]
    kind = np.unique(may_go_equally(instance)[chunks], return_inverse=True)[1].ravel()
    first = np.searchsorted(chunk, np.arange(len(chunks) + 1))
    number = np.zeros(len(chunks), dtype=np.int64)
    if (np.diff(first) == 1).all():
        # One rank for each chunk: they are counted for each kind and rank.
        key = kind * len(inside) + rank
        order = np.argsort(key, kind="stable")
        begins = np.searchsorted(key[order], key[order])
        number[order] = np.arange(len(chunks)) - begins
    else:
        taken = np.zeros((int(kind.max(initial=0)) + 1, len(inside)), dtype=np.int64)
        for each in range(len(chunks)):
            wanted = rank[first[each] : first[each + 1]]
            number[each] = taken[kind[each], wanted].max(initial=0)
            taken[kind[each], wanted] = number[each] + 1
    return np.unique(np.stack([kind, number]), axis=1, return_inverse=True)[1].ravel()


def one_of_each_orbit(instance: Instance, cuts: Sequence[Cut]) -> list[Cut]:
    """Cuts of which no other is the image under a symmetry."""
    elements = instance.group.rank_map
    seen: set[frozenset[int]] = set()
    chosen = []
    for cut in cuts:
        if cut.ranks not in seen:
            chosen.append(cut)
            seen |= {frozenset(element[list(cut.ranks)].tolist()) for element in elements}
    return chosen


def in_turn(
    instance: Instance, cuts: Sequence[Cut], most: int, known_us: float, budget: Budget
) -> Iterator[tuple[Cut, float]]:
    """Cuts of different orbits as long as there is budget left, each with what is known by then.

    Parameters
    ----------
    most : no more cuts than this.
    known_us : what is known when the first has its turn; others may prove more meanwhile.
    """
    for cut in one_of_each_orbit(instance, cuts)[:most]:
        if not budget.remaining_s():
            return
        yield cut, max(known_us, instance.bound_us)


def looks_equivalent(instance: Instance, inside: BoolArray, chosen: BoolArray) -> IntArray:
    """For each rank the least that a symmetry which keeps W and C takes it to, shape (num_ranks,).

    `inside`, shape (num_ranks,), says which ranks are W, and `chosen`, shape (num_chunks,), which chunks C.
    """
    group = instance.group
    keeps = (inside[group.rank_map] == inside).all(axis=1) & (chosen[group.chunk_map] == chosen).all(axis=1)
    return np.asarray(group.rank_map[keeps].min(axis=0, initial=len(inside)))


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    yield STAGED_CUT.proof(0.0, "nothing has to enter")
    instance = view.instance
    if not known_us:
        return
    if view.problem.collective.is_reduction:
        cuts = one_of_each_orbit(instance, [*node_cuts(instance), *instance.once(Crossings).cuts])
        cuts, prove = cuts[:STAGED_CUT_MOST_CUTS_OF_SUMS], staged_sums_bound
    else:
        cuts, prove = one_of_each_orbit(instance, node_cuts(instance)), staged_cut_bound
    entries = instance.once(Entries)
    for cut in cuts:
        if not budget.remaining_s():
            return
        proof = prove(view, cut, known_us, budget)
        entries.note(cut, proof.value_us)
        yield proof


STAGED_CUT = Bound(
    name="staged-cut",
    about="a node: the time before its narrow links in, on them (over all groupings) and after them, "
    "each exactly (a staged cut: gather, cross, scatter). For sums also a rank and all but it: what leaves "
    "before all was collected, or comes late, is worth a part of a sum",
    remedy="more or faster links there, or shorter routes to and from there",
    prove=_prove,
    features=RELAXED,
)

r"""Staged cuts (gather, cross, scatter): what comes late through a narrow cut is worth little.

Let W be a set of ranks that some chunks must enter (`cuts`). What crosses into W is worth what it can still
serve there, the less the later it comes (`staged_copies`, `staged_sums`). Groups through one port take turns,
so what all that use port p serve is at most A(p, T), with d_ln and b_ln as in `steps`,

    A(p, y) = max over links l of p into W, and n, of  A(p, y - b_ln) + value(n, y - b_ln, y - b_ln + d_ln),

and T is possible only if the sum of A(p, T) over the ports into W is no less than all that is wanted there.
The least such T is a bound by decomposition: the time before the cut, on it (turns, over all routes of
grouping) and after it. First each chunk of a group is spread as if by itself; where that comes near to what
is known, the chunks of a group share the network before and after the cut. Where ports are busy at the ends
of sends (`steps`),

    A(p, y) = max of A(p, y - b_ln) + value(n, y - d_ln, y).

What comes *last* through the cut says more of copies (`staged_late`), and so does a port that all have to
pass (`staged_one_group`); of sums, what leaves *first* through all ports (`staged_sums`).

*Lemma (the tree of last transfers).* g(u, x), counted as a spread from u on the reversed links, is no less
than the number of ranks whose contributions to one chunk can be in the sum that u holds at x. For a program,
let R be the ranks other than u from which transfers of this chunk lead to u by x, and keep for each rank of R
the last transfer with which such a way begins. (1) They are a tree with root u: the transfer kept for q goes
to a rank q' on a way to u; if q' is not u, a transfer leaves q' after it has arrived there, so the one kept
for q' leaves later still, and no circle is possible. (2) It loses nothing: every contribution in the sum of u
came along some way to u, so its rank is in R. (3) Read backwards from x, each kept transfer copies the chunk
from q' to q over the reversed link, after q' has it, on the same ports for as long: a spread from u that
reaches all of R. Sums that cross, `staged_sums`, and the reversed views rest on this lemma.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.capacity import name_ports
from taccl.encoding.bounds.cuts import Crossing, Crossings, Cut, members, narrow_cuts, rank_looks, root_cuts
from taccl.encoding.bounds.entering import Entering
from taccl.encoding.bounds.port_turns import Routes, Turns
from taccl.encoding.bounds.staged_copies import CopiesEntering
from taccl.encoding.bounds.staged_late import late_us
from taccl.encoding.bounds.staged_one_group import has_one_port, one_group_us
from taccl.encoding.bounds.staged_sums import SumsEntering
from taccl.encoding.bounds.steps import OutOfBudget, TooManyRoutes, is_too_large
from taccl.encoding.bounds.tuning import (
    STAGED_CUT_HORIZON,
    STAGED_CUT_LOOKS,
    STAGED_CUT_MOST_CLASSES,
    STAGED_CUT_MOST_CUTS,
    STAGED_CUT_MOST_S,
    STAGED_CUT_SHARE,
    STAGED_CUT_SOON_S,
)
from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray
from taccl.model.units import format_count
from taccl.support.budget import Budget

#: A closer look at a cut proves at most 1.17 times as much in all that was tried (120 cuts of four machines),
#: and takes seconds.
_CLOSER = 1.25
#: What is more by no more than this part is the same.
_MORE = 1e-9

#: A way to prove a bound: from the bound that is known to a larger one (both microseconds, 0: there is none),
#: and how, which ends the witness and tells the cases of a look apart.
_Case = tuple[Callable[[float], float], str]
#: The cases of a look in turn, from the bound that is known: what each proves, and how.
_Cases = Callable[["Look", float, Budget], Iterator[tuple[float, str]]]
_Entering = CopiesEntering | SumsEntering
_BY_THEMSELVES = "gathered before and spread after"


def staged_cut_bound(
    view: View, cut: Cut, known_us: float, budget: Budget, closer: bool = True
) -> Iterator[Proof]:
    """What is proved of a cut beyond what is known, better and better; `closer`: by closer looks, too."""
    crossings = view.instance.once(Crossings).of(cut)
    for crossing in crossings if len(crossings) <= STAGED_CUT_MOST_CLASSES else crossings[-1:]:
        chunks, reduces = crossing.chunks, view.problem.collective.is_reduction
        if reduces:
            chunks = chunks[view.problem.collective.reduces[chunks]]
        if not len(chunks):
            continue
        entering = Crossing(chunks, crossing.links)
        what = f"{format_count(len(chunks), 'sum' if reduces else 'chunk')} {cut.name}"
        cases = partial(_proofs, is_all=crossing is crossings[-1], closer=closer)
        for value_us, ports, how in _proofs_of_looks(view, cut, entering, cases, known_us, budget):
            if value_us > known_us * (1 + _MORE):
                known_us = value_us
                through = name_ports(view.problem, ports)
                yield STAGED_CUT.proof(value_us, f"{what} through {through}, {how}")


class Look:
    """A look at a crossing up to a horizon.

    What it has worked out is kept, and cases that ended are not worked out again. So a look that was cut
    short goes on where it stopped.
    """

    def __init__(self, at: Entering) -> None:
        self.whole = _entering(at)
        self._apart: _Entering | None = None
        self._ports: dict[tuple[bool, bool], Sequence[Routes] | None] = {}  # None: they are too many
        self._ended: set[tuple[bool, str]] = set()

    @property
    def apart(self) -> _Entering:
        """The same with what is a node's own and what is others' counted apart."""
        if self._apart is None:
            self._apart = _entering(self.whole.at.counted_apart(self.whole.at.budget))
        return self._apart

    def turns(self, entering: _Entering, shared: bool) -> Turns:
        """The turns of what enters, as a whole or counted apart, within its budget.

        Raises
        ------
        OutOfBudget : before they are known.
        """
        key = entering is self._apart, shared
        if key not in self._ports:
            try:
                self._ports[key] = entering.turns(shared).ports
            except TooManyRoutes:
                self._ports[key] = None
        ports = self._ports[key]
        if ports is None:
            raise TooManyRoutes
        return Turns(ports, entering.at.horizon_us, entering.at.budget)

    def value_us(self, entering: _Entering, case: _Case, known_us: float, budget: Budget) -> float:
        """What a case proves; 0 where it ended before.

        Raises
        ------
        OutOfBudget : before that is known.
        """
        least_end_us, how = case
        if (entering is self._apart, how) in self._ended:
            return 0.0
        entering.at.budget = budget
        value_us = least_end_us(known_us)
        if budget.remaining_s():
            self._ended.add((entering is self._apart, how))
        return value_us

    def by_themselves(self, entering: _Entering) -> _Case:
        return partial(self._least_end_us, entering, False), _BY_THEMSELVES

    def closer(self, entering: _Entering, is_all: bool) -> Iterator[_Case]:
        """Closer looks; `is_all` says that these are all chunks that must enter."""
        at = entering.at
        yield partial(self._least_end_us, entering, True), "all of a group gathered and spread at once"
        if not is_all:
            return
        if isinstance(entering, SumsEntering):
            with suppress(OutOfBudget):
                for first in entering.firsts():
                    yield first.least_end_us, f"{first.many} collected first"
            return
        if not at.at_ends:
            yield partial(late_us, at), "the last gathered"
        if has_one_port(at):
            yield partial(one_group_us, at), "in one group or with one more alpha"

    def _least_end_us(self, entering: _Entering, shared: bool, known_us: float) -> float:
        return self.turns(entering, shared).least_end_us(entering.need, known_us)


def _looks(instance: Instance) -> dict[tuple[bool, bytes, bytes, bytes], Look]:
    """By whether a view is read backwards, ranks, chunks and links; `instance.once(_looks)`."""
    return {}


def _proofs_of_looks(
    view: View, cut: Cut, crossing: Crossing, cases: _Cases, known_us: float, budget: Budget
) -> Iterator[tuple[float, IntArray, str]]:
    """What is proved of a crossing, through which ports, and how: further on where that is the horizon."""
    inside = members(view.problem.num_ranks, cut.ranks)
    key = view.backwards, inside.tobytes(), crossing.chunks.tobytes(), crossing.links.tobytes()
    looks = view.instance.once(_looks)
    for _ in range(STAGED_CUT_LOOKS):
        if key not in looks or looks[key].whole.at.horizon_us <= known_us:
            looks[key] = Look(Entering(view, inside, crossing, STAGED_CUT_HORIZON * known_us, budget))
        at = looks[key].whole.at
        for value_us, how in cases(looks[key], known_us, budget):
            known_us = max(known_us, value_us)
            yield value_us, np.unique(at.port), how
        if known_us < at.horizon_us:
            return


def _proofs(
    look: Look, known_us: float, budget: Budget, is_all: bool, closer: bool
) -> Iterator[tuple[float, str]]:
    """What is proved of a crossing, and how; `is_all` says that these are all chunks that must enter."""
    entering = look.whole
    with suppress(OutOfBudget):
        value_us = look.value_us(entering, look.by_themselves(entering), known_us, budget)
        yield value_us, _BY_THEMSELVES
        if entering.at.spans_nodes:
            apart, share, known_us = look.apart, budget.share(STAGED_CUT_SHARE), max(known_us, value_us)
            with suppress(OutOfBudget):
                value_us = max(value_us, look.value_us(apart, look.by_themselves(apart), known_us, share))
                entering = apart
                yield value_us, _BY_THEMSELVES
        if not closer:
            return
        known_us, entering.at.budget = max(known_us, value_us), budget
        if not value_us and look.turns(entering, shared=False).allow(entering.need, known_us / _CLOSER):
            return
        for case in look.closer(entering, is_all):
            with suppress(OutOfBudget):
                value_us = look.value_us(entering, case, known_us, budget.share(STAGED_CUT_SHARE))
                known_us = max(known_us, value_us)
                yield value_us, case[1]


def _entering(at: Entering) -> _Entering:
    return SumsEntering(at) if at.problem.collective.is_reduction else CopiesEntering(at)


def _one_of_each_look(instance: Instance, cuts: Sequence[Cut]) -> list[Cut]:
    """Cuts of which no two have ranks that look the same, joined to the others by as many equal links."""
    looks, topology = instance.once(rank_looks), instance.problem.topology
    chosen: dict[bytes, Cut] = {}
    for cut in cuts:
        inside = members(topology.num_ranks, cut.ranks)
        enters = ~inside[topology.src] & inside[topology.dst]
        costs = np.stack([topology.alpha_us[enters], topology.beta_us_per_mb[enters]])
        kinds, many = np.unique(costs, axis=1, return_counts=True)
        key = np.sort(looks[inside]).tobytes() + kinds.tobytes() + many.tobytes()
        chosen.setdefault(key, cut)
    return list(chosen.values())


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    yield from _of_cuts(view, known_us, budget.at_most(STAGED_CUT_MOST_S), closer=True)


def _prove_soon(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    yield from _of_cuts(view, known_us, budget.at_most(STAGED_CUT_SOON_S), closer=False)


def _of_cuts(view: View, known_us: float, budget: Budget, closer: bool) -> Iterator[Proof]:
    yield STAGED_CUT.proof(0.0, "nothing has to enter")
    instance = view.instance
    if not known_us or is_too_large(view.problem):
        return
    cuts = narrow_cuts(instance)
    if view.problem.collective.is_reduction:
        cuts = [*cuts, *instance.once(Crossings).cuts]
    elif closer:
        cuts = [*cuts, *root_cuts(instance)]
    for cut in _one_of_each_look(instance, cuts)[:STAGED_CUT_MOST_CUTS]:
        if not budget.remaining_s():
            return
        known_us = max(known_us, instance.bound_us)  # others may prove more meanwhile, and so did this one
        yield from staged_cut_bound(view, cut, known_us, budget.share(STAGED_CUT_SHARE), closer)


STAGED_CUT = Bound(
    name="staged-cut",
    about="a node: the time before its narrow links in, on them (over all groupings) and after them, where "
    "chunks of a group share the network (a staged cut: gather, cross, scatter); what comes last, and what "
    "leaves first through all ports, gathered at once. Also all but a root; for sums a rank and all but it",
    remedy="more or faster links there, or shorter routes to and from there",
    prove=_prove,
    features=RELAXED,
    goes_on=True,
)

STAGED_SOON = Bound(
    name="staged-soon",
    about="`staged-cut` before any closer look: each chunk of a group gathered before the narrow links and "
    "spread after them as if by itself",
    remedy=STAGED_CUT.remedy,
    prove=_prove_soon,
    features=RELAXED,
)

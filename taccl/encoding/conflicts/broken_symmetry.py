r"""Which rules contradict a symmetry: a permutation p of the ranks that is to leave everything as it is.

With a literal for each rule and one for the symmetry, link(l) for "link l is there" and may(h, l) for "it is
there, and chunks of owner h may use it":

    1. A rule about all owners, if it holds, takes away link(l) for each link that it forbids; a link that all
       rules about it allow is there, if they all hold.
    2. The same for may(h, l) and all rules about owner h.
    3. The symmetry, if it holds, makes link(l) and link(p(l)) equal, and may(h, l) and may(p(h), p(l)).
       Where p(l) is no link, or one of other costs, link(l) must not be there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import z3

from taccl.encoding.conflicts.core import Core, minimal_core
from taccl.model.automorphism import differences
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import LogicalTopology
from taccl.model.problem import Rule
from taccl.model.tolerance import SAME_COST
from taccl.support.budget import Budget


def rules_breaking(
    everything: LogicalTopology, rules: Sequence[Rule], permutation: IntArray, budget: Budget
) -> Core | None:
    """Rules, by their positions, that cannot hold together with a symmetry; None if they can.

    None also if what breaks the symmetry is no matter of which links may be used. No members: the links of
    the machine break it, whatever is ruled out. All, not minimal: the solver cannot tell in time.

    Raises
    ------
    KeyboardInterrupt : the user stopped the solver.
    SolverError : z3 failed.
    """
    images = _images(everything, permutation)
    links = _Table(z3.Bool("symmetry"), [z3.Bool(f"rule {number}") for number in range(len(rules))])
    about_all = [(number, rule) for number, rule in enumerate(rules) if rule.owners.all()]
    literals = [*links.holds, links.symmetry]
    solver: Any = z3.SolverFor("QF_FD")
    there = np.ones(everything.num_links, dtype=np.bool_)
    for _, rule in about_all:
        there &= ~rule.forbids
    for constraint in links.of_owner(-1, -1, about_all, _followed(there, images), images):
        solver.add(constraint)
    core = minimal_core(solver, literals, budget)
    by_owner = [rule.scope for rule in rules if not rule.owners.all()]
    if core is None and by_owner:
        differ = np.any(by_owner, axis=0)
        kept = np.flatnonzero(there & (differ | differ[images]))
        for owner in range(everything.num_ranks):
            about = [(number, rule) for number, rule in enumerate(rules) if rule.owners[owner]]
            for constraint in links.of_owner(owner, int(permutation[owner]), about, kept, images):
                solver.add(constraint)
        core = minimal_core(solver, literals, budget)
    if core is None:
        return None
    return Core(tuple(number for number in core.members if number < len(rules)), core.is_minimal)


def _images(everything: LogicalTopology, permutation: IntArray) -> IntArray:
    """Where each link goes, shape (num_links,); -1 where that is no link or one of other costs."""
    image = everything.link_map(permutation)
    apart = [differences(cost, cost[image]) for cost in (everything.alpha_us, everything.beta_us_per_mb)]
    return np.where(np.maximum(*apart) <= SAME_COST, image, -1)


def _followed(there: BoolArray, images: IntArray) -> IntArray:
    """The links that are there, and where a symmetry takes them again and again: others can all be absent."""
    met, now = set(np.flatnonzero(there).tolist()), np.flatnonzero(there)
    while len(now := images[now][images[now] >= 0]):
        now = np.array([link for link in now.tolist() if link not in met], dtype=np.int64)
        met.update(now.tolist())
    return np.array(sorted(met), dtype=np.int64)


@dataclass(frozen=True)
class _Table:
    """The literals, and the constraints of one owner; owner -1 stands for `link`, without a owner."""

    symmetry: Any
    holds: list[Any]

    def of_owner(
        self,
        owner: int,
        moved_owner: int,
        about: Sequence[tuple[int, Rule]],
        links: IntArray,
        images: IntArray,
    ) -> Iterator[Any]:
        """Rules 1 to 3 for some of the links."""
        for link in links.tolist():
            may = z3.Bool(f"may {owner} {link}")
            covering = [(number, rule) for number, rule in about if rule.scope[link]]
            for number, rule in covering:
                if not rule.allows[link]:
                    yield z3.Implies(self.holds[number], z3.Not(may))
            if all(rule.allows[link] for _, rule in covering):
                yield z3.Implies(z3.And(*(self.holds[number] for number, _ in covering)), may)
            image = int(images[link])
            moved = z3.BoolVal(False) if image < 0 else z3.Bool(f"may {moved_owner} {image}")
            yield z3.Implies(self.symmetry, may == moved)

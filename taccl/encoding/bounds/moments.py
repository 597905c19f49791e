r"""Moment by moment: a linear program over what looks equivalence, with time in cells.

Take a schedule that ends by T, and cells of time of length w, from 0 on. It is one of copies (`views`), and
each chunk comes to a rank once, and never to one where it starts: leave out what comes again, and let the
group with fewer chunks begin when it did (end when it did, where ports are busy at the ends of sends). Let

    x[c, l, n, i]   be 1 if chunk c passes link l in a group of n that begins in cell i,
    g[l, n, i]      the number of groups of n chunks that begin there on link l,
    y[c, u, i]      1 if c has come to u by cell i: in that cell, or in one before.

With d_ln and b_lpn how long n chunks take and keep port p busy, these hold:

- *Sends end in time*: i w + d_ln <= T.
- *Coming.* What begins in cell i is not there before cell i + floor(d / w). So y[c, u, i] is no more than
  the sum of x over the links l into u, n, and cells up to i - floor(d_ln / w). Nor is it more than what has
  come into the node of u by then, the shortest way from there to u included, where c comes from outside.
- *Once.* The sum of x over the links into u is no more than 1, and it is 1 where c is wanted.
- *Leaving.* Over each link: the sum of x up to cell i is no more than y[c, u, i], u being the sender.
- *Turns.* On a port a send begins to be busy no sooner than b after another, b being the least that c takes
  there. In k cells that is ceil(k w / b) times at most: once for k = floor(b / w). And never before c has
  come. So the sum of x over the links of u through p, and the cells from i - k + 1 to i, is no more than
  ceil(k w / b) y[c, u, i]. That is why chunks at best double, however many ranks share in having them. Where
  ports are busy at the ends of sends, and some begin to be busy later after their start than others, the
  cells of each link are those in which a send is certain to begin to be busy within the same k w.
- *Groups.* x[c, l, n, i] <= g[l, n, i], and the sum over c of x[c, l, n, i] is n g[l, n, i]. Of large groups
  one n stands for several: `least` for how long they take, and n is no more than `most`.
- *Ports.* What begins to keep a port busy from cell i on does so for T - i w at most, less what each send
  lasts after it. And in a window of cells lies no more than its length: of each group what lies in it
  wherever in its cell it begins, the least of both ends of the cell, for of a moving turn a window cuts out
  first more and then less.

A solution of these with 0 <= x, y <= 1 need be no schedule, but every schedule is one. Means over what is
equivalent (`equivalence`) are solutions too, so there is one variable for each class. If no solution brings
all that is wanted, no schedule ends by T. Prices of the rows show it (`Program.shows`), whatever solver they
are from.

Durations are longer by a part of 1e-9 in the rows, and what is proved is less by twice that. A schedule that
is stretched by that much has longer sends, so it is one of the stretched problem, and has room for rounding.

Cells that divide all durations lose least; w is looked for among parts of durations.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.cells import ALL, STRETCH, cell_us, too_soon
from taccl.encoding.bounds.equivalence import Equivalence
from taccl.encoding.bounds.moments_program import Program, group_sizes
from taccl.encoding.bounds.tuning import (
    MOMENTS_FEWEST_CELLS,
    MOMENTS_MOST_CELLS,
    MOMENTS_MOST_CROSSINGS,
    MOMENTS_MOST_PARTED,
    MOMENTS_MOST_PASSAGES,
    MOMENTS_MOST_S,
    MOMENTS_MOST_VARIABLES,
    MOMENTS_SHARE,
    MOMENTS_STEPS,
    MOMENTS_UNITS_PER_ROW,
)
from taccl.encoding.bounds.views import View
from taccl.encoding.core.linear import solve
from taccl.encoding.instance import Instance
from taccl.model.units import format_count
from taccl.support.budget import Budget


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    yield MOMENTS.proof(0.0, "nothing has to move")
    instance = view.instance
    if not known_us or view.problem.collective.is_reduction or _is_too_large(instance):
        return
    equivalence = instance.once(Equivalence.of)
    cells = min(MOMENTS_MOST_CELLS, MOMENTS_MOST_VARIABLES // max(1, _variables(equivalence)))
    if cells < MOMENTS_FEWEST_CELLS:
        return
    budget = budget.share(MOMENTS_SHARE).at_most(MOMENTS_MOST_S)

    def is_too_soon(horizon_us: float) -> bool:
        if not budget.remaining_s():
            return False
        program = Program(view, equivalence, horizon_us, cell_us(instance.durations_us, horizon_us, cells))
        budget.spend(MOMENTS_UNITS_PER_ROW * program.model.num_rows)
        return program.shows(solve(program.model, budget=budget)) < ALL

    many = format_count(view.problem.num_chunks, "chunk")
    for horizon_us in too_soon(known_us, is_too_soon, MOMENTS_STEPS):
        yield MOMENTS.proof(
            horizon_us / (1 + 2 * STRETCH), f"{many}, moment by moment, shared by all that look alike"
        )


def _is_too_large(instance: Instance) -> bool:
    topology, chunks = instance.problem.topology, instance.problem.num_chunks
    node_of = topology.node_of
    across = int((node_of[topology.src] != node_of[topology.dst]).sum())
    crossings = chunks * across * int(np.bincount(node_of).max(initial=0))
    if not topology.num_links or not len(instance.demand.lacking) or crossings > MOMENTS_MOST_CROSSINGS:
        return True
    passages = chunks * topology.num_links
    if passages > MOMENTS_MOST_PASSAGES:
        return True
    # Classes are parted once more for each step away from what starts at a rank.
    steps = len(np.unique(np.round(instance.distances_us[0], 6)))
    return passages * steps > MOMENTS_MOST_PARTED


def _variables(equivalence: Equivalence) -> int:
    """How many variables a cell has, about."""
    problem, classes = equivalence.instance.problem, equivalence.classes
    on = np.bincount(equivalence.link, minlength=problem.topology.num_links)
    sizes = np.array(
        [len(group_sizes(min(int(many), problem.max_group))) if many else 0 for many in on.tolist()]
    )
    first = np.unique(classes.passages, return_index=True)[1]
    links = np.unique(classes.links, return_index=True)[1]
    places = int(classes.places.max(initial=0)) + 1
    return int(sizes[equivalence.link[first]].sum() + sizes[links].sum()) + places


MOMENTS = Bound(
    name="moments",
    about="copies in a linear program with time in cells: what comes to a rank has left another one before, "
    "ports are busy with all of it, and alphas are shared by groups (one variable for all that look alike)",
    remedy="shorter alphas, more or faster links where all of it has to wait",
    prove=_prove,
    features=RELAXED,
)

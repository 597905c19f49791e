r"""Flows in time: what is sent has to be a way for every pair, and ports have to have time for it.

Take a schedule that ends by T, cells of time of length w, from 0 on, and a *kind* of chunks: those that start
at the same ranks and are wanted at the same ones, V MB of them. Chunks are copied from one rank, or are sums.
Let

    x[l, j, i]    be how often a chunk of the kind passes link l in a send of class j that begins in cell i,
    f[a, b, l, j, i]   whether it does so on its way from a, where it starts, to b, where it is wanted,

both in the mean over these chunks; of a sum it is a contribution that has a way from each a to each b. With
d_lj the least that a send of class j takes:

- *Sends end in time*: i w + d_lj <= T.
- *Ways are sends*: f <= x, for each l, j and i.
- *Ways go on*: over the links out of a rank that is neither a nor b, f up to cell i is no more than over the
  links into it, up to cell i - floor(d / w); and over the links into b it is 1.
- *Sums*: of m contributions that k ranks want, m + k - 2 transfers at least. Take the first rank at which a
  sum is complete. Before, each other contribution has been sent; after, each other rank is sent something.
- *Ports*: in a window of cells, what surely lies in it takes no longer than the window is, less, at the end,
  what a send lasts after it has kept the port busy.

*Classes of sends.* Where alpha keeps ports busy, a send of B MB takes alpha + B beta, and each MB of it keeps
a port busy for alpha / B + beta. A class holds the sends of B1 to B2 MB, takes as long as B1 at least, and is
charged alpha / B2 + beta. Its busy time surely lies in a window if that of B2 does. No send has a chunk twice
(`Schedule.check`), so none has more MB than there are.

Where alpha keeps no port busy, sends are cut into *pieces* as small as one likes that begin one after
another: each begins no sooner than its send did and ends no later (where ports are busy at the ends, pieces
end one after another). So one class is enough, which takes alpha. On a port as slow as the link, pieces keep
it busy when their send did. On a faster port a send is over sooner than its pieces: in time [0, t] as many
pieces as are over by t took no more of the port than the send did by then, so windows from the beginning
hold, and, where ports are busy at the ends, those to the end.

*One variable for all that are alike.* An automorphism g of the problem takes a schedule to one, x of kind k
to x of kind gk, and ways from a to b to ways from ga to gb. The mean over all g is a solution, equal on each
orbit: on links under those that keep the kind, for a way under those that keep its ends, too, and on a port
the mean over its orbit. Orbits under some automorphisms (`orbits`) are parts of these, so one variable for
each, for one kind of each orbit of kinds and for some of its ways, is a program that has a solution if there
is a schedule. Prices of its rows show where it has none (`CellProgram.shows`).

Nothing here asks how large a chunk is, so it holds for any number of equal chunks.

This is the linear program of multicommodity flows over time (Ford and Fulkerson 1958) that share what they
have in common, as paths of a directed Steiner tree do (Wong 1984).
"""

from __future__ import annotations

from collections.abc import Iterator

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.cells import ALL, STRETCH, cell_us, too_soon
from taccl.encoding.bounds.timed_flow_layout import Layout
from taccl.encoding.bounds.timed_flow_program import Program
from taccl.encoding.bounds.tuning import (
    TIMED_FLOW_CELLS,
    TIMED_FLOW_MOST_CELLS,
    TIMED_FLOW_MOST_LINKS,
    TIMED_FLOW_MOST_S,
    TIMED_FLOW_MOST_VARIABLES,
    TIMED_FLOW_SHARE,
    TIMED_FLOW_SIZES,
    TIMED_FLOW_STEPS,
    TIMED_FLOW_UNITS_PER_ROW,
)
from taccl.encoding.bounds.views import View
from taccl.encoding.core.linear import solve
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    yield TIMED_FLOW.proof(0.0, "nothing has to move", any_chunks=True)
    # Sums or copies alone are part of what the first view asks for.
    if not known_us or view.requested is None or _says_little(view.instance):
        return
    layout = Layout.of(view.instance)
    if layout is None or _variables(layout, view.problem) > TIMED_FLOW_MOST_VARIABLES:
        return
    alpha_us, way = view.problem.topology.alpha_us, layout.commodities[0].ways[0]
    budget = budget.share(TIMED_FLOW_SHARE).at_most(TIMED_FLOW_MOST_S)

    def is_too_soon(horizon_us: float) -> bool:
        if not budget.remaining_s():
            return False
        program = Program(view, layout, horizon_us, cell_us(alpha_us, horizon_us, TIMED_FLOW_CELLS))
        budget.spend(TIMED_FLOW_UNITS_PER_ROW * program.model.num_rows)
        return program.shows(solve(program.model, budget=budget)) < ALL

    for horizon_us in too_soon(known_us, is_too_soon, TIMED_FLOW_STEPS):
        yield TIMED_FLOW.proof(
            horizon_us / (1 + 2 * STRETCH),
            f"ways for all at once, such as from rank {way.source} to rank {way.end}",
            any_chunks=True,
        )


def _says_little(instance: Instance) -> bool:
    """Of large machines, links without beta, and where others say as much.

    Those are `flow` of chunks from one rank to one, and recurrences of copies where alpha keeps ports busy.
    """
    problem, topology = instance.problem, instance.problem.topology
    if instance.demand.moves_pairwise or (_keeps_ports_busy(problem) and not problem.collective.is_reduction):
        return True
    if not topology.num_links or topology.num_links > TIMED_FLOW_MOST_LINKS:
        return True
    if problem.num_chunks * problem.num_ranks > TIMED_FLOW_MOST_CELLS:
        return True
    return not len(instance.demand.lacking) or not problem.chunk_mb or not topology.beta_us_per_mb.all()


def _keeps_ports_busy(problem: Problem) -> bool:
    return problem.topology.is_serial


def _variables(layout: Layout, problem: Problem) -> int:
    sizes = TIMED_FLOW_SIZES if _keeps_ports_busy(problem) else 1
    return layout.variables * sizes * TIMED_FLOW_CELLS


TIMED_FLOW = Bound(
    name="timed-flow",
    about="a linear program with time in cells: every pair has a way, what is sent is enough for all ways, "
    "and ports have time for it (one variable for all that symmetries take to each other)",
    remedy="shorter alphas, more or faster links where ways meet",
    prove=_prove,
    features=RELAXED,
    has_any_chunks=True,
    is_of_any_chunks=True,
    is_of_alphas=True,
    is_late=_keeps_ports_busy,
)

r"""What a flow costs at prices of port time and of waiting: a chunk waits for all that is sent with it.

For collectives in which every chunk has one source and one destination. Take a schedule that ends by T, and
of each chunk the sends that bring it to where it is wanted. A send of g MB over link l keeps its ports busy
for alpha_lp + g beta_lp each (no alpha where occupancy is pipelined), and a chunk takes no less than
alpha_l + g beta_l from one end of l to the other. Give ports prices y >= 0 of sum 1, and chunk c a price
q_c >= 0 of its time. Ports are busy for T at the most, and so long is each chunk on its way, so

    T (1 + sum of q_c)  >=  sum over sends of what its ports cost  +  sum over c of q_c (time of its sends).

Let each chunk, of s MB, pay its part s / g of what the ports of its sends cost. With its own time it pays on
l no less than

    pay_l(q)  =  min over g of   s / g sum over p of y_p (alpha_lp + g beta_lp)   +   q (alpha_l + g beta_l),

the least being taken for each chunk alone, whatever q those have that share its send. So with dist_q the
lengths of shortest routes under pay_l(q), and Y_l, B_l the sums of y_p and of y_p beta_lp over ports of l,

    T  >=  sum over c of dist_{q_c}(c)  /  (1 + sum over c of q_c).

With q = 0 groups are as large as can be, and this is the multicommodity flow alone. Without a limit of g
the least is at g = sqrt(s Y_l alpha_l / (q beta_l)):

    pay_l(q)  =  s B_l + q alpha_l + 2 sqrt(s Y_l alpha_l q beta_l),

which holds for any number of chunks, q being a price of the time of s MB. Of whole chunks g is a number of
them, no more than `max_group`.

The best q_c for T has the largest dist_q(c) - q T. So one after another of `WAITS_PRICES`, divided by the
number of chunks, is given to those chunks to which it is worth more than what they have, at the T that is
proved so far, and then more is proved (as in Dinkelbach 1967).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.flow_prices import (
    even_prices,
    has_flow,
    has_many_flows,
    lengths,
    port_prices,
    routes_us,
)
from taccl.encoding.bounds.tuning import WAITS_ANY, WAITS_NEAR, WAITS_PRICES, WAITS_PROGRAM, WAITS_UNITS
from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.model.network import FloatArray
from taccl.support.budget import Budget

#: Why no schedule is faster, and why nothing is proved.
_WAITS = "flow of chunks that wait for what is sent with them"
NO_FLOW = "no flow bound"
#: Sums of millions of numbers are rounded by less than this part.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Toll:
    """What the chunks of a problem pay on each link; columns of shape (num_links,).

    Parameters
    ----------
    send, body : what a send costs at its ports, without its bytes, and what the bytes of a chunk cost there.
    alpha_us, body_us : how long a send of no bytes takes, and what a chunk adds.
    most : the most chunks of a send; None: chunks may be cut anywhere, and sends may have any size.
    """

    send: FloatArray
    body: FloatArray
    alpha_us: FloatArray
    body_us: FloatArray
    most: int | None = None

    @staticmethod
    def of(instance: Instance, price: FloatArray) -> Toll:
        """At prices of the ports, shape (num_ports,), of sum 1."""
        topology, chunk_mb = instance.problem.topology, instance.problem.chunk_mb
        alpha_us = topology.alpha_us[topology.incidence[0]] * topology.is_serial
        send = lengths(instance, price, alpha_us)
        body = lengths(instance, price, topology.pair_betas * chunk_mb)
        return Toll(send, body, topology.alpha_us, topology.beta_us_per_mb * chunk_mb)

    def pay(self, wait: float) -> FloatArray:
        """What a chunk pays whose time has this price."""
        body = self.body + wait * self.alpha_us
        if not wait:
            return body if self.most is None else body + self.send / self.most
        if self.most is None:
            return np.asarray(body + 2 * np.sqrt(self.send * wait * self.body_us))
        best = np.full(len(body), np.inf)  # without beta groups are as large as can be
        np.divide(self.send, wait * self.body_us, out=best, where=self.body_us > 0)
        fewer = np.clip(np.floor(np.sqrt(best)), 1, self.most)
        more = np.minimum(fewer + 1, self.most)
        shared = (self.send / group + wait * self.body_us * group for group in (fewer, more))
        return np.asarray(body + np.minimum(*shared))


class Waits:
    """Prices of waiting that are tried one after another, next to those of the ports.

    Parameters
    ----------
    instance, toll : of which chunks, and what they pay.
    budget : for the flow alone.

    Attributes
    ----------
    alone_us : what is proved of the flow alone, microseconds.
    value_us : what is proved with all prices of waiting that were tried.
    """

    def __init__(self, instance: Instance, toll: Toll, budget: Budget) -> None:
        self._instance, self._toll, self._untried = instance, toll, list(WAITS_PRICES)
        self._whole: Waits | None = None
        self._route = self._routes_us(0.0, budget)
        self._price = np.zeros(len(self._route))
        self.alone_us = self.value_us = self._proved_us()

    @property
    def goes_on_whole(self) -> bool:
        """Whether whole chunks were begun with, and prices of them are left to try."""
        return self._whole is not None and bool(self._whole._untried)

    def of_whole_chunks(self, budget: Budget) -> Waits:
        """The same with sends of a number of chunks, no more than there may be in one."""
        if self._whole is None:
            problem = self._instance.problem
            most = min(problem.num_chunks, problem.max_group)
            self._whole = Waits(self._instance, replace(self._toll, most=most), budget)
        return self._whole

    def try_prices(self, budget: Budget) -> None:
        """Go on with the next prices while there is time."""
        while self._untried and budget.remaining_s():
            price = self._untried.pop(0) / self._instance.problem.num_chunks
            route = self._routes_us(price, budget)
            is_better = route - price * self.value_us > self._route - self._price * self.value_us
            self._route[is_better], self._price[is_better] = route[is_better], price
            self.value_us = self._proved_us()

    def _routes_us(self, price: float, budget: Budget) -> FloatArray:
        """What chunks whose time has this price pay on their shortest routes."""
        problem = self._instance.problem
        looks = problem.num_ranks * (problem.topology.num_links + problem.num_ranks) + problem.num_chunks
        budget.spend(WAITS_UNITS * looks)
        return routes_us(self._instance, self._toll.pay(price))

    def _proved_us(self) -> float:
        return float(self._route.sum()) / (1 + float(self._price.sum())) * (1 - _ROUNDING)


def flows(instance: Instance, budget: Budget) -> list[Waits]:
    """The flow at even prices and at those of the program, the best first; those that are nearly as good.

    Empty where chunks have several sources or destinations. What was tried stays, and what there was no time
    for is tried when it is asked again.
    """
    if not (instance.problem.num_chunks and instance.demand.moves_pairwise):
        return []
    known = instance.once(_Known)
    for price in known.even:
        known.found.append(Waits(instance, Toll.of(instance, price), budget))
        if not budget.remaining_s():
            break
    if has_flow(instance) and not known.is_solved:
        solved = port_prices(instance, instance.problem.topology.pair_betas, budget)
        if solved is not None:
            known.is_solved = True
            known.found.append(Waits(instance, Toll.of(instance, solved), budget))
    best_us = max((flow.alone_us for flow in known.found), default=0.0)
    near = (flow for flow in known.found if flow.alone_us >= WAITS_NEAR * best_us)
    return sorted(near, key=lambda flow: -flow.alone_us)


class _Known:
    """What an instance keeps: flows that were found, even prices not tried yet, whether it is solved."""

    def __init__(self, instance: Instance) -> None:
        self.found, self.even, self.is_solved = list[Waits](), even_prices(instance.problem.topology), False


def _prove_waits(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    if view.repeats:
        return
    found, share = flows(view.instance, budget.share(WAITS_PROGRAM)), budget.share(WAITS_ANY)
    if not found:
        yield WAITS.proof(0.0, NO_FLOW, any_chunks=True)
    for flow in found:
        flow.try_prices(share)
        yield WAITS.proof(flow.value_us, _WAITS, any_chunks=True)
    best = max(found, key=lambda flow: flow.value_us, default=None)
    # What is known may be what whole chunks themselves proved when this was asked before.
    is_near = best is not None and (best.goes_on_whole or best.value_us >= WAITS_NEAR * known_us)
    if best is not None and is_near and budget.remaining_s():
        whole = best.of_whole_chunks(budget)
        whole.try_prices(budget)
        yield WAITS.proof(whole.value_us, _WAITS)


WAITS = Bound(
    name="waits",
    about="chunks that go from one rank to one wait at each link for all that is sent with them: large "
    "groups take a chunk longer than there is time, and small ones keep ports busy with alphas",
    remedy="shorter alphas, fewer links on the way, or more or faster ones on the busiest routes",
    prove=_prove_waits,
    features=RELAXED,
    has_any_chunks=True,
    is_of_alphas=True,
    is_late=has_many_flows,
    goes_on=True,
)

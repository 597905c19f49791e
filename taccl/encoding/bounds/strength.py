r"""The strength bound: the partition that is hardest to get sums and copies across, found.

Until T each port has been busy for T at most. Let y be prices of the ports, not negative and of sum 1. Then
some port is busy for the average at least, and with link l at the weight sum of beta_lp y_p over its ports p,
what has to span ranks costs no less than a tree of least weight under the lighter direction of each pair of
ranks (`spanning`). Hence, for any such y,

    T  >=  sum over chunks of  MB * (weight of a least spanning tree),

of an AllReduce twice that, for its sums and its copies. Prices of 0 inside parts and equal ones between them
are one partition; other prices are several, which Kruskal's levels tell with the share of each. On two-way
links of equal speed the best is MB * beta / (strength of the graph) for an AllReduce (Cunningham 1985;
Barahona 1995), and is reached by a packing of trees.

Where there are helpers, `helped` has the weights and the trees. Whatever prices come out of `tree_prices`,
the tree alone is the proof: no solver and no rounding can make it wrong.

The worst partitions go to `volume` too, for whole chunks. And a port p that carries anything has an alpha_p
next to its busy time (`capacity`), so with F the right side above

    sum over p of y_p max(T - alpha_p, 0)  >=  F.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.capacity import Covers
from taccl.encoding.bounds.cuts import Crossings
from taccl.encoding.bounds.partitions import Partition, numbered, partitions
from taccl.encoding.bounds.spanning import Kind, kinds
from taccl.encoding.bounds.tree_prices import Priced, at_prices, best_prices
from taccl.encoding.bounds.tuning import STRENGTH_HARDLY, STRENGTH_SHARE
from taccl.encoding.bounds.views import View
from taccl.encoding.bounds.volume import VOLUME, volume_bound
from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.support.budget import Budget

#: Taken off, for float error, and so that `volume` tells what both prove.
_ROUNDING = 2e-9
#: Partitions to begin with, and those of the best prices that are reported and looked at alone, at most.
_MOST_FIRST, _MOST_REPORTED = 40, 3
#: This many parts of a partition are reported, and this many ranks of a part.
_PARTS_REPORTED, _RANKS_REPORTED = 3, 8


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    if view.requested is None or not view.problem.topology.num_links:
        return  # a part of the problem, which has been looked at as a whole
    spans = kinds(view)
    if not spans:
        return
    instance = view.instance
    known = list(partitions(view.problem, instance.once(Crossings).cuts))
    best: Priced | None = None
    for best in best_prices(instance, spans, _first(instance, known), budget.share(STRENGTH_SHARE), known_us):
        yield STRENGTH.proof(
            best.value_us * (1 - _ROUNDING), _witness(view, best, spans, known), any_chunks=True
        )
    if best is None:
        return
    best = _plainer(view, spans, best, known)
    witness = _witness(view, best, spans, known)
    yield STRENGTH.proof(best.value_us * (1 - _ROUNDING), witness, any_chunks=True)
    value_us = _with_alphas(instance, best.price, _in_chunks(best, spans) * view.problem.chunk_mb)
    yield VOLUME.proof(value_us * (1 - _ROUNDING), f"{witness}, and an alpha at each")
    yield volume_bound(instance, [partition for _, partition in _shares(view, best, spans, known)], budget)


def _plainer(view: View, spans: list[Kind], best: Priced, known: list[Partition]) -> Priced:
    """Prices without those that are hardly there, or those of one partition, where these prove no less."""
    clear = np.where(best.price > STRENGTH_HARDLY * best.price.max(), best.price, 0.0)
    alone = [partition for _, partition in _shares(view, best, spans, known)]
    for price in (clear / clear.sum(), *_first(view.instance, alone)):
        other = at_prices(view.problem.topology, spans, price)
        best = other if other.value_us >= best.value_us * (1 - _ROUNDING) else best
    return best


def _first(instance: Instance, known: list[Partition]) -> Iterator[FloatArray]:
    """Prices of partitions: those at which each MB between the parts costs the same."""
    for partition in known[:_MOST_FIRST]:
        links = partition.crossing(instance.problem)
        if not len(links):
            continue
        cover = instance.once(Covers).narrowest(links)
        price = np.zeros(instance.problem.topology.num_ports)
        with np.errstate(divide="ignore"):
            price[cover.ports] = instance.problem.chunk_mb / cover.chunk_us
        if np.isfinite(price).all():
            yield price / price.sum()


def _in_chunks(best: Priced, spans: list[Kind]) -> float:
    """What the trees cost, in whole chunks as small as the smallest."""
    return sum(kind.chunks * tree.weight for kind, tree in zip(spans, best.trees, strict=True))


def _with_alphas(instance: Instance, price: FloatArray, busy_us: float) -> float:
    """The least T with sum of price * max(T - alpha_p, 0) >= busy_us."""
    topology, chunk_mb = instance.problem.topology, instance.problem.chunk_mb
    link, port = topology.incidence
    alpha_us = np.full(topology.num_ports, np.inf)
    after_us = topology.alpha_us[link] + (topology.beta_us_per_mb[link] - topology.pair_betas) * chunk_mb
    np.minimum.at(alpha_us, port, after_us)
    used = np.flatnonzero((price > 0) & np.isfinite(alpha_us))
    order = used[np.argsort(alpha_us[used], kind="stable")]
    # With the first n ports at work (busy + sum of price * alpha) / sum of price: the least of these is T.
    total, weighted = np.cumsum(price[order]), np.cumsum(price[order] * alpha_us[order])
    return float(((busy_us + weighted) / total).min(initial=np.inf)) if len(order) else 0.0


def _shares(
    view: View, best: Priced, spans: list[Kind], known: list[Partition]
) -> list[tuple[float, Partition]]:
    """The partitions that prove most, and which part of it each does."""
    many = view.helped.num_members
    name_of = {numbered(partition.part_of[:many]).tobytes(): partition.name for partition in known}
    name_of[np.arange(many).tobytes()] = f"{many} ranks"
    found: dict[bytes, float] = {}
    example: dict[bytes, IntArray] = {}
    for kind, tree in zip(spans, best.trees, strict=True):
        for share, part_of in tree.parts():
            key = numbered(part_of[:many]).tobytes()
            found[key] = found.get(key, 0.0) + share * kind.mb * tree.weight / best.value_us
            example.setdefault(key, numbered(part_of))
    most = sorted(found, key=lambda key: -found[key])[:_MOST_REPORTED]
    return [
        (found[key], Partition(example[key], name_of.get(key) or _name(np.frombuffer(key, dtype=np.int64))))
        for key in most
    ]


def _name(part_of: IntArray) -> str:
    """A partition by its parts, the largest first."""
    many = int(part_of.max()) + 1
    parts = sorted((np.flatnonzero(part_of == part).tolist() for part in range(many)), key=len, reverse=True)
    reported = " ".join(_ranks(part) for part in parts[:_PARTS_REPORTED])
    return f"{many} parts {reported}" + (" .." if many > _PARTS_REPORTED else "")


def _ranks(part: list[int]) -> str:
    more = ", .." if len(part) > _RANKS_REPORTED else ""
    return f"{{{', '.join(map(str, part[:_RANKS_REPORTED]))}{more}}}"


def _witness(view: View, best: Priced, spans: list[Kind], known: list[Partition]) -> str:
    shares = _shares(view, best, spans, known)
    if not shares:
        return "nothing has to move"
    names = [f"{share:.0%} between {partition.name}" for share, partition in shares]
    if len(shares) == 1:
        names = [f"between {shares[0][1].name}"]
    ports = int((best.price > 0).sum())
    through = f"through {ports} ports"
    if view.helped.num_helpers:
        through = (
            f"and helpers, {_mb_each(view, best, spans):.4g} MB through each of {ports} ports on average"
        )
    return f"transfers {', '.join(names)} {through}"


def _mb_each(view: View, best: Priced, spans: list[Kind]) -> float:
    """How much the trees lead through a port that has a price, on average, MB."""
    link, port = view.problem.topology.incidence
    uses = sum(kind.mb * tree.links for kind, tree in zip(spans, best.trees, strict=True))
    return float(np.where(best.price[port] > 0, np.asarray(uses)[link], 0.0).sum() / (best.price > 0).sum())


STRENGTH = Bound(
    name="strength",
    about="so much must cross between the parts of the partition that is worst of all, or of several that "
    "share ports: a tree of least weight at prices of the ports (an AllReduce needs it twice)",
    remedy="more or faster links between those parts; a number of chunks does not",
    prove=_prove,
    features=RELAXED,
    has_any_chunks=True,
)

r"""The volume bound: how many transfers must cross between parts, and how many the ports there have room for.

`partitions` says why N transfers of one chunk must cross from part to part, for any partition of the ranks.
With each crossing link counted at one of its ports, T must satisfy

    N  <=  sum over ports of floor((T - alpha_p) / (s * beta_p)),

because what a port passes by T keeps it busy for s * beta_p each, and at least an alpha of some link is
left over: before the first or after the last, whichever end of a send its port is busy at.

For an AllReduce it sees that the same ports carry both the sums and the copies: 2(k - 1) crossings of each
chunk between k nodes, in both directions together, which no cut around one node can say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.capacity import Covers, least_time, name_ports
from taccl.encoding.bounds.cuts import Crossings
from taccl.encoding.bounds.partitions import Counts, Partition, alone, busiest, by_nodes, halves, partitions
from taccl.encoding.bounds.tuning import VOLUME_HALVES_MOST_LINKS, VOLUME_UNITS, VOLUME_UNITS_PER_ROW
from taccl.encoding.bounds.views import View, relaxed_of
from taccl.encoding.instance import Instance
from taccl.model.units import format_count
from taccl.support.budget import Budget


def volume_bound(instance: Instance, parts: Iterable[Partition], budget: Budget | None = None) -> Proof:
    """When links between parts can have carried all that must cross: the best over the given partitions.

    Those that the budget does not let it come to are left out.
    """
    best = VOLUME.proof(0.0, "nothing has to move")
    for partition in parts:
        if budget is not None and not budget.remaining_s():
            break
        proof = _at(instance, partition)
        # Rounded, so that of equal ones the first is taken.
        best = max(best, proof, key=lambda each: float(f"{each.value_us:.9g}"))
        if budget is not None:
            rows = instance.once(Counts).rows + instance.problem.topology.num_pairs
            budget.spend(VOLUME_UNITS + VOLUME_UNITS_PER_ROW * rows)
    return best


def soonest(instance: Instance) -> Iterator[Proof]:
    """What nodes, ranks alone and the busiest rank prove: there soon, with any number of ranks.

    Of chunks that go from one rank to one, halves of the machine, too: ranks alone do not see that these have
    far to go. First for any number of equal chunks, then for this one.
    """
    if VOLUME.reason_against(instance):
        return
    relaxed = instance.once(relaxed_of)
    every = (partition(relaxed.problem) for partition in (by_nodes, alone, busiest))
    several = [partition for partition in every if partition.num_parts > 1]
    if relaxed.demand.moves_pairwise and relaxed.problem.topology.num_links <= VOLUME_HALVES_MOST_LINKS:
        several += halves(relaxed.problem)
    yield fluid_volume_bound(relaxed, several)
    yield volume_bound(relaxed, several)


def _at(instance: Instance, partition: Partition) -> Proof:
    transfers = instance.once(Counts).least_crossings(partition)
    links = partition.crossing(instance.problem)
    if not transfers or not len(links):
        return VOLUME.proof(0.0, "nothing has to move")
    covers = instance.once(Covers).of(links)
    value_us, ports = max((least_time(transfers, cover.rates), len(cover.ports)) for cover in covers)
    crossing = f"{format_count(transfers, 'transfer')} between {partition.name}"
    return VOLUME.proof(value_us, f"{crossing} through {ports} ports")


def fluid_volume_bound(instance: Instance, parts: Iterable[Partition], budget: Budget | None = None) -> Proof:
    """The best over the given partitions that holds for any number of equal chunks, likewise."""
    best = VOLUME.proof(0.0, "nothing has to move", any_chunks=True)
    for partition in parts:
        if budget is not None and not budget.remaining_s():
            break
        links = partition.crossing(instance.problem)
        if not len(links):
            continue
        transfers, cover = (
            instance.once(Counts).least_crossings(partition),
            instance.once(Covers).narrowest(links),
        )
        mb, through = transfers * instance.problem.chunk_mb, name_ports(instance.problem, cover.ports)
        witness = f"{mb:g} MB in transfers between {partition.name} through {through}"
        proof = VOLUME.proof(cover.fluid_us(transfers), witness, any_chunks=True)
        best = max(best, proof, key=lambda each: float(f"{each.value_us:.9g}"))
        if budget is not None:
            budget.spend(VOLUME_UNITS)
    return best


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    parts = list(partitions(view.problem, view.instance.once(Crossings).cuts))
    yield fluid_volume_bound(view.instance, parts, budget)
    yield volume_bound(view.instance, parts, budget)


VOLUME = Bound(
    name="volume",
    about="this many transfers must cross between parts of the ranks: the ranks themselves, nodes, places "
    "in nodes, what fast links join, the sides of each cut (an AllReduce over k parts 2k - 2 times a chunk)",
    remedy="more or faster links between those parts; their ports are busy until then in any order",
    prove=_prove,
    features=RELAXED,
    is_quick=True,
    has_any_chunks=True,
)

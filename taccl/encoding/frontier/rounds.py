r"""Bandwidth in whole chunks per round, and how few rounds any algorithm needs.

Port p lets b_lp chunks of link l through in a round, so such a chunk takes the share 1 / b_lp of a round
from it: as many as the link carries, or more if the port is faster. With L the least common multiple of
all b_lp, a port has L units in each round and a chunk on link l takes w_lp = L / b_lp of them.

Let W be a set of ranks. Each chunk that is wanted in W and starts outside enters W at least once, so

    rounds >= |{chunks that must enter W}| / B(W),

where B(W) sums, over ports that all links into W pass, the largest b_lp of each. Where each chunk goes
to one rank only, every chunk also takes at least d_c units of all ports together, the length of its
shortest path in units, and rounds >= sum of d_c / (L * number of ports that are used).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from taccl.encoding.bounds.bottleneck import bottleneck_cut
from taccl.encoding.bounds.cuts import simple_cuts
from taccl.encoding.core.distance import distances_us
from taccl.encoding.frontier.tuning import ROUNDS_ALL_CUTS_RANKS, ROUNDS_MOST_OF_SLOWEST
from taccl.encoding.instance import Instance
from taccl.errors import TopologyError
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.problem import Problem

#: A rate may differ from a small integer by this fraction: measured costs are never exact.
_ROUNDING = 0.05
#: The most chunks that a link may carry in a round.
_MOST_PER_ROUND = 24


@dataclass(frozen=True, eq=False)
class RoundNetwork:
    """A topology counted in rounds.

    Parameters
    ----------
    rate : shape (num_pairs,); for each pair (link, port) of `topology.incidence`, how many chunks of the
        link the port lets through in a round.
    units : what a port has to give in each round.
    weight : shape (num_pairs,); what a chunk on the link takes of that.
    """

    topology: LogicalTopology
    rate: IntArray
    units: int
    weight: IntArray


@dataclass(frozen=True)
class RoundBound:
    """No algorithm takes fewer rounds for each chunk of a part, exactly; `witness` says why."""

    rounds_per_chunk: Fraction
    witness: str

    def least_rounds(self, chunks: int) -> int:
        """The least whole number of rounds for parts of `chunks` chunks."""
        return math.ceil(self.rounds_per_chunk * chunks)


def round_network(topology: LogicalTopology) -> RoundNetwork:
    """The topology with each bandwidth, of a link and at its ports, as a small integer.

    Raises
    ------
    TopologyError : a link takes no time per MB, or no small integers have the links' ratios.
    """
    beta, link_of = topology.pair_betas, topology.incidence[0]
    if (beta <= 0).any():
        free = topology.describe_link(int(link_of[np.flatnonzero(beta <= 0)[0]]))
        raise TopologyError(
            f"the link {free} of {topology.name!r} has unlimited bandwidth, and rounds count bandwidth",
            hint="give it a beta",
        )
    ratio = beta.max(initial=0.0) / beta
    for of_slowest in range(1, ROUNDS_MOST_OF_SLOWEST + 1):
        exact = ratio * of_slowest
        rate = np.rint(exact).astype(np.int64)
        is_near = np.abs(exact - rate) <= _ROUNDING * exact
        if is_near.all() and rate.max(initial=1) <= _MOST_PER_ROUND:
            rate //= np.gcd.reduce(rate) if len(rate) else 1
            units = math.lcm(*rate.tolist())
            return RoundNetwork(topology, rate, units, units // rate)
    slow, fast = int(beta.argmax()), int(beta.argmin())
    ends = topology.describe_link(int(link_of[fast])), topology.describe_link(int(link_of[slow]))
    raise TopologyError(
        f"the bandwidths of {topology.name!r} are in no ratio of small whole numbers: the link "
        f"{ends[0]} is {ratio.max():.2f} times as fast as {ends[1]}",
        hint=f"one node only, or betas whose ratios are whole numbers up to {_MOST_PER_ROUND}",
    )


def network_of(instance: Instance) -> RoundNetwork:
    """The `round_network` of a problem; `instance.once(network_of)`."""
    return round_network(instance.problem.topology)


def hops(instance: Instance) -> tuple[FloatArray, FloatArray]:
    """For each chunk and rank, the fewest links from a rank that has the chunk at the start, and the fewest
    to a rank that wants it and does not have it; both of shape (num_chunks, num_ranks), inf where cut off.

    `instance.once(hops)`.
    """
    problem, topology, collective = instance.problem, instance.problem.topology, instance.problem.collective
    ones = np.ones(topology.num_links)
    from_start = np.full((problem.num_chunks, problem.num_ranks), np.inf)
    to_wanting = from_start.copy()
    by_owner: dict[int, FloatArray] = {}
    for chunk in range(problem.num_chunks):
        owner = int(collective.owner[chunk])
        if owner not in by_owner:
            by_owner[owner] = distances_us(topology, ones, problem.usable(chunk))
        distance = by_owner[owner]
        from_start[chunk] = distance[collective.pre[chunk]].min(axis=0, initial=np.inf)
        wanting = collective.post[chunk] & ~collective.pre[chunk]
        to_wanting[chunk] = distance[:, wanting].min(axis=1, initial=np.inf)
    return from_start, to_wanting


def fewest_steps(instance: Instance) -> int:
    """The longest of the shortest routes, in links: no algorithm has fewer steps."""
    wanted = instance.once(hops)[0][instance.problem.collective.post]
    return int(wanted.max(initial=0))


def round_bound(instance: Instance) -> RoundBound:
    """The least rounds for each chunk of a part, exactly, by cuts (and shortest paths, see above).

    `instance.once(round_bound)`.
    """
    problem, network = instance.problem, instance.once(network_of)
    bounds = [_of_cut(problem, network, ranks, name) for ranks, name in _cuts(instance)]
    if problem.topology.num_ports and instance.demand.to_one:
        bounds.append(_of_paths(problem, network))
    best = max(
        bounds, key=lambda bound: bound.rounds_per_chunk, default=RoundBound(Fraction(0), "nothing moves")
    )
    per_chunk = best.rounds_per_chunk / problem.collective.chunks_per_rank
    return RoundBound(per_chunk, best.witness)


def _cuts(instance: Instance) -> list[tuple[frozenset[int], str]]:
    ranks = instance.problem.num_ranks
    if ranks <= ROUNDS_ALL_CUTS_RANKS:
        sets = (frozenset(r for r in range(ranks) if bits >> r & 1) for bits in range(1, 2**ranks - 1))
        return [(each, _set_name(each)) for each in sets]
    cuts = [(cut.ranks, _set_name(cut.ranks)) for cut in simple_cuts(instance)]
    narrowest = bottleneck_cut(instance)
    return cuts if narrowest is None else [*cuts, (narrowest.ranks, _set_name(narrowest.ranks))]


def _set_name(ranks: frozenset[int]) -> str:
    if len(ranks) == 1:
        return f"into rank {min(ranks)}"
    return f"into the set {{{', '.join(map(str, sorted(ranks)))}}}"


def _of_cut(problem: Problem, network: RoundNetwork, ranks: frozenset[int], name: str) -> RoundBound:
    topology, collective = problem.topology, problem.collective
    inside = np.zeros(problem.num_ranks, dtype=np.bool_)
    inside[list(ranks)] = True
    enters = collective.post[:, inside].any(axis=1) & ~collective.pre[:, inside].any(axis=1)
    count = int(enters.sum())
    links = np.flatnonzero(~inside[topology.src] & inside[topology.dst])
    if not count or not len(links):
        return RoundBound(Fraction(0), name)
    bandwidth = min(_bandwidth(network, links, which) for which in (0, -1))
    return RoundBound(Fraction(count, bandwidth), f"{count} chunks {name}, {bandwidth} in a round")


def _bandwidth(network: RoundNetwork, links: IntArray, which: int) -> int:
    """Chunks in a round through the first (0) or last (-1) port of each link."""
    best: dict[int, int] = {}
    topology = network.topology
    for link in links.tolist():
        port = topology.ports[link][which]
        pair = topology.first_pair[link] if which == 0 else topology.first_pair[link + 1] - 1
        best[port] = max(best.get(port, 0), int(network.rate[pair]))
    return sum(best.values())


def _of_paths(problem: Problem, network: RoundNetwork) -> RoundBound:
    topology, collective = problem.topology, problem.collective
    weight = np.zeros(topology.num_links)
    np.add.at(weight, topology.incidence[0], network.weight)
    length = distances_us(topology, weight)
    need = sum(
        int(length[collective.pre[chunk]][:, collective.post[chunk]].min())
        for chunk in range(problem.num_chunks)
    )
    ports = sum(1 for links in topology.port_links if links)
    return RoundBound(
        Fraction(need, network.units * ports), f"all chunks on their shortest paths load {ports} ports evenly"
    )

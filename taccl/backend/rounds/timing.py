"""How long rounds take on a network: each rank goes on as soon as its own messages are done.

A rank posts a round `launch_us` after its last one has ended. A message begins when both ends have posted it
and its ports are free, those first that could begin first, and takes alpha + n s beta, as every transfer of
the cost model. Sums and copies take no time.
"""

from __future__ import annotations

from dataclasses import dataclass

from taccl.backend.rounds.rounds import Rounds
from taccl.errors import TopologyError
from taccl.model.network import LogicalTopology


@dataclass(frozen=True)
class TimedRounds:
    """Of one call.

    Parameters
    ----------
    ends_us : per round, when the last of its messages has arrived. launches_us : of the rank that has most.
    """

    ends_us: tuple[float, ...]
    launches_us: float

    @property
    def time_us(self) -> float:
        """Of the whole call."""
        return max(self.ends_us, default=0.0)


def time_rounds(rounds: Rounds, network: LogicalTopology, chunk_mb: float, launch_us: float) -> TimedRounds:
    """Simulate one call.

    Parameters
    ----------
    chunk_mb : MB of a chunk of the rounds.

    Raises
    ------
    TopologyError : no link joins two ranks that a message needs.
    """
    link_of = {
        pair: link for link, pair in enumerate(zip(network.src.tolist(), network.dst.tolist(), strict=True))
    }
    first, alpha, beta = (
        network.first_pair.tolist(),
        network.alpha_us.tolist(),
        network.beta_us_per_mb.tolist(),
    )
    ports, port_beta = network.incidence[1].tolist(), network.pair_betas.tolist()
    is_serial = network.occupancy == "serial"
    free, ready = [0.0] * network.num_ports, [0.0] * rounds.num_ranks
    ends, launched = [], [0] * rounds.num_ranks
    for each in rounds.rounds:
        posted = list(ready)
        for rank in each.operations():
            posted[rank] += launch_us
            launched[rank] += 1
        waiting = sorted((max(posted[m.source], posted[m.target]), k) for k, m in enumerate(each.messages))
        for earliest_us, number in waiting:
            message = each.messages[number]
            link = link_of.get((message.source, message.target))
            if link is None:
                raise TopologyError(
                    f"no link of {network.name} joins ranks {message.source} and {message.target}"
                )
            pairs, mb = range(first[link], first[link + 1]), message.count * chunk_mb
            start = max([earliest_us, *(free[ports[pair]] for pair in pairs)])
            for pair in pairs:
                free[ports[pair]] = start + is_serial * alpha[link] + mb * port_beta[pair]
            end = start + alpha[link] + mb * beta[link]
            for rank in (message.source, message.target):
                ready[rank] = max(ready[rank], end)
        ends.append(max(ready, default=0.0))
    return TimedRounds(tuple(ends), max(launched, default=0) * launch_us)

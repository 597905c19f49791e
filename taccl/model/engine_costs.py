"""The network of engines when thread blocks of one protocol serve its links: alphas and betas, no more.

Engines know links and ports; how thread blocks and pieces set the pace is for simulation. Here the executor
of a machine is put into the costs of its links, for one protocol and a number of thread blocks on each link.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from taccl.errors import TopologyError
from taccl.model.executor import MAX_THREAD_BLOCKS, Executor, ProtocolCosts
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.units import MB
from taccl.support.arguments import whole_number, word

#: What the thread blocks of a link do with the bytes that come the other way: each sends, then receives
#: (`in-phase`, as where everyone sends to everyone); each does both, some sending while others receive
#: (`pipelined`, as long rings with many channels); or others take them (`one-way`).
Pace = Literal["in-phase", "pipelined", "one-way"]
PACES: tuple[Pace, ...] = get_args(Pace)

#: What times leave out that are of links alone.
LINKS_ALONE = "links alone: no launch, no per-step cost"
#: What the user should know of such times on a machine with an executor, where no protocol is known.
LINKS_ONLY = "times are by links alone; what executing costs on this machine depends on the protocol"


@dataclass(frozen=True)
class Served:
    """By what each link is served: a protocol, and this many thread blocks of either end, at some pace."""

    protocol: str
    blocks: int
    pace: Pace = "in-phase"

    def note(self, executor: Executor) -> str:
        """What the user should know of times under these costs."""
        launch_us = executor.costs_of(self.protocol).launch_us
        kind = "one-way thread block" if self.pace == "one-way" else "thread block"
        blocks = f"{self.blocks} {kind}{'s' if self.blocks > 1 else ''}"
        return (
            f"costs are those of {blocks} of {self.protocol} on each link; a call takes {launch_us:g} us "
            "before that, and taccl simulate predicts the file slice by slice"
        )


def hop_us(costs: ProtocolCosts) -> float:
    """What a hop of a small message takes beyond the link's alpha, microseconds.

    Its first slice is sent, seen and taken; the others are empty.
    """
    return 2 * (costs.slice_us + costs.least_us) + (costs.shape.slices - 1) * costs.empty_us + costs.hop_us


def link_us_per_mb(
    costs: ProtocolCosts, wire_us_per_mb: FloatArray | float, blocks: int, pace: Pace = "in-phase"
) -> FloatArray:
    """What 1 MB of data takes on a link that `blocks` thread blocks of either end serve, microseconds.

    `wire_us_per_mb` : the beta of the link, in bytes on the wire.
    """
    wire = np.asarray(wire_us_per_mb, dtype=np.float64) * costs.shape.wire
    block = costs.block_us_per_byte * MB / blocks
    if pace == "in-phase":
        return np.maximum(block, wire) + block
    return np.maximum(2 * block if pace == "pipelined" else block, wire)


def effective_network(
    network: LogicalTopology, protocol: str, blocks: int, pace: Pace = "in-phase"
) -> LogicalTopology:
    """The network with its executor put into its costs; without an executor it stays as it is.

    A port still serves as many bytes on the wire as it did. What is slower than its ports is the link, so it
    gets a port of its own where it has none: two links that share a port may still fill that together.
    The launch is left out, since every schedule pays it once. Ports are pipelined: a thread block goes on
    when its bytes have left, and only its peer waits for alpha.

    Parameters
    ----------
    protocol : the one that moves the bytes.
    blocks : thread blocks on each link: the instances of the file.

    Raises
    ------
    TopologyError : the executor does not know the protocol, or an unknown pace.
    """
    if network.executor is None:
        return network
    word(pace, "pace", PACES, TopologyError)
    whole_number(blocks, "thread blocks of a link", TopologyError, least=1, most=MAX_THREAD_BLOCKS)
    costs = network.executor.costs_of(protocol)
    beta = link_us_per_mb(costs, network.beta_us_per_mb, blocks, pace)
    ports, names = list(network.ports), list(network.port_names)
    port_betas: list[tuple[float, ...]] = []
    for link, mine in enumerate(network.ports):
        first = int(network.first_pair[link])
        served = [
            float(pair_beta) * costs.shape.wire for pair_beta in network.pair_betas[first : first + len(mine)]
        ]
        own = next((place for place, port in enumerate(mine) if len(network.port_links[port]) == 1), None)
        if own is not None:
            served[own] = float(beta[link])
        else:
            ports[link] = (*mine, len(names))
            served.append(float(beta[link]))
            names.append(f"thread blocks of {network.describe_link(link)}")
        port_betas.append(tuple(served))
    return replace(
        network,
        alpha_us=network.alpha_us + hop_us(costs),
        beta_us_per_mb=beta,
        ports=tuple(ports),
        port_names=tuple(names),
        port_betas=tuple(port_betas),
        occupancy="pipelined",
        executor=None,
    )

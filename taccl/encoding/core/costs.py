"""What sends cost on links and ports, as columns for compiled functions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from taccl.model.collective import IntArray
from taccl.model.network import FloatArray, LogicalTopology


class Costs(NamedTuple):
    """What a send of k MB costs: alpha and k times beta, on a link and at each of its ports.

    Parameters
    ----------
    first, port : shapes (num_links + 1,) and (num_pairs,); the ports of each link.
    alpha_us, beta_us : shape (num_links,); from its start to its end.
    busy_alpha_us, busy_beta_us : shape (num_pairs,); how long it keeps a port busy.
    """

    num_ports: int
    first: IntArray
    port: IntArray
    alpha_us: FloatArray
    beta_us: FloatArray
    busy_alpha_us: FloatArray
    busy_beta_us: FloatArray


def costs_of(topology: LogicalTopology) -> Costs:
    """The costs of all links and ports, for sizes in MB."""
    pairs, links = np.arange(topology.num_pairs), np.arange(topology.num_links)
    alone = topology.port_busy_us(pairs, 0.0)
    return Costs(
        topology.num_ports,
        topology.first_pair,
        topology.incidence[1],
        topology.duration_us(links, 0.0),
        topology.beta_us_per_mb,
        alone,
        topology.pair_betas,
    )

"""Where several chunks in one send save nothing, so that nobody has to think about groups.

*A group can go piece by piece and end no later* over a link whose alpha keeps no port busy (it is 0, or
occupancy is `pipelined`) and whose ports all serve it at its own beta. Take a group that starts at s, with
chunks that take c_0, c_1, .. us on the link. It has every port of the link from s to s + c_0 + c_1 + ..,
and ends alpha after that. Let its k-th chunk, in any order, start by itself at t_k = s + c_0 + .. + c_(k-1).
It has the ports from t_k to t_k + c_k: inside the group's time, and after the chunk before it. It ends at
t_k + c_k + alpha, no later than the group did. It starts no earlier than the group, so it is there, and what
had to end before the group started has ended; what waits for the group to end waits no longer. So all other
sends can stay as they are. Under a symmetry, the images of a send go piece by piece as it does.

It is not so elsewhere. Where alpha keeps ports busy, n pieces take n alphas of their time. A port that is
faster than the link lets a group through at once, and serves its pieces with gaps between them, in which
nothing else may fit.
"""

from __future__ import annotations

import numpy as np

from taccl.model.collective import BoolArray
from taccl.model.network import LogicalTopology


def one_by_one(topology: LogicalTopology) -> BoolArray:
    """Whether chunks may as well go over each link one by one, shape (num_links,)."""
    link = topology.incidence[0]
    as_slow = np.ones(topology.num_links, dtype=np.bool_)
    np.logical_and.at(as_slow, link, topology.pair_betas == topology.beta_us_per_mb[link])
    return np.asarray(as_slow & (topology.alpha_us == 0) if topology.is_serial else as_slow)

"""How long a schedule keeps each link of the machine busy."""

from __future__ import annotations

import numpy as np

from taccl.model.network import FloatArray
from taccl.model.schedule import Schedule
from taccl.topologies import PhysicalTopology


def busy_us_per_mb(machine: PhysicalTopology, schedule: Schedule) -> FloatArray:
    """For each link of the machine how long it carries data, microseconds for each MB of the call.

    It is what is sent over the link times the link's beta; alphas, which keep some links busy too, are left
    out: what is left of the time could have been used for data.
    """
    problem = schedule.problem
    megabytes = np.bincount(
        schedule.link, weights=problem.size_mb[schedule.chunk], minlength=problem.topology.num_links
    )
    busy = np.zeros(len(machine.links))
    for link in np.flatnonzero(megabytes).tolist():
        ends = int(problem.topology.src[link]), int(problem.topology.dst[link])
        path = machine.path(*ends) or machine.host_path(*ends)
        if path is None:
            continue
        betas = path.betas or tuple(machine.links[number].beta_us_per_mb for number in path.links)
        for number, beta in zip(path.links, betas, strict=True):
            busy[number] += megabytes[link] * beta
    return busy / (problem.size_bytes / 2**20)

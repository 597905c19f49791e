"""Members alone: a problem without the helpers of its machine, and its schedules on the machine with them.

Members come before helpers among the ranks, so what is left is an ordinary problem on the first ranks: the
links between members, and the ports of these links. Each of its schedules is one of the whole, with the same
times, over the same links. So engines that know no helpers answer it, and no schedule is lost because a
machine has helpers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from taccl.encoding.core.earliest import chunk_kinds, earliest_us
from taccl.model.collective import IntArray
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.schedule.partial_sums import PartialSums


@dataclass(frozen=True, eq=False)
class Members:
    """A problem, and the same among its members.

    Parameters
    ----------
    whole : what is requested.
    problem : the same ranks without the helpers, which are the last.
    links : shape (links of `problem`,); their numbers in `whole`, ascending.
    """

    whole: Problem
    problem: Problem
    links: IntArray

    def lifted(self, schedule: Schedule) -> Schedule:
        """A schedule among the members as one of the whole."""
        sums = schedule.sums
        if sums is not None:
            helpers = self.whole.topology.num_helpers
            sums = PartialSums(sums.of_row, np.pad(sums.members, ((0, 0), (0, helpers))))
        return replace(schedule, problem=self.whole, link=self.links[schedule.link], sums=sums)

    def restricted(self, schedule: Schedule) -> Schedule | None:
        """A schedule of the whole among the members; None: it uses helpers."""
        link = np.searchsorted(self.links, schedule.link)
        if not np.array_equal(np.append(self.links, -1)[link], schedule.link):
            return None
        sums = schedule.sums
        if sums is not None:
            sums = PartialSums(sums.of_row, sums.members[:, : self.problem.num_ranks])
        return replace(schedule, problem=self.problem, link=link, sums=sums)


def members(problem: Problem) -> Members | None:
    """The problem without helpers; None: it has none, a member may not sum or not copy, or some output has no
    way to it that passes members alone.
    """
    topology, many = problem.topology, problem.topology.num_members
    if not topology.num_helpers:
        return None
    without, links = topology.once(_without_helpers)
    may_use = problem.limits.may_use
    collective = problem.collective
    alone = replace(
        problem,
        topology=without,
        collective=replace(
            collective,
            num_ranks=many,
            num_helpers=0,
            in_place_shift=collective.in_place_shift[:many],
        ),
        symmetry=tuple(np.asarray(ranks)[:many] for ranks in problem.symmetry),
        limits=replace(
            problem.limits,
            may_use=None if may_use is None else may_use[:many, links],
            own_first=_of(links, problem.limits.own_first),
            link_preference=_of(links, problem.limits.link_preference),
        ),
    )
    if "helpers" in alone.features or not _reaches_all(alone):
        return None
    return Members(problem, alone, links)


def _without_helpers(topology: LogicalTopology) -> tuple[LogicalTopology, IntArray]:
    """The members, their links and the ports that these use, in the order of before; and these links."""
    many = topology.num_members
    links = np.flatnonzero((topology.src < many) & (topology.dst < many))
    kept = links.tolist()
    used = sorted({port for link in kept for port in topology.ports[link]})
    number = dict(zip(used, range(len(used)), strict=True))
    betas, may_sum, may_copy = topology.port_betas, topology.may_sum, topology.may_copy
    without = replace(
        topology.with_equal_ranks(),
        node_of=topology.node_of[:many],
        src=topology.src[links],
        dst=topology.dst[links],
        alpha_us=topology.alpha_us[links],
        beta_us_per_mb=topology.beta_us_per_mb[links],
        ports=tuple(tuple(number[port] for port in topology.ports[link]) for link in kept),
        port_names=tuple(topology.port_names[port] for port in used),
        port_betas=None if betas is None else tuple(betas[link] for link in kept),
        may_sum=None if may_sum is None else may_sum[:many],
        may_copy=None if may_copy is None else may_copy[:many],
        domain_of=None if topology.domain_of is None else topology.domain_of[:many],
    )
    return without, links


def _of(links: IntArray, column: np.ndarray | None) -> np.ndarray | None:
    return None if column is None else column[links]


def _reaches_all(problem: Problem) -> bool:
    """Whether each chunk has a way from where it is to all who want it."""
    topology = problem.topology
    if problem.limits.may_use is None:
        shape = (topology.num_ranks, topology.num_ranks)
        adjacency = coo_array((np.ones(topology.num_links), (topology.src, topology.dst)), shape=shape)
        if connected_components(adjacency, connection="strong")[0] == 1:
            return True
    return bool(np.isfinite(earliest_us(problem, chunk_kinds(problem))).all())

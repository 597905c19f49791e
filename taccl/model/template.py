r"""A schedule of a cluster of equal nodes as one template with its images, and why it is one of the whole.

Let N nodes of g GPUs each have ranks 0 .. N g - 1, node after node, and let R be the rotation that takes rank
r to r + g, modulo N g. (Nodes of the machine that are planned together are one node here.) The *template* is
a schedule of the chunks of node 0 alone. Its k-th image takes chunk c of rank r to the same piece of rank
R^k(r), along links that R^k takes its links to, at the same times. The whole schedule is all N images of the
template. It is never built: `of_rank` has what one rank does.

**What is checked.** The template is an ordinary schedule of an ordinary problem (`Schedule.check`): the
chunks of node 0, the links that they use, and one port for each *orbit* of physical links, that is for each
set of physical links that R takes to one another. Of the machine it is checked where the network is made
(`taccl.sketch.one_node`) that

1. R takes every physical link to one that costs the same: it is an automorphism, and so are its powers;
2. each physical link that is used has N different images: only the identity keeps one in its place;
3. no link between ranks has two physical links of one orbit.

**Why that is enough.** *Demand.* R^k takes the chunks of node 0 to those of node k, which start and are
wanted at the images of their ranks, or have contributions of the images of theirs. So each rule about one
chunk (it is sent from where it is, it arrives where it is wanted, each contribution counts once) holds for
an image since it holds in the template, at the same times. *Costs* are those of the images by 1. *Ports.*
Let transfers x and y of the whole use physical link p, x the image by R^i of a transfer a of the template,
and y that by R^j of b. Then a uses R^-i(p) and b uses R^-j(p), which are one port of the template's network.
If a and b are different sends, the template's check keeps their busy times there apart, and those of x and y
are the same ones. If they are the same send, it uses both R^-i(p) and R^-j(p), which are the same link by 3;
so R^(i - j) keeps p in its place, and by 2 i = j: x and y are the same. So the whole breaks no rule.

A bound on the template is none on the whole, since the whole might do without the symmetry. But a count of
what all chunks must carry is N times that of node 0's, over ports that are N times those of the orbits: such
bounds hold for both (`taccl.encoding.bounds.soonest`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from taccl.errors import CollectiveError, ScheduleError
from taccl.model.collective import BoolArray, IntArray, Placement
from taccl.model.collectives import first_parts
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.arguments import is_whole, shown


@dataclass(frozen=True, eq=False)
class RankTransfers:
    """What one rank of the whole sends and receives: columns of equal length, by start.

    Parameters
    ----------
    rank : whose they are.
    chunk : of the whole collective.
    src, dst : one of them is `rank`.
    start_us, end_us, reduce : as in a schedule.
    group : rows of one group are one send; both ends of it have the same number, and no other send of the
        whole has it.
    """

    rank: int
    chunk: IntArray
    src: IntArray
    dst: IntArray
    start_us: FloatArray
    end_us: FloatArray
    reduce: BoolArray
    group: IntArray

    def __len__(self) -> int:
        return len(self.chunk)


@dataclass(frozen=True, eq=False)
class Template:
    """A schedule of node 0's chunks that stands for one of the whole cluster.

    Parameters
    ----------
    collective : one of `EQUAL_PARTS`.
    part : the schedule of `first_parts(collective, ...)`, on the network of node 0's chunks.
    images : how many there are; each is of one node of the machine, or of as many as are planned together.
    """

    collective: str
    part: Schedule
    images: int

    def __repr__(self) -> str:
        return (
            f"Template({self.collective} on {self.num_ranks} ranks: {len(self.part)} transfers with "
            f"{self.images} images, {self.makespan_us:.2f} us)"
        )

    @property
    def num_ranks(self) -> int:
        return self.part.problem.num_ranks

    @property
    def num_nodes(self) -> int:
        """Of the machine."""
        return self.part.problem.topology.num_nodes

    @property
    def gpus(self) -> int:
        """GPUs of a node of the machine."""
        return self.num_ranks // self.num_nodes

    @property
    def block(self) -> int:
        """Ranks whose chunks are planned: the rotation goes on by this many."""
        return self.num_ranks // self.images

    @property
    def num_transfers(self) -> int:
        """Of the whole."""
        return len(self.part) * self.images

    @property
    def makespan_us(self) -> float:
        """When the last transfer of every image ends."""
        return self.part.makespan_us

    def check(self) -> None:
        """Raise unless the whole computes its collective under the cost model: see the module.

        Raises
        ------
        ScheduleError : the template breaks a rule, or is not one of node 0's chunks on such a network.
        """
        findings = [found for found in (self._other_demand(), self._unequal_nodes()) if found]
        if findings:
            raise ScheduleError("the template does not stand for all nodes", findings=findings)
        self.part.check()

    def of_rank(self, rank: int) -> RankTransfers:
        """All that one rank of the whole sends and receives.

        Raises
        ------
        CollectiveError : there is no such rank.
        """
        if not is_whole(rank) or not 0 <= rank < self.num_ranks:
            raise CollectiveError(f"there are ranks 0 .. {self.num_ranks - 1}, and no rank {shown(rank)}")
        part, node = self.part, rank // self.block
        ends = part.src, part.dst
        # A rank sends the image of what its equal sends in any node: which image, the node says.
        rows = [np.flatnonzero(end % self.block == rank % self.block) for end in ends]
        image = np.concatenate(
            [(node - end[some] // self.block) % self.images for end, some in zip(ends, rows, strict=True)]
        )
        row = np.concatenate(rows)
        order = np.argsort(part.start_us[row], kind="stable")
        row, image = row[order], image[order]
        return RankTransfers(
            rank=int(rank),
            chunk=part.chunk[row] + image * part.problem.num_chunks,
            src=(ends[0][row] + image * self.block) % self.num_ranks,
            dst=(ends[1][row] + image * self.block) % self.num_ranks,
            start_us=part.start_us[row],
            end_us=part.end_us[row],
            reduce=part.reduce[row],
            group=part.group[row] + image * (int(part.group.max(initial=0)) + 1),
        )

    def ranks(self) -> Iterator[RankTransfers]:
        """`of_rank` of all ranks, one after another."""
        return map(self.of_rank, range(self.num_ranks))

    def whole(self, problem: Problem) -> Schedule:
        """The schedule of the whole, for machines on which it can be built.

        Parameters
        ----------
        problem : the collective on the cluster, with its ports as they are.
        """
        part, images = self.part, np.arange(self.images)[:, None]
        ends = ((end + images * self.block) % self.num_ranks for end in (part.src, part.dst))
        pairs = zip(*(end.ravel().tolist() for end in ends), strict=True)
        count = self.images
        return Schedule(
            problem=problem,
            chunk=(part.chunk + images * part.problem.num_chunks).ravel(),
            link=np.array([problem.topology.link_index[pair] for pair in pairs], dtype=np.int64),
            start_us=np.tile(part.start_us, count),
            end_us=np.tile(part.end_us, count),
            reduce=np.tile(part.reduce, count),
            group=(part.group + images * (int(part.group.max(initial=0)) + 1)).ravel(),
        ).sorted()

    def _other_demand(self) -> str:
        """What is wrong with what the template computes; empty if it is that of node 0's chunks."""
        problem, given = self.part.problem, self.part.problem.collective
        limits = problem.limits
        if problem.features - {"reductions"} or (limits.may_use, limits.own_first) != (None, None):
            return "it has helpers, unequal chunks, inputs that come late, or rules for single ranks"
        due = first_parts(self.collective, self.num_ranks, given.chunks_per_rank, self.block)
        same = (
            given.chunks_per_size == due.chunks_per_size
            and np.array_equal(given.reduces, due.reduces)
            and np.array_equal(given.owner, due.owner)
            and _same(given.inputs, due.inputs)
            and _same(given.outputs, due.outputs)
        )
        return "" if same else f"its chunks are not those of the first {self.block} ranks"

    def _unequal_nodes(self) -> str:
        """What is wrong with its network; empty if links of one orbit cost the same and have equal ports."""
        topology, block = self.part.problem.topology, self.block
        if self.num_nodes % self.images or not np.array_equal(
            topology.node_of, np.arange(self.num_ranks) // self.gpus
        ):
            return "nodes differ in size, or their ranks do not follow one another"
        node, to_node = topology.src // block, topology.dst // block
        if ((node != to_node) & (node != 0) & (to_node != 0)).any():
            return "a link joins two other nodes than node 0"
        # The link of node 0 that each is an image of, by its GPUs and by how many nodes it goes on.
        key = (topology.src % block * block + topology.dst % block) * self.images
        key += (to_node - node) % self.images
        _, first, orbit = np.unique(key, return_index=True, return_inverse=True)
        model = first[orbit.ravel()]
        costs = (topology.alpha_us, topology.beta_us_per_mb)
        if any((cost != cost[model]).any() for cost in costs):
            return "links of one orbit cost something else"
        used, rates = topology.ports, topology.port_betas
        equal = (used[link] == used[other] for link, other in enumerate(model.tolist()))
        if not all(equal) or (rates and any(rates[i] != rates[j] for i, j in enumerate(model.tolist()))):
            return "links of one orbit use other ports"
        return ""


def _same(one: Placement, other: Placement) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("chunk", "rank", "offset")
    )

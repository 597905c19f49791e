"""Chunks looked at as if they were alone on the network: where they start, may go, and are wanted."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from taccl.encoding.core.distance import distances_us
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray


@dataclass(frozen=True, eq=False)
class Layer:
    """A set of chunks, looked at as if it were alone on the network.

    Parameters
    ----------
    chunks : their numbers; that of one in pieces, once for each piece.
    wanted : shape (num_ranks,), the ranks that want some chunk of the set.
    class_of : shape (len(chunks),), the class of each: chunks of a class may go the same routes.
    may_use : shape (num_classes, num_links), where each class may go.
    """

    chunks: IntArray
    wanted: BoolArray
    class_of: IntArray
    may_use: BoolArray

    @staticmethod
    def of(instance: Instance, chunks: IntArray, inside: BoolArray | None = None) -> Layer:
        """The layer of some chunks; with `inside`, shape (num_ranks,), only between these ranks."""
        problem, demand = instance.problem, instance.demand
        topology, limits = problem.topology, problem.limits.may_use
        chosen = np.zeros(problem.num_chunks, dtype=np.bool_)
        chosen[chunks] = True
        wanted = np.zeros(problem.num_ranks, dtype=np.bool_)
        wanted[demand.wants.rank[chosen[demand.wants.chunk]]] = True
        class_of = np.zeros(len(chunks), dtype=np.int64)
        may_use = np.ones((1, topology.num_links), dtype=np.bool_)
        if limits is not None:
            owners, class_of = np.unique(problem.collective.owner[chunks], return_inverse=True)
            class_of, may_use = class_of.ravel(), limits[owners]
        if inside is not None:
            wanted = wanted & inside
            may_use = may_use & (inside[topology.src] & inside[topology.dst])
        return Layer(chunks, wanted, class_of, np.asarray(may_use))

    def restricted(self, region: BoolArray) -> Layer:
        """The same, of which only the ranks of a region count as wanting; shape (num_ranks,)."""
        return replace(self, wanted=self.wanted & region)

    def part(self, kept: BoolArray) -> Layer:
        """Those of the chunks that are kept, shape (len(chunks),)."""
        return replace(self, chunks=self.chunks[kept], class_of=self.class_of[kept])

    def so_many(self, many: int) -> Layer:
        """As many chunks, each of which may use what some chunk of the layer may."""
        equivalent = np.zeros(many, dtype=np.int64)
        return replace(self, chunks=np.arange(many), class_of=equivalent, may_use=self.uses()[None])

    def uses(self) -> BoolArray:
        """The links that some of the chunks may use, shape (num_links,)."""
        return np.asarray(self.may_use.any(axis=0))

    def many_on(self) -> IntArray:
        """How many of the chunks may use each link, shape (num_links,)."""
        return np.asarray(self.sizes() @ self.may_use.astype(np.int64))

    def many_on_any(self, links: IntArray) -> int:
        """How many of the chunks may use some of these links."""
        return int(self.sizes()[self.may_use[:, links].any(axis=1)].sum())

    def may_use_any(self, links: IntArray) -> BoolArray:
        """Whether each of the chunks may use some of these links, shape (len(chunks),)."""
        usable = np.asarray(self.may_use[:, links].any(axis=1))
        return usable[self.class_of]

    def sizes(self) -> IntArray:
        """How many of the chunks each class has, shape (num_classes,)."""
        return np.bincount(self.class_of, minlength=len(self.may_use))


class Distances:
    """Least times between ranks over some links, each found once; `instance.once(Distances)`."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._over: dict[bytes, FloatArray] = {}

    def over(self, usable: BoolArray) -> FloatArray:
        """Microseconds, shape (num_ranks, num_ranks)."""
        if usable.all():
            return self._instance.distances_us
        key = usable.tobytes()
        if key not in self._over:
            topology, durations_us = self._instance.problem.topology, self._instance.durations_us
            self._over[key] = distances_us(topology, durations_us, usable)
        return self._over[key]


def held_at_start(instance: Instance, layer: Layer) -> IntArray:
    """How many chunks of a layer, or pieces of chunks, start at each rank, shape (num_ranks,)."""
    starts, ranks = instance.demand.starts, instance.problem.num_ranks
    pieces = np.bincount(layer.chunks, minlength=instance.problem.num_chunks)
    return np.bincount(np.repeat(starts.rank, pieces[starts.chunk]), minlength=ranks)


def nearest_us(instance: Instance, layer: Layer) -> list[FloatArray]:
    """For each rank, in order, when each chunk of a layer can be there at best by a shortest path."""
    distances, kind = instance.distances_by_limits
    sets, set_of = instance.demand.source_sets
    chunk_kind, many = np.unique(kind[layer.chunks] * len(sets) + set_of[layer.chunks], return_counts=True)
    least = np.array(
        [
            distances[each // len(sets)][sets[each % len(sets)]].min(axis=0, initial=np.inf)
            for each in chunk_kind.tolist()
        ]
    ).reshape(len(many), instance.problem.num_ranks)
    near = np.sort(np.repeat(least, many, axis=0), axis=0).T
    return [row[np.isfinite(row)] for row in near]

"""What each line of a sketch takes away from a machine, so that a conflict can be stated in its lines.

A sketch is taken apart into *parts*, each with the lines that say it and with a sketch in which it is said
no more. With no part left, what remains is all that any sketch could allow: every link inside the
nodes, and between nodes every GPU to every GPU. Every part takes links away from some owners, so a
schedule that is possible with more parts is possible with fewer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from taccl.errors import SketchError
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import LogicalTopology
from taccl.model.problem import RoutingLimits, Rule, Statement
from taccl.sketch.layout import check_gpu_numbers, layout_of
from taccl.sketch.limits import check_senders, routing_limits
from taccl.sketch.model import Internode, Sketch
from taccl.sketch.network import logical_topology
from taccl.sketch.parts import (
    SketchPart,
    inside_nodes,
    nics_said,
    policies_said,
    relays,
    senders_for,
    strategy_said,
    with_between,
    without,
)
from taccl.sketch.symmetry import rank_map
from taccl.topologies.model import PhysicalTopology


class TakenApart:
    """A sketch on a machine, as rules that can be left out one by one.

    Parameters
    ----------
    sketch : None for every link of the machine, as it is.
    topology : the machine.

    Attributes
    ----------
    rules : what the sketch takes away from `everything`.
    everything : the links that there are without any of the rules.
    nics : what the sketch says of sharing NICs, if it is more than that they are ports.
    policies : what it says of the use of switches.

    Raises
    ------
    SketchError : the sketch does not fit the machine.
    """

    def __init__(self, sketch: Sketch | None, topology: PhysicalTopology) -> None:
        self._topology = topology
        self._layout = layout_of(topology)
        self._sketch = Sketch(name="all links") if sketch is None else sketch
        check_gpu_numbers(self._sketch, self._layout, topology.name)
        check_senders(self._sketch)
        stated, _ = self._network(self._sketch)
        parts = [*inside_nodes(self._sketch), *self._between(sketch is None), *senders_for(self._sketch)]
        self.everything = self._network(without(self._sketch, parts))[0]
        rules = [self._rule(part, stated) for part in parts]
        self._parts, self.rules = _that_forbid(parts, rules)
        self.nics = nics_said(self._sketch)
        self.policies = policies_said(self._sketch)

    def network(
        self, kept: Collection[int], *, with_nics: bool = True
    ) -> tuple[LogicalTopology, RoutingLimits]:
        """The links and limits with only some of the rules, by their positions, with or without `nics`."""
        sketch = without(self._sketch, [part for i, part in enumerate(self._parts) if i not in kept])
        if not with_nics:
            sketch = replace(sketch, internode=replace(sketch.internode, nic_sharing="port"))
        return self._network(sketch)

    @cached_property
    def families(self) -> tuple[frozenset[int], ...]:
        """The rules that the same key says, by their positions."""
        by_key: dict[str, list[int]] = {}
        for number, rule in enumerate(self.rules):
            by_key.setdefault(rule.said.text.split(maxsplit=1)[0].rstrip(":"), []).append(number)
        return tuple(map(frozenset, by_key.values()))

    @cached_property
    def symmetries(self) -> tuple[tuple[Statement, IntArray], ...]:
        """Each symmetry of the sketch that moves a rank, and its permutation of the ranks.

        Raises
        ------
        SketchError : one that is no permutation of these ranks.
        """
        maps = [(each, rank_map(self._sketch, each, self._layout)) for each in self._sketch.symmetry]
        return tuple(
            (Statement(f"symmetry {rotation}", self._sketch.path, rotation.line), ranks)
            for rotation, ranks in maps
            if not np.array_equal(ranks, np.arange(len(ranks)))
        )

    def _network(self, sketch: Sketch) -> tuple[LogicalTopology, RoutingLimits]:
        logical = logical_topology(sketch, self._topology, self._layout)
        return logical, routing_limits(sketch, logical, self._layout)

    def _rule(self, part: SketchPart, stated: LogicalTopology) -> Rule:
        """The links that a part is about, and those of them that it leaves."""
        local, everything = self._layout.local_of, self.everything
        owners, scope = np.ones(len(local), dtype=np.bool_), everything.internode
        if part.inside:
            scope = ~scope
        if part.senders is not None:
            scope = scope & np.isin(local[everything.src], list(part.senders))
        if part.owners is None or part.through is None:
            return Rule(part.said, owners, scope, scope & _present(everything, stated))
        owners = np.isin(local, list(part.owners))
        return Rule(part.said, owners, scope, scope & np.isin(local[everything.src], list(part.through)))

    def _between(self, no_sketch: bool) -> Iterator[SketchPart]:
        """The parts of the inter-node strategy: entry by entry where that can be, else the whole of it."""
        sketch = self._sketch
        if len(self._layout.ranks) < 2 or sketch.internode.strategy == "fully-connected":
            return
        if sketch.internode.strategy == "relay" and len(set(map(len, self._layout.ranks))) == 1:
            entries = list(relays(sketch, len(self._layout.ranks[0])))
            if self._is_possible(without(sketch, entries)):
                yield from entries
                return
        own = self._links(sketch)
        for wider in (Internode("fully-connected"), Internode("none")):
            part = SketchPart(strategy_said(sketch, no_sketch), partial(with_between, between=wider))
            if self._is_possible(part.without(sketch)) and own <= self._links(part.without(sketch)):
                yield part
                return

    def _is_possible(self, sketch: Sketch) -> bool:
        try:
            self._network(sketch)
        except SketchError:  # for example, a fully connected fabric on a machine without NICs
            return False
        return True

    def _links(self, sketch: Sketch) -> set[tuple[int, int]]:
        return set(self._network(sketch)[0].link_index)


def _that_forbid(
    parts: Sequence[SketchPart], rules: Sequence[Rule]
) -> tuple[tuple[SketchPart, ...], tuple[Rule, ...]]:
    kept = [i for i, rule in enumerate(rules) if rule.forbids.any()]
    return tuple(parts[i] for i in kept), tuple(rules[i] for i in kept)


def _present(everything: LogicalTopology, stated: LogicalTopology) -> BoolArray:
    """Which links of `everything` another topology of the same ranks has too, shape (num_links,)."""
    number: IntArray = everything.src * everything.num_ranks + everything.dst
    return np.isin(number, stated.src * stated.num_ranks + stated.dst)

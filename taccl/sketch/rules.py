"""What each line of a sketch takes away from a machine, so that a conflict can be told in its lines.

A sketch is taken apart into *parts*, each with the lines that say it and with a sketch in which it is said
no more. With no part left, what remains is all that any sketch could allow: every link inside the
nodes, and between nodes every GPU to every GPU. Every part takes links away from some homes, so a
schedule that is possible with more parts is possible with fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from taccl.collectives import BoolArray, IntArray
from taccl.errors import SketchError
from taccl.problem import LogicalTopology, RoutingLimits, Rule, Statement
from taccl.sketch.layout import check_gpu_numbers, layout_of
from taccl.sketch.limits import check_senders, routing_limits, senders_of
from taccl.sketch.model import Internode, Intranode, Relay, SenderFor, Sketch
from taccl.sketch.network import logical_topology
from taccl.sketch.symmetry import rank_map
from taccl.topologies.model import PhysicalTopology


@dataclass(frozen=True, eq=False)
class _Part:
    """Something that a sketch says, and the sketch without it.

    `homes` and `senders` are the local GPUs that it is about, None for all; `inside` is the links in a node.
    """

    said: Statement
    without: Callable[[Sketch], Sketch]
    homes: frozenset[int] | None = None
    senders: frozenset[int] | None = None
    inside: bool = False


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
        self._network(self._sketch)
        parts = [*_inside(self._sketch), *self._between(sketch is None), *_senders(self._sketch)]
        self.everything = self._network(_without(self._sketch, parts))[0]
        rules = [self._rule(part, parts) for part in parts]
        self._parts, self.rules = _that_forbid(parts, rules)
        self.nics = _nics_said(self._sketch)

    def network(
        self, kept: Collection[int], *, with_nics: bool = True
    ) -> tuple[LogicalTopology, RoutingLimits]:
        """The links and limits with only some of the rules, by their positions, with or without `nics`."""
        sketch = _without(self._sketch, [part for i, part in enumerate(self._parts) if i not in kept])
        if not with_nics:
            sketch = replace(sketch, internode=replace(sketch.internode, nic_sharing="port"))
        return self._network(sketch)

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

    def _rule(self, part: _Part, parts: Sequence[_Part]) -> Rule:
        """Its links among those of no part, and those of them that are left with it alone."""
        local = self._layout.local_of
        homes = np.ones(len(local), dtype=np.bool_)
        if part.homes is not None:
            homes = np.isin(local, list(part.homes))
        scope = ~self.everything.internode if part.inside else self.everything.internode
        if part.senders is not None:
            scope = scope & np.isin(local[self.everything.src], list(part.senders))
        alone, limits = self._network(_without(self._sketch, [other for other in parts if other is not part]))
        usable = np.ones(alone.num_links, dtype=np.bool_)
        if limits.may_use is not None:
            usable = limits.may_use[int(np.flatnonzero(homes)[0])]
        return Rule(part.said, homes, scope, scope & _present(self.everything, alone, usable))

    def _between(self, no_sketch: bool) -> Iterator[_Part]:
        """The parts of the inter-node strategy: entry by entry where that can be, else the whole of it."""
        sketch = self._sketch
        if len(self._layout.ranks) < 2 or sketch.internode.strategy == "fully-connected":
            return
        if sketch.internode.strategy == "relay" and len(set(map(len, self._layout.ranks))) == 1:
            entries = list(_relays(sketch, len(self._layout.ranks[0])))
            if self._is_possible(_without(sketch, entries)):
                yield from entries
                return
        own = self._links(sketch)
        for strategy in ("fully-connected", "none"):
            wider = Internode(strategy)  # type: ignore[arg-type]
            part = _Part(_strategy_said(sketch, no_sketch), lambda s, wider=wider: _with_between(s, wider))
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


def _without(sketch: Sketch, parts: Sequence[_Part]) -> Sketch:
    for part in parts:
        sketch = part.without(sketch)
    return sketch


def _that_forbid(parts: Sequence[_Part], rules: Sequence[Rule]) -> tuple[tuple[_Part, ...], tuple[Rule, ...]]:
    kept = [i for i, rule in enumerate(rules) if rule.forbids.any()]
    return tuple(parts[i] for i in kept), tuple(rules[i] for i in kept)


def _nics_said(sketch: Sketch) -> Statement | None:
    if sketch.internode.nic_sharing == "port":
        return None
    text = "nic_sharing static: every link between nodes takes (links / NICs) times as long, used or not"
    return Statement(text, sketch.path, sketch.internode.nic_line)


def _present(everything: LogicalTopology, alone: LogicalTopology, usable: BoolArray) -> BoolArray:
    """Which links of `everything` are usable ones of another topology of its ranks, shape (num_links,)."""
    number: IntArray = everything.src * everything.num_ranks + everything.dst
    other: IntArray = alone.src * alone.num_ranks + alone.dst
    return np.isin(number, other[usable])


def _inside(sketch: Sketch) -> Iterator[_Part]:
    if sketch.intranode.strategy != "switch":
        return
    groups = [
        "all" if switch.gpus is None else f"[{gpu_numbers(switch.gpus)}]"
        for switch in sketch.intranode.switches
    ]
    text = (
        f"intranode strategy switch: inside a node, only GPUs of one switch are joined: {', '.join(groups)}"
    )
    yield _Part(
        Statement(text, sketch.path, sketch.intranode.line),
        lambda s: replace(s, intranode=Intranode()),
        inside=True,
    )


def _relays(sketch: Sketch, gpus: int) -> Iterator[_Part]:
    """Each sender's receivers, and those that are no senders."""
    everyone = tuple(range(gpus))
    senders = list(dict.fromkeys(relay.sender for relay in sketch.internode.relays))
    for sender in senders:
        entries = [relay for relay in sketch.internode.relays if relay.sender == sender]
        receivers = sorted({receiver for entry in entries for receiver in entry.receivers})
        text = (
            f"relay {sender}: [{gpu_numbers(receivers)}]: GPU {sender} sends to no other GPU of another node"
        )
        yield _Part(
            Statement(text, sketch.path, entries[0].line),
            lambda s, sender=sender: _with_relays(s, [sender], everyone),  # type: ignore[misc]
            senders=frozenset({sender}),
        )
    others = [gpu for gpu in everyone if gpu not in senders]
    if others:
        verb = "has no entry, so it sends" if len(others) == 1 else "have no entry, so they send"
        yield _Part(
            Statement(
                f"relay: {_gpus(others)} {verb} nothing to other nodes", sketch.path, sketch.internode.line
            ),
            lambda s: _with_relays(s, others, everyone),
            senders=frozenset(others),
        )


def _with_relays(sketch: Sketch, senders: Collection[int], receivers: tuple[int, ...]) -> Sketch:
    """The sketch in which these senders send to all these receivers."""
    others = tuple(relay for relay in sketch.internode.relays if relay.sender not in senders)
    free = tuple(Relay(sender, receivers) for sender in senders)
    return _with_between(sketch, replace(sketch.internode, relays=(*others, *free)))


def _with_between(sketch: Sketch, between: Internode) -> Sketch:
    """Another inter-node strategy; senders for others, and the rule for NICs, stay as they are."""
    new = replace(sketch.internode, strategy=between.strategy, relays=between.relays)
    return replace(sketch, internode=new)


def _strategy_said(sketch: Sketch, no_sketch: bool) -> Statement:
    internode = sketch.internode
    if no_sketch:
        return Statement("without a sketch, GPUs of two nodes are linked only where no host is between them")
    if internode.strategy == "none":
        what = "internode strategy none" if internode.line is not None else "no internode strategy"
        text = f"{what}: GPUs of two nodes are linked only where no host is between them"
    elif internode.strategy == "direct-map":
        text = "internode strategy direct-map: of other nodes, GPU i sends to GPU i only"
    else:
        text = "internode strategy relay: only senders send to other nodes, and only to their receivers"
    return Statement(text, sketch.path, internode.line)


def _senders(sketch: Sketch) -> Iterator[_Part]:
    """Homes that leave their node through the same senders are one part: mostly an entry is one."""
    named = sorted({home for entry in sketch.internode.sender_for for home in entry.homes})
    groups: dict[frozenset[int], list[int]] = {}
    for home in named:
        groups.setdefault(frozenset(senders_of(sketch.internode, home)), []).append(home)
    for senders, homes in groups.items():
        entries = [entry for entry in sketch.internode.sender_for if set(entry.homes) & set(homes)]
        text = (
            f"sender_for {gpu_numbers(senders)}: [{gpu_numbers(homes)}]: the chunks of {_gpus(homes)} leave "
            f"a node only through {_gpus(senders, 'or')}"
        )
        yield _Part(
            Statement(text, sketch.path, min((e.line for e in entries if e.line is not None), default=None)),
            lambda s, homes=homes: _without_senders(s, homes),  # type: ignore[misc]
            homes=frozenset(homes),
        )


def _without_senders(sketch: Sketch, homes: Collection[int]) -> Sketch:
    entries = tuple(
        SenderFor(entry.sender, left, entry.line)
        for entry in sketch.internode.sender_for
        if (left := tuple(home for home in entry.homes if home not in homes))
    )
    return replace(sketch, internode=replace(sketch.internode, sender_for=entries))


def gpu_numbers(gpus: Collection[int]) -> str:
    """`0-3, 7`: numbers in order, three or more that follow one another as a range."""
    numbers = sorted(gpus)
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ", ".join(shown)


def _gpus(gpus: Collection[int], word: str = "and") -> str:
    """`GPU 3`, `GPUs 2 and 3`, `GPUs 0-7, 9`."""
    if len(gpus) == 1:
        return f"GPU {gpu_numbers(gpus)}"
    if len(gpus) == 2:
        return f"GPUs {f' {word} '.join(map(str, sorted(gpus)))}"
    return f"GPUs {gpu_numbers(gpus)}"

r"""Rounds over teams of several sizes: large teams bring little to a node, and what they bring is adjacent.

A team of k rails serves a node, each rail with a k-th of what the round brings there. Behind a switch the
GPUs of a team exchange their parts by doubling, so a round of a large team pays fewer alphas inside, and its
width is at most a k-th of a node's chunks. So late rounds, which have to be narrow, belong to large teams,
and early ones to single rails. From the last round back, each is as wide as the rounds after it leave time
for (`rounds`), and a late round leaves as much of its node's chunks as an earlier one can be wide.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from taccl.encoding.engines.hierarchical.rounds import Piece, Round, RoundCosts
from taccl.encoding.engines.hierarchical.tuning import (
    MIXED_CHANGES,
    MIXED_JOINED,
    MIXED_LAGS,
    MIXED_MOST_PLANS,
    MIXED_PARTED,
)


class _Wave(NamedTuple):
    """A round: how many rails are in a team, how much each carries, and to which group of nodes."""

    width: int
    team: int
    group: int


def mixed(
    nodes: int, gpus: int, num_rails: int, each: int, most: int, costs: Mapping[int, RoundCosts]
) -> Iterator[tuple[Round, ...]]:
    """Rounds for this many nodes, in the routes that promise most.

    Parameters
    ----------
    each : chunks of a GPU.
    most : chunks in one send.
    costs : what rounds of teams of each size keep busy.
    """
    least = min(cost.inside_alpha_us + cost.inside_chunk_us for cost in costs.values())
    longest = costs[1].inside_alpha_us + costs[1].inside_chunk_us * min(most, gpus * each)
    if least <= 0:
        return
    found: dict[tuple[_Wave, ...], float] = {}
    for step in range(MIXED_LAGS):
        lag_us = least * max(1.0, longest / least) ** (step / (MIXED_LAGS - 1))
        plan = _Mix(nodes, gpus * each, num_rails, most, costs)
        waves = tuple(plan.waves(lag_us))
        found[waves] = _ends_us(waves, costs)
    likely = sorted(found, key=lambda waves: found[waves])[:MIXED_MOST_PLANS]
    refined = [_refined(waves, most, costs) for waves in likely]
    for waves in sorted(refined, key=lambda waves: _ends_us(waves, costs)):
        yield tuple(_rounds(waves, num_rails))


def _refined(waves: tuple[_Wave, ...], most: int, costs: Mapping[int, RoundCosts]) -> tuple[_Wave, ...]:
    """Waves that end sooner: chunks of a group go from one round to another, or its rounds become others.

    The first round stays, the others follow from the widest to the narrowest.
    """
    chance = random.Random(0)
    first, *rest = waves
    best, best_us = waves, _ends_us(waves, costs)
    trial, trial_us = rest, np.inf
    for _ in range(MIXED_CHANGES if rest else 0):
        changed = list(trial)
        width, team, group = changed.pop(chance.randrange(len(changed)))
        others = [place for place, wave in enumerate(changed) if wave.group == group]
        if others and chance.random() < MIXED_JOINED:
            width += changed.pop(chance.choice(others)).width
        if width > most or chance.random() < MIXED_PARTED:
            part = chance.randint(1, width)
            changed.append(_Wave(part, team, group))
            width -= part
        if width:
            changed.append(_Wave(width, team, group))
        if width > most:
            continue
        changed.sort(reverse=True)
        now_us = _ends_us((first, *changed), costs)
        if now_us <= trial_us:
            trial, trial_us = changed, now_us
    return (first, *trial) if trial_us < best_us else best


def _ends_us(waves: tuple[_Wave, ...], costs: Mapping[int, RoundCosts]) -> float:
    """When all is spread if rounds follow each other at once, across nodes and then inside."""
    came_us = spread_us = 0.0
    for wave in waves:
        cost = costs[wave.team]
        came_us += cost.alpha_us + cost.chunk_us * wave.width
        spread_us = max(spread_us, came_us) + cost.inside_alpha_us + cost.inside_chunk_us * wave.width
    return spread_us


@dataclass
class _Mix:
    """What is decided already, from the last round back.

    Parameters
    ----------
    nodes : that have no group yet.
    chunks : of a node.
    left : for each size of a team, the groups that have no rounds for all of their chunks yet: how many of
        them each rail has left, and the number of the group.
    """

    nodes: int
    chunks: int
    num_rails: int
    most: int
    costs: Mapping[int, RoundCosts]
    left: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    groups: int = 0

    def waves(self, lag_us: float) -> list[_Wave]:
        """All rounds, the first one first: own chunks, then wide ones, then ever narrower ones."""
        self.nodes -= 1
        begins = _Wave(self.chunks // self.num_rails, self.num_rails, self._opened(self.num_rails))
        falls = self._falls(lag_us)
        rest = [_Wave(width, team, group) for team, begun in self.left.items() for width, group in begun]
        for team in sorted(self.costs):
            while self.nodes >= self.num_rails // team:
                self.nodes -= self.num_rails // team
                rest.append(_Wave(self.chunks // team, team, self._opened(team)))
        narrowest = min((wave.width for wave in falls), default=0)
        early = sorted(wave for wave in rest if wave.width < narrowest)
        late = sorted((wave for wave in (*falls, *rest) if wave.width >= narrowest), reverse=True)
        return [begins, *early, *late]

    def _opened(self, team: int) -> int:
        self.groups += 1
        return self.groups - 1

    def _falls(self, lag_us: float) -> list[_Wave]:
        """Rounds from the last one back, until they are as wide as any can be or no nodes are left."""
        falls: list[_Wave] = []
        spare_us = lag_us
        while True:
            width, team, begun = max(
                (way for team in self.costs for way in self._widths(team, spare_us)), default=(0, 0, -1)
            )
            if width < 1 or width >= min(self.chunks, self.most):
                return falls
            if begun < 0:
                self.nodes -= self.num_rails // team
                left, group = self.chunks // team, self._opened(team)
            else:
                left, group = self.left[team].pop(begun)
            if left > width:
                self.left.setdefault(team, []).append((left - width, group))
            falls.append(_Wave(width, team, group))
            cost = self.costs[team]
            spare_us += cost.alpha_us + cost.chunk_us * width
            spare_us -= cost.inside_alpha_us + cost.inside_chunk_us * width

    def _widths(self, team: int, spare_us: float) -> Iterator[tuple[int, int, int]]:
        """How wide the next round of such a team may be, the team, and which of `left` it goes on with.

        A group ends with what it has left, as soon as that is not too wide, and begins with no more than half
        of its chunks: so what is left is what a round before needs.
        """
        cost = self.costs[team]
        widest = int((spare_us - cost.inside_alpha_us) / max(cost.inside_chunk_us, 1e-12) + 1e-9)
        widest = min(widest, self.most)
        for number, (left, _) in enumerate(self.left.get(team, [])):
            if left <= widest:
                yield left, team, number
        if self.nodes >= self.num_rails // team:
            chunks = self.chunks // team
            yield chunks if chunks <= widest else min(widest, chunks // 2), team, -1


def _rounds(waves: tuple[_Wave, ...], num_rails: int) -> Iterator[Round]:
    """The rounds, with nodes and chunks: who is served first comes first in the order of the nodes."""
    first_node: dict[int, int] = {}
    sent: dict[int, int] = {}
    nodes = 0
    for width, team, group in waves:
        if group not in first_node:
            first_node[group], sent[group] = nodes, 0
            nodes += num_rails // team
        begin = sent[group]
        sent[group] = begin + team * width
        yield tuple(
            Piece(
                first_node[group] + rail // team,
                begin + rail % team * width,
                begin + (rail % team + 1) * width,
            )
            for rail in range(num_rails)
        )

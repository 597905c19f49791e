"""What acts by itself in a run, what it may wait for, and what a rank has to say in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Wait:
    """What an agent waits for.

    Parameters
    ----------
    is_over : whether it may go on; once it may, it stays so until the agent acts.
    says : what it waits for, as the end of a sentence; None: for others of its own block or rank, which is
        reported of them.
    """

    is_over: Callable[[], bool]
    says: Callable[[], str] | None = None


class Agent(Protocol):
    """Whoever acts: `run` yields each wait, to be resumed when it is over, and None where others may act."""

    ended: bool
    waits_for: Wait | None

    def run(self) -> Iterator[Wait | None]:
        """All that it does; `ended` is set at the end."""
        ...


class Block(Protocol):
    """A thread block.

    `sent` : pieces sent over connections, or operands written into memory of other ranks.
    """

    sent: int

    @property
    def agents(self) -> Sequence[Agent]:
        """Those that do its work."""
        ...

    def stuck(self) -> str | None:
        """Where it stands and what it waits for, in a sentence; None if it has ended, or cannot say."""
        ...


@dataclass(slots=True)
class RankVerdict:
    """What the host of a rank saw: for each of `Answers.choices`, `wrong` elements and a few `findings`."""

    checked: int = 0
    wrong: list[int] = field(default_factory=list)
    findings: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class End:
    """What one rank has to say when a run is over; no verdict: its outputs were not looked at by itself."""

    sent: int
    ended: bool
    stuck: tuple[str, ...] = ()
    verdict: RankVerdict | None = None


@dataclass(frozen=True, eq=False)
class Ranked:
    """The agents of one rank: its thread blocks, and others next to them."""

    blocks: Sequence[Block]
    others: Sequence[Agent] = ()
    verdict: RankVerdict | None = None

    @property
    def agents(self) -> list[Agent]:
        """All of them."""
        return [*(agent for block in self.blocks for agent in block.agents), *self.others]

    @property
    def sent(self) -> int:
        """What all of its thread blocks sent."""
        return sum(block.sent for block in self.blocks)

    def end(self) -> End:
        """What it has to say when the run is over."""
        said = [text for text in (block.stuck() for block in self.blocks) if text is not None]
        ended = all(agent.ended for agent in self.agents)
        return End(self.sent, ended, () if ended else tuple(said), self.verdict)

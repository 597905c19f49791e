"""What a rule about a plan gets to see, and how it says what it found.

Positions, not the ids of the file, say which rank and which thread block is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from taccl.backend.machine.report import Collector, Details, Location
from taccl.backend.plan import ExecutionPlan, Operation, PlanBlock, RankPlan

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Operations that rules go through between two looks.
_BETWEEN_LOOKS = 256


@dataclass(frozen=True, slots=True)
class At:
    """An operation and where it is.

    Parameters
    ----------
    rank, block, step : positions in the plan, the rank and the block; of an operation inside a pipeline,
        `step` is that of the pipeline.
    inner : its position in the pipeline; None: it is in none.
    """

    rank: int
    block: int
    step: int
    inner: int | None
    operation: Operation

    def __str__(self) -> str:
        inside = "" if self.inner is None else f".{self.inner}"
        name = self.operation.name.value
        return f"rank {self.rank}, thread block {self.block}, operation {self.step}{inside} ({name})"


@dataclass(frozen=True, eq=False)
class Subject:
    """A plan under inspection. The methods below add a finding about one part of it.

    In all of them `runtimes` are the releases concerned (none: all).
    `look` is called now and then while rules go through the plan, and may raise.
    """

    plan: ExecutionPlan
    collector: Collector
    look: Callable[[], None] = lambda: None

    def ranks(self) -> Iterator[tuple[int, RankPlan]]:
        """Every rank with its position."""
        for number, rank in enumerate(self.plan.ranks):
            self.look()
            yield number, rank

    def blocks(self) -> Iterator[tuple[int, int, PlanBlock]]:
        """Every thread block with its rank and its position."""
        for number, rank in self.ranks():
            for position, block in enumerate(rank.blocks):
                yield number, position, block

    def operations(self) -> Iterator[At]:
        """Every operation, those inside pipelines after their pipeline."""
        for number, at in enumerate(self._operations):
            if number % _BETWEEN_LOOKS == 0:
                self.look()
            yield at

    @cached_property
    def _operations(self) -> tuple[At, ...]:
        found = []
        for rank, number, block in self.blocks():
            for step, operation in enumerate(block.operations):
                found.append(At(rank, number, step, None, operation))
                found += [At(rank, number, step, inner, each) for inner, each in enumerate(operation.inner)]
        return tuple(found)

    def file(
        self, rule: str, message: str, hint: str, runtimes: tuple[str, ...] = (), **details: Unpack[Details]
    ) -> None:
        """About the plan as a whole."""
        self.collector.structure(rule, message, hint, None, runtimes, **details)

    def rank(self, rank: int, rule: str, message: str, hint: str, **details: Unpack[Details]) -> None:
        """About one rank; `message` follows its name."""
        self.collector.structure(rule, f"rank {rank} {message}", hint, Location(rank), **details)

    def block(
        self, rank: int, block: int, rule: str, message: str, hint: str, **details: Unpack[Details]
    ) -> None:
        """About one thread block; `message` follows its name."""
        said = f"rank {rank}, thread block {block} {message}"
        self.collector.structure(rule, said, hint, Location(rank, block), **details)

    def operation(
        self,
        at: At,
        rule: str,
        message: str,
        hint: str,
        runtimes: tuple[str, ...] = (),
        **details: Unpack[Details],
    ) -> None:
        """About one operation; `message` follows its name."""
        location = Location(at.rank, at.block, at.step)
        self.collector.structure(rule, f"{at} {message}", hint, location, runtimes, **details)


Rule = Callable[[Subject], None]

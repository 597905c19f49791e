"""What a structural rule gets to see, and how it says what it found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from taccl.backend.machine.report import Collector, Details, Location
from taccl.backend.program import Program, RankProgram
from taccl.backend.verify.msccl_xml.columns import Columns
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.backend.verify.msccl_xml.limits import RUNTIMES, Runtime

if TYPE_CHECKING:
    from typing_extensions import Unpack

ALL = tuple(runtime.name for runtime in RUNTIMES)


def runtimes_where(holds: Callable[[Runtime], bool]) -> tuple[str, ...]:
    """Names of the runtimes for which something holds."""
    return tuple(runtime.name for runtime in RUNTIMES if holds(runtime))


@dataclass(frozen=True, eq=False)
class Subject:
    """A program under inspection. The methods below add a finding about one part of it.

    In all of them `runtimes` are those concerned; with none, nothing is added.
    """

    columns: Columns
    executed: ExecutedSteps
    collector: Collector

    @property
    def program(self) -> Program:
        return self.columns.program

    def file(
        self, rule: str, message: str, hint: str, runtimes: tuple[str, ...] = ALL, **details: Unpack[Details]
    ) -> None:
        """About the file as a whole."""
        self._add(rule, message, hint, None, runtimes, **details)

    def rank(
        self,
        rank: RankProgram,
        rule: str,
        message: str,
        hint: str,
        runtimes: tuple[str, ...] = ALL,
        **details: Unpack[Details],
    ) -> None:
        """About one rank; `message` follows its name."""
        location = Location(rank.rank, line=rank.line)
        self._add(rule, f"rank {rank.rank} {message}", hint, location, runtimes, **details)

    def block(
        self,
        block: int,
        rule: str,
        message: str,
        hint: str,
        runtimes: tuple[str, ...] = ALL,
        **details: Unpack[Details],
    ) -> None:
        """About one thread block, given by its row; its name is put before `message`."""
        said = f"{self.columns.name_of_block(block)}: {message}"
        self._add(rule, said, hint, self.columns.location(block), runtimes, **details)

    def step(
        self,
        step: int,
        rule: str,
        message: str,
        hint: str,
        runtimes: tuple[str, ...] = ALL,
        **details: Unpack[Details],
    ) -> None:
        """About one step, given by its row; its name is put before `message`."""
        said = f"{self.columns.name_of_step(step)}: {message}"
        self._add(rule, said, hint, self.columns.location_of_step(step), runtimes, **details)

    def _add(
        self,
        rule: str,
        message: str,
        hint: str,
        location: Location | None,
        runtimes: tuple[str, ...],
        **details: Unpack[Details],
    ) -> None:
        if runtimes:
            self.collector.structure(rule, message, hint, location, runtimes, **details)


Rule = Callable[[Subject], None]

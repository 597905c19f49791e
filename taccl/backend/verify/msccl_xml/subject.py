"""What a structural rule gets to see, and how it says what it found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from taccl.backend.machine.report import Collector, Finding, Refusal, Severity
from taccl.backend.program import Program, RankProgram
from taccl.backend.verify.msccl_xml.columns import Columns
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.backend.verify.msccl_xml.limits import RUNTIMES, Runtime

ALL = tuple(runtime.name for runtime in RUNTIMES)


def runtimes_where(holds: Callable[[Runtime], bool]) -> tuple[str, ...]:
    """Names of the runtimes for which something holds."""
    return tuple(runtime.name for runtime in RUNTIMES if holds(runtime))


@dataclass(frozen=True, eq=False)
class Subject:
    """A program under inspection. The methods below add a finding about one part of it.

    In all of them `runtimes` are those concerned (with none, nothing is added), `refusal` says that they
    do not run the file, and `fatal` that executing the program would mean nothing.
    """

    columns: Columns
    executed: ExecutedSteps
    collector: Collector

    @property
    def program(self) -> Program:
        return self.columns.program

    def file(
        self,
        rule: str,
        message: str,
        hint: str,
        runtimes: tuple[str, ...] = ALL,
        refusal: Refusal | None = None,
        severity: Severity = "error",
        fatal: bool = False,
    ) -> None:
        """About the file as a whole."""
        if runtimes:
            finding = Finding(
                "structure", severity, rule, message, runtimes=runtimes, hint=hint, refusal=refusal
            )
            self.collector.add(finding, fatal)

    def rank(
        self,
        rank: RankProgram,
        rule: str,
        message: str,
        hint: str,
        runtimes: tuple[str, ...] = ALL,
        refusal: Refusal | None = None,
        severity: Severity = "error",
    ) -> None:
        """About one rank; `message` follows its name."""
        if runtimes:
            said = f"rank {rank.rank} {message}"
            self.collector.add(
                Finding(
                    "structure",
                    severity,
                    rule,
                    said,
                    rank.rank,
                    None,
                    None,
                    rank.line,
                    runtimes,
                    hint,
                    refusal,
                )
            )

    def block(
        self,
        block: int,
        rule: str,
        message: str,
        hint: str,
        runtimes: tuple[str, ...] = ALL,
        refusal: Refusal | None = None,
        fatal: bool = False,
    ) -> None:
        """About one thread block, given by its row."""
        if runtimes:
            finding = self.columns.at_block(
                block, "structure", "error", rule, message, hint, runtimes, refusal
            )
            self.collector.add(finding, fatal)

    def step(
        self,
        step: int,
        rule: str,
        message: str,
        hint: str,
        runtimes: tuple[str, ...] = ALL,
        refusal: Refusal | None = None,
        severity: Severity = "error",
        fatal: bool = False,
    ) -> None:
        """About one step, given by its row."""
        if runtimes:
            finding = self.columns.at_step(
                step, "structure", severity, rule, message, hint, runtimes, refusal
            )
            self.collector.add(finding, fatal)


Rule = Callable[[Subject], None]

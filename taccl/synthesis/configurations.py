"""The configurations of a file: protocol, instances, thread blocks."""

from __future__ import annotations

from dataclasses import dataclass

from taccl.backend.target import THREAD_BLOCKS, AnyTarget, ThreadBlocks
from taccl.errors import TopologyError
from taccl.model.engine_costs import Pace, Served
from taccl.model.executor import Executor
from taccl.synthesis.output_options import OutputOptions

#: Numbers of instances that are tried: as fine as a thread block more or less matters.
_INSTANCES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


@dataclass(frozen=True)
class Configuration:
    """A protocol, how many parallel copies of the program share each chunk, and what thread blocks do."""

    protocol: str
    instances: int
    thread_blocks: ThreadBlocks = "two-way"

    def served(self, target: AnyTarget) -> Served:
        """By what each link is served then, in files of a target."""
        pace: Pace = "one-way" if self.thread_blocks == "one-way" or target.is_one_sided else "in-phase"
        return Served(self.protocol, self.instances, pace)

    def __str__(self) -> str:
        return f"{self.protocol} x {self.instances}{' one-way' if self.thread_blocks == 'one-way' else ''}"


def has_predictions(executor: Executor | None, target: AnyTarget, output: OutputOptions) -> bool:
    """Whether files have a time: where the machine has an executor, and of some targets by links alone."""
    if executor is not None:
        return target.can_be_executed
    return target.predicted_by_links and output.file


def configurations_to_try(
    executor: Executor | None, target: AnyTarget, requested: OutputOptions
) -> tuple[Configuration, ...]:
    """All configurations that come into question, by thread blocks and protocol, fewest instances first.

    Parameters
    ----------
    executor : says what protocols cost; one that it does not know cannot be predicted. None: thread blocks
        cost nothing, all protocols are known, and one instance is as good as many.
    target : whose protocols there are, the usual one first.
    requested : what the user says of the file. What is open is tried, or is as usual where nothing is
    predicted.

    Raises
    ------
    TopologyError : the executor knows no protocol of the target.
    """
    if not has_predictions(executor, target, requested):
        usual = requested.for_target(target, target.name)
        return (Configuration(usual.protocol, usual.instances, usual.thread_blocks),)
    known = [name for name in target.protocols if executor is None or name in executor.protocols]
    if requested.requested_protocol is not None:
        known = [target.protocol(requested.requested_protocol)]
    if not known and executor is not None:
        raise TopologyError(
            "the machine's executor says nothing about the protocols of the target",
            hint=f"it knows {', '.join(executor.protocols)}; {target.name} has {', '.join(target.protocols)}",
        )
    kind, number = requested.requested_thread_blocks, requested.requested_instances
    kinds = THREAD_BLOCKS if kind is None else (kind,)
    numbers = (number,) if number is not None else _INSTANCES if executor is not None else (1,)
    most = requested.most_instances(target)
    return tuple(
        Configuration(name, instances, kind)
        for kind in kinds
        for name in known
        for instances in numbers
        if instances <= most
    )

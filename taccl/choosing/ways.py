"""Which ways there are to make a file of a schedule: protocols and instances. It knows no schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taccl.engine_costs import Served
from taccl.errors import TopologyError
from taccl.executor import Executor

#: Numbers of instances that are tried: as fine as a thread block more or less matters.
_INSTANCES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


@dataclass(frozen=True)
class Way:
    """A protocol, and how many parallel copies of the program share each chunk."""

    protocol: str
    instances: int

    @property
    def served(self) -> Served:
        """By what each link is served then."""
        return Served(self.protocol, self.instances)

    def __str__(self) -> str:
        return f"{self.protocol} x {self.instances}"


def ways_to_try(
    executor: Executor,
    protocols: Sequence[str],
    protocol: str | None,
    instances: int | None,
    most_instances: int,
) -> tuple[Way, ...]:
    """All ways that come into question, by protocol, fewest instances first.

    Parameters
    ----------
    executor : says what protocols cost; one that it does not know cannot be predicted.
    protocols : of the target, the usual one first.
    protocol, instances : what is asked; None: it is open.
    most_instances : more are too many for the target.

    Raises
    ------
    TopologyError : the executor knows no protocol of the target.
    """
    known = [name for name in protocols if name in executor.protocols]
    if protocol is not None:
        known = [protocol]
    if not known:
        raise TopologyError(
            "the machine's executor says nothing about the protocols of the target",
            hint=f"it knows {', '.join(executor.protocols)}; the target has {', '.join(protocols)}",
        )
    numbers = [each for each in _INSTANCES if each <= most_instances] if instances is None else [instances]
    return tuple(Way(name, number) for name in known for number in numbers)

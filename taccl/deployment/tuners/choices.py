"""NCCL's or RCCL's own choice at all sizes, as rules without a hole between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from taccl.analysis.baseline import Library
from taccl.analysis.baselines import rccl
from taccl.analysis.baselines.nccl import choice, communicator_of, release_named
from taccl.analysis.baselines.nccl.communicator import Cpu
from taccl.analysis.baselines.nccl.model import COLLECTIVES
from taccl.deployment.tuners.rules import TunerRule, Tuning
from taccl.errors import CollectiveError
from taccl.model.collectives import plain_name
from taccl.synthesis.inputs import choose_topology
from taccl.topologies import PhysicalTopology

#: Sizes at which the choice is looked at: eight to a power of two, so that of neighbours that agree all sizes
#: between them do; where they differ, the first size of the second is searched for.
_PER_DOUBLING, _DOUBLINGS = 8, 40
_Pick = Callable[[int], tuple[str, str]]


def tuning_of(
    collectives: Sequence[str] | None = None,
    *,
    topology: str | Path | PhysicalTopology,
    library: Library = "nccl",
    nodes: int | None = None,
    without: str | Sequence[str] | None = None,
    gpu: str | None = None,
    cpu: Cpu | None = None,
    nic_latency_us: float = 0.0,
    release: str = "2.30",
) -> Tuning:
    """Which algorithm and protocol a library's own model picks, from 0 bytes on.

    Parameters
    ----------
    collectives : None: all that its model has.
    others : as in `taccl.baseline`.

    Raises
    ------
    TopologyError : GPUs that are not known, or not the library's; a machine that its model cannot take.
    CollectiveError : a collective of which no choice is known, or not the algorithm.
    """
    machine = choose_topology(choose_topology(topology, nodes=nodes), without=without)
    names = tuple(plain_name(name) for name in (collectives or _all_of(library, machine)))
    for name in names:
        if name not in COLLECTIVES:
            hint = f"one of {', '.join(COLLECTIVES)}"
            raise CollectiveError(
                f"no tuner file has a rule for {name[:40]}: libraries ask for none", hint=hint
            )
    if library == "rccl":
        picks = [_of_rccl(machine, name, gpu) for name in names]
        says = "RCCL's own choice"
    else:
        numbers = release_named(release)
        comm = communicator_of(machine, gpu=gpu, cpu=cpu, nic_latency_us=nic_latency_us)

        def of_nccl(name: str) -> _Pick:
            def pick(size: int) -> tuple[str, str]:
                first = choice(numbers, comm, name, size).pick
                return first.algorithm, first.protocol

            return pick

        picks = [of_nccl(name) for name in names]
        says = f"NCCL {numbers.name}'s own choice"
    rules = tuple(rule for name, pick in zip(names, picks, strict=True) for rule in _rules(name, pick))
    return Tuning(machine.num_nodes, machine.num_members, rules, f"{says} on {machine.name}")


def _all_of(library: Library, machine: PhysicalTopology) -> tuple[str, ...]:
    """RCCL's algorithm of an AllReduce between nodes is not known here."""
    if library == "nccl":
        return tuple(COLLECTIVES)
    return ("allreduce",) * (machine.num_nodes == 1) + ("allgather", "reducescatter")


def _of_rccl(machine: PhysicalTopology, name: str, gpu: str | None) -> _Pick:
    def pick(size: int) -> tuple[str, str]:
        words = rccl.choice(machine, name, size, gpu=gpu).split()
        if len(words) != 2:
            raise CollectiveError(
                f"which algorithm RCCL takes for {name} between nodes is not known here",
                hint="--collective allgather or reducescatter, or one node",
            )
        return words[0], words[1]

    return pick


def _rules(collective: str, pick: _Pick) -> Iterator[TunerRule]:
    """Rules that follow each other, the first from 0 bytes on, the last without a largest size."""
    grid = sorted({round(2 ** (step / _PER_DOUBLING)) for step in range(_DOUBLINGS * _PER_DOUBLING + 1)})
    least, current = 0, pick(grid[0])
    for before, size in pairwise(grid):
        following = pick(size)
        if following != current:
            first = _first(before, size, pick, current)
            yield TunerRule(collective, least, first - 1, *current)
            least, current = first, following
    yield TunerRule(collective, least, None, *current)


def _first(same: int, other: int, pick: _Pick, current: tuple[str, str]) -> int:
    """The first size with another choice."""
    while other - same > 1:
        middle = (same + other) // 2
        if pick(middle) == current:
            same = middle
        else:
            other = middle
    return other

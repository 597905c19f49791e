"""Which programs tell a machine's parameters apart: chosen by its shape, built, and each verified."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from taccl.backend.limits import LIMITS, check_limits
from taccl.backend.msccl_xml import to_xml
from taccl.backend.program import Program, Protocol
from taccl.backend.verify.msccl_xml import verify_text
from taccl.backend.verify.msccl_xml.limits import RUNTIMES
from taccl.calibration.probe.folder import commands, readme, script
from taccl.calibration.probe.patterns import PATTERNS, Pattern
from taccl.errors import ProgramLimitError, TacclError, TopologyError
from taccl.model.collective import BoolArray
from taccl.support.arguments import shown
from taccl.support.files import write_folder
from taccl.support.schemas import stamped
from taccl.topologies import PhysicalTopology, load_topology
from taccl.topologies.reach import may_reach
from taccl.topologies.without import without_helpers

#: Larger machines have the links of smaller ones.
MOST_RANKS = 128
#: The smallest and largest size requested; the smallest divides into the chunks of every program.
_LEAST_BYTES, _LARGEST_BYTES, _FACTOR = 2**14, 2**28, 4
_WORD_BYTES = 16
_MOST_INSTANCES = 8
#: Pattern -> (protocols or None for all, instances), where all GPUs reach each other, and where not.
_Plan = dict[str, tuple[tuple[Protocol, ...], tuple[int, ...]]]
_ALL = tuple(Protocol)
_FULL: _Plan = {
    "pairs": (_ALL, (1, 2, 4, 8)),
    "one_way": ((Protocol.SIMPLE,), (1, 2, 4)),
    "ring": (_ALL, (1, 8)),
    "sums": ((Protocol.SIMPLE,), (1, 4)),
}
_SPARSE: _Plan = {"ring": (_ALL, (1, 2, 4, 8))}
#: Steps that the search for a ring may take.
_PATIENCE = 200_000


@dataclass(frozen=True)
class ProbeProgram:
    """A program, its text, and why it is there.

    Parameters
    ----------
    file : the name of its file.
    pattern, tells : how it moves data, and which costs its times depend on.
    readers : the runtimes that execute it.
    """

    file: str
    pattern: str
    tells: str
    program: Program
    text: str
    readers: tuple[str, ...]

    @property
    def thread_blocks(self) -> int:
        """Of the rank that has most."""
        return max(len(rank.thread_blocks) for rank in self.program.ranks)

    @property
    def instances(self) -> int:
        """Channels that it uses."""
        return self.program.num_channels


@dataclass(frozen=True)
class Probe:
    """What to run on a machine.

    Parameters
    ----------
    topology : name of the machine.
    sizes : smallest and largest size in bytes, and the factor between two.
    """

    topology: str
    num_ranks: int
    programs: tuple[ProbeProgram, ...]
    sizes: tuple[int, int, int]
    notes: tuple[str, ...] = ()

    def write(self, folder: str | Path) -> None:
        """Put the programs, `run.sh` and `README.md` into a new or empty folder.

        Raises
        ------
        FileError : the folder holds something already, or cannot be written.
        """
        texts = {program.file: program.text for program in self.programs}
        texts["run.sh"] = script(self._rows(), self.num_ranks, self.sizes)
        texts["README.md"] = readme(self.topology, self._rows(), self.num_ranks, self.sizes, self.notes)
        write_folder(Path(folder), texts)

    def to_dict(self) -> dict[str, object]:
        """What `taccl probe --json` prints."""
        least, largest, factor = self.sizes
        return stamped(
            "taccl.probe/1",
            {
                "topology": self.topology,
                "ranks": self.num_ranks,
                "programs": self._rows(),
                "least_bytes": least,
                "largest_bytes": largest,
                "factor": factor,
                "commands": commands(self.num_ranks),
                "notes": list(self.notes),
            },
        )

    def _rows(self) -> list[dict[str, object]]:
        return [
            {
                "file": program.file,
                "collective": program.program.collective,
                "pattern": program.pattern,
                "protocol": program.program.protocol.value,
                "instances": program.instances,
                "thread_blocks": program.thread_blocks,
                "tells": program.tells,
                "readers": list(program.readers),
            }
            for program in self.programs
        ]


def probe(
    topology: str | Path | PhysicalTopology,
    *,
    nodes: int | None = None,
    protocols: Sequence[Protocol] = _ALL,
) -> Probe:
    """The programs to run on a machine.

    Each pattern is taken with one instance if any runtime executes it, and with more instances as long as all
    runtimes of MSCCL-XML do. Every program is verified from its text; one that fails is never handed over.

    Parameters
    ----------
    topology, nodes : as `load_topology` takes them; a machine of one's own is taken as it is.
    protocols : those to probe.

    Raises
    ------
    TopologyError : fewer than 2 GPUs, more than 128, or GPUs that form no ring.
    VerificationError : a program that is not right, which is a fault of taccl.
    """
    machine = topology if isinstance(topology, PhysicalTopology) else load_topology(topology, nodes)
    machine = without_helpers(machine)  # no file of a program can use them
    wanted = _protocols(protocols)
    _check_ranks(machine)
    reach = may_reach(machine)
    order = _ring(reach)
    is_full = bool((reach | np.eye(len(reach), dtype=np.bool_)).all())
    notes = [] if is_full else ["not all GPUs reach each other, so rings alone are probed: no sums"]
    programs: list[ProbeProgram] = []
    plan = _FULL if is_full else _SPARSE
    for pattern in PATTERNS:
        written = list(_of_pattern(pattern, plan, wanted, order))
        if pattern.name in plan and not written:
            notes.append(f"no runtime holds {pattern.name} of {machine.num_ranks} GPUs, so it is left out")
        programs += written
    return Probe(machine.name, machine.num_ranks, tuple(programs), _sizes(machine.num_ranks), tuple(notes))


def _protocols(protocols: Sequence[Protocol]) -> tuple[Protocol, ...]:
    for each in protocols:
        if not isinstance(each, Protocol):
            known = ", ".join(f"Protocol.{one.name}" for one in Protocol)
            raise TacclError(f"unknown protocol {shown(each)}", hint=f"one of {known}")
    if not protocols:
        raise TacclError("no protocol to probe", hint="Simple, LL or LL128")
    return tuple(each for each in Protocol if each in protocols)


def _check_ranks(machine: PhysicalTopology) -> None:
    if machine.num_ranks < 2:
        raise TopologyError(f"{machine.name} has one GPU, so nothing is sent")
    if machine.num_ranks > MOST_RANKS:
        raise TopologyError(
            f"{machine.name} has {machine.num_ranks} GPUs; at most {MOST_RANKS} are probed",
            hint="--nodes 2 has each kind of its links",
        )


def _of_pattern(
    pattern: Pattern, plan: _Plan, wanted: Sequence[Protocol], order: Sequence[int]
) -> Iterator[ProbeProgram]:
    protocols, instances = plan.get(pattern.name, ((), ()))
    chosen = [each for each in protocols if each in wanted]
    if protocols and not chosen:  # planned for Simple alone: then for the first that is wanted
        chosen = [wanted[0]]
    for protocol in chosen:
        for number in instances:
            program = pattern.build(order, protocol, number)
            if not _fits(program):  # nor do more instances; to verify them would take long
                break
            yield from _verified(pattern, program)


def _fits(program: Program) -> bool:
    """Whether all runtimes hold the program; of one with one instance, whether any does."""
    every = _holds(program, LIMITS)
    return every or (program.num_channels == 1 and any(_holds(program, [each]) for each in LIMITS))


def _holds(program: Program, runtimes: Iterable[str]) -> bool:
    try:
        check_limits(program, runtimes)
    except ProgramLimitError:
        return False
    return True


def _verified(pattern: Pattern, program: Program) -> Iterator[ProbeProgram]:
    """The program if it is to be run; a program that computes something else is an error."""
    text = to_xml(program)
    report = verify_text(text, targets=None)
    readers = tuple(name for name, can in report.facts.readers.items() if can == "yes")
    if program.num_channels > 1 and len(readers) < len(RUNTIMES):
        return
    if not readers:
        return
    report.raise_for_findings()
    yield ProbeProgram(f"{program.name}.xml", pattern.name, pattern.tells, program, text, readers)


def _sizes(num_ranks: int) -> tuple[int, int, int]:
    """Sizes that the chunks of every program divide, in elements of any type; runtimes take no others."""
    unit = num_ranks * _MOST_INSTANCES * _WORD_BYTES
    least = -(-_LEAST_BYTES // unit) * unit
    largest = least
    while largest * _FACTOR <= _LARGEST_BYTES:
        largest *= _FACTOR
    return least, largest, _FACTOR


def _ring(reach: BoolArray) -> list[int]:
    """The ranks in an order in which each reaches the next, and the last the first: as counted, if it is one.

    Else by depth first, the ranks that reach the fewest others first.
    """
    n = len(reach)
    counted = list(range(n))
    if all(reach[rank, (rank + 1) % n] for rank in counted):
        return counted
    following = [np.flatnonzero(row).tolist() for row in reach]
    path, used, steps = [0], {0}, 0
    choices = [_by_routes_on(following, used, 0)]
    while choices and steps < _PATIENCE:
        steps += 1
        if len(path) == n and reach[path[-1], 0]:
            return path
        if choices[-1] and len(path) < n:
            rank = choices[-1].pop()
            path.append(rank)
            used.add(rank)
            choices.append(_by_routes_on(following, used, rank))
        else:
            choices.pop()
            used.discard(path.pop())
    raise TopologyError(
        "no ring through all GPUs was found in which each reaches the next past no other GPU",
        hint="--nodes 1, or a machine whose NICs are near its GPUs",
    )


def _by_routes_on(following: Sequence[Sequence[int]], used: set[int], rank: int) -> list[int]:
    """Where to go next, the last one first."""
    free = [other for other in following[rank] if other not in used]
    return sorted(free, key=lambda other: -sum(1 for each in following[other] if each not in used))

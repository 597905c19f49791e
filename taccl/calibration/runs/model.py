"""A machine and its executor as a vector of numbers, and the times of measured files under it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from taccl.api import make_problem
from taccl.backend.program import Op, Program, Protocol
from taccl.backend.simulate.executor import Prepared
from taccl.backend.simulate.executor.prepared import ROUNDS
from taccl.backend.verify.msccl_xml.limits import EXECUTOR, RCCL, Runtime
from taccl.calibration.runs.jump import Jump
from taccl.calibration.runs.least_deviation import Unknown
from taccl.calibration.runs.runs import MeasuredFile
from taccl.errors import TopologyError
from taccl.model.collective import BoolArray, IntArray
from taccl.model.executor import SHAPES, Executor, ProtocolCosts, ProtocolName
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.problem import RoutingLimits
from taccl.model.units import MB, MIN_BETA_US_PER_MB, beta_from_bandwidth
from taccl.synthesis.request import Request
from taccl.topologies import Link, PhysicalTopology

#: Where the search begins without an executor in the machine: the order of magnitude of what is known of
#: NCCL and RCCL, per protocol slice_us and block_gbps. A launch begins at this share of its protocol's least
#: time; where the times do not tell it, it is held to that share of all times, or to a usual launch if less.
_STARTS: Mapping[ProtocolName, tuple[float, float]] = {
    "Simple": (1.0, 20.0),
    "LL": (0.3, 3.0),
    "LL128": (0.5, 6.0),
}
_OF_LEAST_TIME = 0.6
_LAUNCH_US = 5.0
_EMPTY_SLICE_US, _LEAST_US = 0.5, 0.2
_REDUCE_US, _REDUCE_GBPS, _ALPHA_US = 3.0, 25.0, 0.7
_ROOM_US, _SHARPNESS, _SHARP = 1.0, 8.0, (1.0, 50.0)
#: Limits of what is searched: microseconds, and GB/s.
_US, _GBPS = (1e-3, 1e5), (1e-2, 1e4)
#: How much all but thread blocks (and launches more) are held to what the machine says, or to their
#: order of magnitude: a model that is a few percent off elsewhere would otherwise put its misses into what
#: the times hardly tell (`Unknown.anchor`).
_HELD, _LAUNCH_HELD = 0.1, 0.2
#: A link is no slower than this part of what the machine says, and no faster than this multiple of it.
_LINK = (0.02, 4.0)


@dataclass(frozen=True)
class Parameter:
    """One number of the vector.

    Parameters
    ----------
    name : `alpha_us`, `bandwidth_gbps` (of links), `reduce_us`, `reduce_gbps`, or a field of `ProtocolCosts`.
    of : the protocol, the kinds of devices that a class of links joins, or `all`.
    base : what the machine says; None where it says nothing.
    """

    name: str
    of: str
    base: float | None
    unknown: Unknown


@dataclass(frozen=True)
class LinkCosts:
    """A class of links: those between the same kinds of devices at the same cost, in either direction."""

    kinds: tuple[str, str]
    alpha_us: float
    beta_us_per_mb: float

    @property
    def gbps(self) -> float:
        return MB / (max(self.beta_us_per_mb, MIN_BETA_US_PER_MB) * 1e3)


@dataclass(frozen=True, eq=False)
class RunModel:
    """What the measured times are compared with.

    Parameters
    ----------
    machine : as it was given; what is not fitted stays.
    files : with the times; rows are their sizes, file after file.
    pieces : bytes of a piece by protocol, where the machine has no executor.
    jumps : by protocol, where calls begin to sleep; a measured time tells on which side a call was.
    """

    machine: PhysicalTopology
    files: tuple[MeasuredFile, ...]
    pieces: Mapping[ProtocolName, int]
    prepared: tuple[Prepared, ...]
    jumps: Mapping[ProtocolName, Jump]

    @staticmethod
    def of(machine: PhysicalTopology, files: Sequence[MeasuredFile], runtime: Runtime) -> RunModel:
        """Programs made ready on the machine.

        Raises
        ------
        TopologyError : another number of ranks, or a send between GPUs that no link joins.
        """
        for file in files:
            ranks = file.program.num_ranks
            if ranks != machine.num_ranks:
                raise TopologyError(
                    f"{file.name} is for {ranks} ranks, but {machine.name} has {machine.num_ranks} GPUs",
                    hint="--nodes, or the machine that was measured",
                )
        plain = network_of(machine)
        prepared = tuple(Prepared.of(file.program, plain) for file in files)
        pieces = {name: runtime.piece_bytes[Protocol(name)] for name in SHAPES}
        return RunModel(machine, tuple(files), pieces, prepared, dict(_said_jumps(machine, files)))

    @cached_property
    def row_file(self) -> IntArray:
        """Shape (rows,): the file of each measured time."""
        return np.repeat(np.arange(len(self.files)), [len(file.size_bytes) for file in self.files])

    @cached_property
    def row_bytes(self) -> IntArray:
        """Shape (rows,): the size of each call."""
        return np.concatenate([file.size_bytes for file in self.files])

    @cached_property
    def measured_us(self) -> FloatArray:
        """Shape (rows,)."""
        return np.concatenate([file.time_us for file in self.files])

    @cached_property
    def protocols(self) -> tuple[ProtocolName, ...]:
        """Those of the files."""
        used = {file.protocol.value for file in self.files}
        return tuple(name for name in SHAPES if name in used)

    def rows_of(self, protocol: ProtocolName) -> BoolArray:
        """Shape (rows,): whether each time is of a file with this protocol."""
        return self._rows([file.protocol.value == protocol for file in self.files])

    @cached_property
    def _woken(self) -> Mapping[ProtocolName, BoolArray]:
        """Shape (rows,) by protocol: the calls that took longer than it takes to fall asleep."""
        return {
            name: self.rows_of(name) & (self.measured_us > jump.after_us + jump.by_us / 2)
            for name, jump in self.jumps.items()
        }

    @cached_property
    def link_costs(self) -> tuple[LinkCosts, ...]:
        """The classes of links that some program sends over, in the machine's order."""
        used = {link for program in self.prepared for link in _links_of(self.machine, program.program)}
        classes = (self._class_of[index] for index in sorted(used))
        return tuple(dict.fromkeys(classes))

    @cached_property
    def _class_of(self) -> tuple[LinkCosts, ...]:
        """Of each link of the machine."""
        kind = {device.name: device.kind for device in self.machine.devices}
        ends = (sorted((kind[link.src], kind[link.dst])) for link in self.machine.links)
        return tuple(
            LinkCosts((first, second), link.alpha_us, link.beta_us_per_mb)
            for (first, second), link in zip(ends, self.machine.links, strict=True)
        )

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """All that is fitted, in the order of the vector."""
        return (*self._of_links(), *self._of_protocols(), *self._of_sums(), *self._of_runtime())

    def _of_links(self) -> Iterator[Parameter]:
        on = {
            costs: self._rows([costs in self._classes_of(program.program) for program in self.prepared])
            for costs in self.link_costs
        }
        for costs, rows in on.items():
            label = " - ".join(costs.kinds)
            if sum(other.kinds == costs.kinds for other in on) > 1:
                label += f", {costs.gbps:.4g} GB/s"
            start = costs.alpha_us or _ALPHA_US
            yield Parameter("alpha_us", label, costs.alpha_us, Unknown(start, *_US, rows, anchor=_HELD))
            least, most = (part * costs.gbps for part in _LINK)
            yield Parameter(
                "bandwidth_gbps", label, costs.gbps, Unknown(costs.gbps, least, most, rows, anchor=_HELD)
            )

    def _classes_of(self, program: Program) -> set[LinkCosts]:
        return {self._class_of[link] for link in _links_of(self.machine, program)}

    def _of_protocols(self) -> Iterator[Parameter]:
        for name in self.protocols:
            rows = self.rows_of(name)
            known = None if self.machine.executor is None else self.machine.executor.protocols.get(name)
            slice_us, block_gbps = _STARTS[name]
            starts = {
                "launch_us": _OF_LEAST_TIME * float(self.measured_us[rows].min()),
                "slice_us": slice_us,
                "block_gbps": block_gbps,
                "least_us": _LEAST_US,
            }
            if SHAPES[name].slices > 1:  # else no slice is ever empty
                starts["empty_slice_us"] = _EMPTY_SLICE_US
            for key, start in starts.items():
                said = getattr(known, key, None)
                base = None if said is None else float(said)
                limits = _GBPS if key == "block_gbps" else _US
                unknown = Unknown(base or start, *limits, rows)
                if key == "launch_us":
                    usual = min(_LAUNCH_US, _OF_LEAST_TIME * float(self.measured_us.min()))
                    unknown = replace(unknown, is_added=True, anchor=_LAUNCH_HELD, held_at=base or usual)
                elif key != "block_gbps":
                    unknown = replace(unknown, anchor=_HELD)
                yield Parameter(key, name, base, unknown)
            if name in self.jumps:
                base = None if known is None else known.wake_us
                unknown = Unknown(self.jumps[name].by_us, *_US, self._woken[name], True, anchor=_HELD / 2)
                yield Parameter("wake_us", name, base, unknown)

    def _of_runtime(self) -> Iterator[Parameter]:
        """Of all protocols: what looking for room costs, and how sharply a link's bandwidth ends."""
        rows = np.ones(len(self.row_file), dtype=np.bool_)
        known = self.machine.executor
        room = None if known is None else known.room_us
        sharpness = None if known is None else known.link_sharpness
        yield Parameter("room_us", "all", room, Unknown(room or _ROOM_US, *_US, rows, anchor=_HELD))
        unknown = Unknown(sharpness or _SHARPNESS, *_SHARP, rows, anchor=_HELD / 2)
        yield Parameter("link_sharpness", "all", sharpness, unknown)

    def _of_sums(self) -> Iterator[Parameter]:
        rows = self._rows([_adds_up(file.program) for file in self.files])
        if not rows.any():
            return
        known = self.machine.executor
        for key, start, limits in (("reduce_us", _REDUCE_US, _US), ("reduce_gbps", _REDUCE_GBPS, _GBPS)):
            base = None if known is None else float(getattr(known, key))
            yield Parameter(key, "all", base, Unknown(base or start, *limits, rows, anchor=_HELD))

    def _rows(self, of_files: Sequence[bool]) -> BoolArray:
        return np.array(of_files, dtype=np.bool_)[self.row_file]

    def fitted(self, values: FloatArray) -> PhysicalTopology:
        """The machine with these values in place of its own."""
        value = {(each.name, each.of): float(at) for each, at in zip(self.parameters, values, strict=True)}
        of_links = values[: 2 * len(self.link_costs)].reshape(-1, 2)  # the first of the vector
        costs = {
            each: (float(alpha), beta_from_bandwidth(float(bandwidth)))
            for each, (alpha, bandwidth) in zip(self.link_costs, of_links, strict=True)
        }
        links = tuple(
            Link(link.src, link.dst, *costs.get(of, (link.alpha_us, link.beta_us_per_mb)))
            for link, of in zip(self.machine.links, self._class_of, strict=True)
        )
        return replace(self.machine, links=links, executor=self._executor(value))

    def _executor(self, value: Mapping[tuple[str, str], float]) -> Executor:
        known = self.machine.executor
        protocols: dict[ProtocolName, ProtocolCosts] = {} if known is None else dict(known.protocols)
        for name in self.protocols:
            had = protocols.get(name)
            fitted: dict[str, Any] = {key: at for (key, of), at in value.items() if of == name}
            if name in self.jumps:
                fitted["sleep_after_us"] = self.jumps[name].after_us
            if had is None:
                protocols[name] = ProtocolCosts(
                    **fitted, hop_us=0.0, piece_bytes=self.pieces[name], shape=SHAPES[name]
                )
            else:
                protocols[name] = replace(had, **fitted)
        had_us = _REDUCE_US if known is None else known.reduce_us
        had_gbps = _REDUCE_GBPS if known is None else known.reduce_gbps
        reduce_us = value.get(("reduce_us", "all"), had_us)
        reduce_gbps = value.get(("reduce_gbps", "all"), had_gbps)
        return replace(
            known or Executor(protocols, reduce_us, reduce_gbps),
            protocols=protocols,
            reduce_us=reduce_us,
            reduce_gbps=reduce_gbps,
            room_us=value["room_us", "all"],
            link_sharpness=value["link_sharpness", "all"],
        )

    def predict(self, values: FloatArray, rows: IntArray, rounds: int = ROUNDS) -> FloatArray:
        """The times of these rows, microseconds, with this many rounds executed at most."""
        machine = self.fitted(values)
        network = network_of(machine)
        assert machine.executor is not None
        executor = replace(machine.executor, protocols=_awake(machine.executor.protocols))
        times = np.array(
            [
                self.prepared[file]
                .run(executor, self.files[file].protocol.value, float(size), network, rounds)
                .time_us
                for file, size in zip(self.row_file[rows], self.row_bytes[rows], strict=True)
            ]
        )
        for name, woken in self._woken.items():
            times += machine.executor.protocols[name].wake_us * woken[rows]
        return times


def pieces_known(machine: PhysicalTopology, files: Sequence[MeasuredFile]) -> bool:
    """Whether the machine says how large a piece is, for the protocols of all files."""
    known = machine.executor
    return known is not None and {file.protocol.value for file in files} <= set(known.protocols)


#: Runtimes whose pieces differ.
PIECES = (RCCL, EXECUTOR)


def network_of(machine: PhysicalTopology) -> LogicalTopology:
    """All links between GPUs, at the cost of their wires."""
    stated = make_problem(Request("allgather", topology=machine, executor=False, size=2**20))
    return replace(stated.problem, symmetry=(), limits=RoutingLimits()).topology


def _links_of(machine: PhysicalTopology, program: Program) -> set[int]:
    """The machine's links that a program's sends pass."""
    pairs = {
        (rank.rank, block.send)
        for rank in program.ranks
        for block in rank.thread_blocks
        if any(step.op.sends for step in block.steps)
    }
    paths = (machine.path(*pair) or machine.host_path(*pair) for pair in pairs)
    return {link for path in paths if path is not None for link in path.links}


def _awake(protocols: Mapping[ProtocolName, ProtocolCosts]) -> dict[ProtocolName, ProtocolCosts]:
    return {name: replace(costs, sleep_after_us=None, wake_us=0.0) for name, costs in protocols.items()}


def _said_jumps(
    machine: PhysicalTopology, files: Sequence[MeasuredFile]
) -> Iterator[tuple[ProtocolName, Jump]]:
    """What the machine says of the protocols of the files."""
    used = {file.protocol.value for file in files}
    for name, costs in ({} if machine.executor is None else machine.executor.protocols).items():
        after = costs.sleep_after_us
        if name in used and after is not None:
            yield name, Jump(after, costs.wake_us, after, after)


def _adds_up(program: Program) -> bool:
    return any(
        step.op is Op.REDUCE for rank in program.ranks for block in rank.thread_blocks for step in block.steps
    )

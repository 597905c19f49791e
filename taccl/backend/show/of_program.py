"""The timeline of a program: a lane per thread block, a bar per step that does something."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from taccl.backend.program import Op, Program
from taccl.backend.show.contents import StepTimes, execute
from taccl.backend.show.critical import InOrder, Release, walk_back
from taccl.backend.show.facts import program_facts
from taccl.backend.show.timeline import COPY, RECEIVE, REDUCE, RELAY, SEND, Bars, Timeline, labelled_bars
from taccl.backend.simulate import Simulation
from taccl.backend.step_rows import OPS
from taccl.backend.verify.msccl_xml.columns import RECEIVES, SENDS
from taccl.model import units
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.units import format_count

_KIND = {Op.SEND: SEND, Op.RECV: RECEIVE, Op.RECV_REDUCE_COPY: RECEIVE, Op.COPY: COPY, Op.REDUCE: REDUCE}
_KIND_OF = np.array([_KIND.get(op, RELAY) for op in OPS])


def program_timeline(
    program: Program,
    simulation: Simulation | None = None,
    facts: Iterable[tuple[str, str]] = (),
    notes: Iterable[str] = (),
) -> Timeline:
    """The steps of a program, when they run in a simulation of it.

    Parameters
    ----------
    simulation : of this program; without one, every step takes one unit of time and the timeline says so.
    facts : what else to put at its top: the size, the time, its bound and gap.
    notes : what else the reader must not miss.
    """
    execution = execute(program)
    columns = execution.columns
    times = _Times.of(execution, simulation)
    shown = np.flatnonzero(~np.isnan(times.end) & (columns.op != OPS.index(Op.NOP)))
    received = shown[execution.sent_by[shown] >= 0]
    bar_of = np.full(columns.num_steps, -1, dtype=np.int64)
    bar_of[shown] = np.arange(len(shown))
    bars, labels = _bars(execution, shown, times, simulation)
    return Timeline(
        title=program.name or f"{program.collective}, {program.num_ranks} ranks",
        facts=(
            *program_facts(program),
            *facts,
            ("critical path", format_count(int(bars.critical.sum()), "step")),
        ),
        notes=(*notes, *_notes(execution, simulation)),
        unit="step" if simulation is None else "us",
        span=float(times.end[shown].max(initial=0.0)),
        transfers=int(columns.count[shown[SENDS[columns.op[shown]]]].sum()),
        node_of=_no_nodes(program) if simulation is None else simulation.topology.node_of,
        lane_rank=columns.block_rank,
        lane_name=tuple(_lane_name(execution, block) for block in range(columns.num_blocks)),
        bars=bars,
        labels=labels,
        arrows=(bar_of[execution.sent_by[received]], bar_of[received]),
        topology=None if simulation is None else simulation.topology,
    )


def _no_nodes(program: Program) -> IntArray:
    return np.zeros(program.num_ranks, dtype=np.int64)


def _notes(execution: StepTimes, simulation: Simulation | None) -> Iterable[str]:
    if simulation is None:
        yield (
            "No times are known: every step is drawn as one unit of time, as soon as it can run. "
            "Give a topology or a sketch and a size for times in microseconds."
        )
    if execution.num_blocked:
        yield (
            f"{execution.num_blocked} steps can never run: they wait for steps or sends that are not there, "
            "or for each other. They are not drawn; taccl verify says which."
        )
    if not any(execution.moved) and execution.order:
        yield (
            "What the steps move is not known: some reach outside of their buffers, or the buffers are too "
            "large to follow. taccl verify says which."
        )


@dataclass(frozen=True, eq=False)
class _Times:
    """Per step: when it starts, when it is over, when its thread block goes on; NaN where it never runs."""

    start: FloatArray
    end: FloatArray
    done: FloatArray

    @staticmethod
    def of(execution: StepTimes, simulation: Simulation | None) -> _Times:
        if simulation is None:
            return _Times(execution.start, execution.end, execution.end)
        columns = execution.columns
        times = _Times(*(np.full(columns.num_steps, np.nan) for _ in range(3)))
        blocks = zip(columns.block_rank.tolist(), columns.block_id.tolist(), strict=True)
        first = dict(zip(blocks, columns.block_first.tolist(), strict=True))
        keys = zip(simulation.rank.tolist(), simulation.thread_block.tolist(), strict=True)
        row = np.array([first[key] for key in keys], dtype=np.int64) + simulation.step
        times.start[row], times.end[row] = simulation.start_us, simulation.end_us
        times.done[row] = simulation.done_us
        times.place_waits(execution)
        return times

    def place_waits(self, execution: StepTimes) -> None:
        """Nops, and reductions merged into later ones, have no event: they are over when they may be."""
        block = execution.columns.step_block
        for step in execution.order:
            if np.isnan(self.end[step]):
                before = [0.0]
                if step and block[step - 1] == block[step]:
                    before.append(float(self.done[step - 1]))
                if execution.waits_for[step] >= 0:
                    before.append(float(self.done[execution.waits_for[step]]))
                self.start[step] = self.end[step] = self.done[step] = max(before)


def _bars(
    execution: StepTimes, shown: IntArray, times: _Times, simulation: Simulation | None
) -> tuple[Bars, tuple[str, ...]]:
    """Bars in the order of the steps, which is by lane and start."""
    columns = execution.columns
    op, block = columns.op[shown], columns.step_block[shown]
    sends, receives = SENDS[op], RECEIVES[op]
    chunk_bytes = 0.0 if simulation is None else simulation.chunk_mb * units.MB
    links = _links(execution, simulation)
    critical = np.zeros(columns.num_steps, dtype=np.bool_)
    critical[_critical(execution, times, links, simulation)] = True
    return labelled_bars(
        [execution.describe(step) for step in shown.tolist()],
        lane=block,
        start=times.start[shown],
        end=times.end[shown],
        source=np.array([execution.source(step) for step in shown.tolist()], dtype=np.int64),
        bytes=columns.count[shown] * chunk_bytes,
        link=links[shown],
        peer=np.where(sends, columns.block_send[block], np.where(receives, columns.block_recv[block], -1)),
        kind=_KIND_OF[op],
        number=columns.position[shown],
        critical=critical[shown],
    )


def _links(execution: StepTimes, simulation: Simulation | None) -> IntArray:
    """The link that each step sends over; -1 for steps that send nothing, or without a topology."""
    columns = execution.columns
    link = np.full(columns.num_steps, -1, dtype=np.int64)
    if simulation is not None:
        index = simulation.topology.link_index
        pairs = zip(columns.block_rank.tolist(), columns.block_send.tolist(), strict=True)
        of_block = np.array([index.get(pair, -1) for pair in pairs], dtype=np.int64)
        sends = SENDS[columns.op]
        link[sends] = of_block[columns.step_block[sends]]
    return link


def _critical(
    execution: StepTimes, times: _Times, links: IntArray, simulation: Simulation | None
) -> IntArray:
    """One critical path.

    A receive waits for what is sent to it; all steps wait for the step before them and for the step that
    they depend on; a send waits for the ports of its link, and for a receive to make room in its connection.
    """
    ran = ~np.isnan(times.end)
    if not ran.any():
        return np.zeros(0, dtype=np.int64)
    first, block, sent_by = execution.columns.block_first, execution.columns.step_block, execution.sent_by
    users = _port_users(times, links, ran, simulation)
    received = np.flatnonzero(ran & (sent_by >= 0))
    makes_room = InOrder(block[sent_by[received]], received, times.done[received], len(first))

    def releases(step: int) -> Iterable[Release]:
        begin, sender = float(times.start[step]), int(sent_by[step])
        if sender >= 0 and times.end[step] <= times.end[sender] + 1e-9 * max(1.0, times.end[sender]):
            yield sender, begin
            return
        if sender >= 0:
            yield sender, float(times.end[sender])
        if execution.waits_for[step] >= 0:
            yield int(execution.waits_for[step]), float(times.done[execution.waits_for[step]])
        if step > first[block[step]]:
            yield step - 1, float(times.done[step - 1])
        if users is not None and simulation is not None and links[step] >= 0:
            for port in simulation.topology.ports[links[step]]:
                yield from users.before(port, begin)
            yield from makes_room.before(int(block[step]), begin)

    last = int(np.nanargmax(times.end))
    return np.array(walk_back(last, lambda step: float(times.start[step]), releases), dtype=np.int64)


def _port_users(
    times: _Times, links: IntArray, ran: np.ndarray, simulation: Simulation | None
) -> InOrder | None:
    if simulation is None:
        return None
    topology = simulation.topology
    steps = np.flatnonzero(ran & (links >= 0) & (times.done > times.start))
    user, pair = topology.pairs_of(links[steps])
    row, link = steps[user], links[steps[user]]
    until = times.done[row]
    if topology.port_betas is not None:
        # The thread block is done when the slowest port is; a faster one is free when it has its share.
        begin = times.start[row] + (topology.alpha_us[link] if topology.is_serial else 0.0)
        share = topology.pair_betas[pair] / np.where(
            topology.beta_us_per_mb[link] > 0, topology.beta_us_per_mb[link], 1
        )
        until = np.where(share < 1, begin + (until - begin) * share, until)
    return InOrder(topology.incidence[1][pair], row, until, topology.num_ports)


def _lane_name(execution: StepTimes, block: int) -> str:
    columns = execution.columns
    peers: list[str] = []
    if columns.block_recv[block] >= 0:
        peers.append(f"from {columns.block_recv[block]}")
    if columns.block_send[block] >= 0:
        peers.append(f"to {columns.block_send[block]}")
    return f"block {columns.block_id[block]}: {', '.join(peers) or 'local'}"

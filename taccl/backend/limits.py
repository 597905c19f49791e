"""What each runtime can hold, as data, and the refusal of programs that need more.

Figures: the constants of microsoft/msccl (2023-09), Azure/msccl-executor-nccl (2024-12) and ROCm/rccl
(2024-10). No runtime refuses all of these by itself: over some of them it reads or writes out of
bounds, so they are enforced here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from taccl.backend.program import Op, Program, RankProgram
from taccl.errors import ProgramLimitError


@dataclass(frozen=True, slots=True)
class RuntimeLimits:
    """The most that a runtime takes.

    Parameters
    ----------
    blocks : thread blocks per rank.
    steps : steps per thread block, nops included.
    channels : channels per program.
    blocks_per_channel : thread blocks of a rank that send on one channel; as many may receive.
    waited_blocks : thread blocks of a rank that can be waited for: ids 0 .. this - 1.
    count : chunks per step.
    buffer_chunks : chunks per buffer (offsets are 16-bit signed numbers).
    elements : XML elements that a rank keeps: the program, every rank, its own blocks and steps.
    ranks : ranks per program.
    """

    blocks: int
    steps: int
    channels: int
    blocks_per_channel: int = 32
    waited_blocks: int = 128
    count: int = 71
    buffer_chunks: int = 32768
    elements: int = 4095
    ranks: int = 1024


#: Limits by runtime; `executor` as it is built by default.
LIMITS = {
    "msccl": RuntimeLimits(blocks=216, steps=256, channels=32),
    "executor": RuntimeLimits(blocks=1024, steps=64, channels=32),
    "rccl": RuntimeLimits(blocks=64, steps=64, channels=128, waited_blocks=64),
}


def limits_of(runtimes: Iterable[str]) -> RuntimeLimits:
    """What all of these runtimes can hold: the least of each limit."""
    chosen = [LIMITS[runtime] for runtime in runtimes]
    return RuntimeLimits(
        **{field.name: min(getattr(each, field.name) for each in chosen) for field in fields(RuntimeLimits)}
    )


def check_limits(program: Program, runtimes: Iterable[str]) -> None:
    """Raise unless each of the runtimes can hold the program.

    Raises
    ------
    ProgramLimitError : the limits exceeded, with the rank and the number that exceeds each.
    """
    names = tuple(runtimes)
    limits = limits_of(names)
    findings = list(_program_findings(program, limits))
    for rank in program.ranks:
        findings += _rank_findings(rank, program.num_ranks, limits)
    if findings:
        raise ProgramLimitError(
            f"the program is too large for {_join(names)}",
            findings=findings[:10],
            hint=_hint(names),
        )


def _program_findings(program: Program, limits: RuntimeLimits) -> Iterator[str]:
    if program.num_ranks > limits.ranks:
        yield f"{program.num_ranks} ranks; the limit is {limits.ranks}"
    if program.num_channels > limits.channels:
        yield f"{program.num_channels} channels; the limit is {limits.channels}"


def _rank_findings(rank: RankProgram, num_ranks: int, limits: RuntimeLimits) -> Iterator[str]:
    blocks = rank.thread_blocks
    who = f"rank {rank.rank}"
    if len(blocks) > limits.blocks:
        yield f"{who}: {len(blocks)} thread blocks; the limit is {limits.blocks}"
    for block in blocks:
        if len(block.steps) > limits.steps:
            yield (
                f"{who}, thread block {block.id}: {len(block.steps)} steps; the limit is {limits.steps} "
                "per thread block"
            )
        counts = [step.count for step in block.steps if step.op is not Op.NOP]
        if counts and max(counts) > limits.count:
            yield (
                f"{who}, thread block {block.id}: a step of {max(counts)} chunks; the limit is {limits.count}"
            )
    waited = {step.depends[0] for block in blocks for step in block.steps if step.depends is not None}
    if waited and max(waited) >= limits.waited_blocks:
        yield (
            f"{who}: thread block {max(waited)} is waited for; "
            f"only ids below {limits.waited_blocks} can be waited for"
        )
    for word, peers in (("send", [b.send for b in blocks]), ("receive", [b.recv for b in blocks])):
        used: dict[int, int] = {}
        for block, peer in zip(blocks, peers, strict=True):
            used[block.channel] = used.get(block.channel, 0) + (peer >= 0)
        for channel, number in used.items():
            if number > limits.blocks_per_channel:
                yield (
                    f"{who}, channel {channel}: {number} thread blocks {word}; "
                    f"the limit is {limits.blocks_per_channel}"
                )
    largest = max(rank.input_chunks, rank.output_chunks, rank.scratch_chunks)
    if largest > limits.buffer_chunks:
        yield f"{who}: a buffer of {largest} chunks; the limit is {limits.buffer_chunks}"
    elements = 1 + num_ranks + len(blocks) + sum(len(block.steps) for block in blocks)
    if elements > limits.elements:
        yield f"{who}: {elements} XML elements to keep; the limit is {limits.elements}"


def _hint(names: tuple[str, ...]) -> str:
    if len(names) > 1:
        return "fewer chunks or instances, or a single --target with higher limits (msccl, executor or rccl)"
    return "fewer chunks or instances, or another --target"


def _join(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]

"""What a runtime refuses, misreads or chokes on: rules about thread blocks."""

from __future__ import annotations

import numpy as np

from taccl.backend.verify.msccl_xml import limits
from taccl.backend.verify.msccl_xml.columns import RECEIVES, SENDS
from taccl.backend.verify.msccl_xml.limits import RUNTIMES
from taccl.backend.verify.msccl_xml.subject import ALL, Rule, Subject


def _channels_exist(subject: Subject) -> None:
    columns, channels = subject.columns, subject.program.num_channels
    for block in np.flatnonzero((columns.block_channel < 0) | (columns.block_channel >= channels)):
        channel = int(columns.block_channel[block])
        refusing = tuple(runtime.name for runtime in RUNTIMES if not 0 <= channel <= runtime.channels)
        message = (
            f"uses channel {channel}, but there are channels 0 .. {channels - 1} (nchannels), and no "
            "other is ever connected"
        )
        hint = "raise nchannels or use another channel"
        subject.block(int(block), "channel-range", message, hint, refusing, refusal="load")
        others = tuple(name for name in ALL if name not in refusing)
        subject.block(int(block), "channel-range", message, hint, others)


def _peers_are_other_ranks(subject: Subject) -> None:
    columns, ranks = subject.columns, subject.program.num_ranks
    for verb, peers in (("send", columns.block_send), ("recv", columns.block_recv)):
        own = peers == columns.block_rank
        for block in np.flatnonzero(own | (peers < -1) | (peers >= ranks)):
            known = "which is its own rank" if own[block] else f"which is no rank of 0 .. {ranks - 1}"
            too_high = bool(peers[block] >= ranks)
            refusing = ("msccl",) if too_high else ALL
            others = tuple(name for name in ALL if name not in refusing)
            message, hint = (
                f"{verb} is {peers[block]}, {known}",
                f"set {verb} to another rank, or to -1 for none",
            )
            subject.block(int(block), "peer-range", message, hint, refusing, refusal="load", fatal=True)
            message += "; these runtimes do not look and crash"
            subject.block(int(block), "peer-range", message, hint, others, fatal=True)


def _blocks_have_the_peers_that_they_use(subject: Subject) -> None:
    columns = subject.columns
    for verb, kinds, peers in (("send", SENDS, columns.block_send), ("recv", RECEIVES, columns.block_recv)):
        for step in np.flatnonzero(kinds[columns.op] & (peers[columns.step_block] < 0)):
            message = f"its thread block has no {verb} peer"
            subject.step(
                int(step), "missing-peer", message, f"set {verb} on the <tb>", refusal="load", fatal=True
            )


def _channels_are_shared_by_few_blocks(subject: Subject) -> None:
    columns = subject.columns
    for verb, peers in (("send", columns.block_send), ("receive", columns.block_recv)):
        used = np.flatnonzero(peers >= 0)
        place = np.stack([columns.block_rank[used], columns.block_channel[used]], axis=1)
        _, first, counts = np.unique(place, axis=0, return_index=True, return_counts=True)
        crowded = counts > limits.MAX_BLOCKS_PER_CHANNEL
        for block, count in zip(used[first[crowded]].tolist(), counts[crowded].tolist(), strict=True):
            message = (
                f"is one of {count} on its rank that {verb} on channel {columns.block_channel[block]}; "
                f"{limits.MAX_BLOCKS_PER_CHANNEL} may"
            )
            hint = "spread them over more channels"
            subject.block(block, "blocks-per-channel", message, hint, refusal="load")


def _blocks_are_within_the_limit_of_steps(subject: Subject) -> None:
    columns = subject.columns
    most = ", ".join(f"{runtime.title} takes {runtime.steps}" for runtime in RUNTIMES)
    for block in np.flatnonzero(columns.block_steps > min(runtime.steps for runtime in RUNTIMES)):
        steps = int(columns.block_steps[block])
        subject.block(
            int(block),
            "step-limit",
            f"has {steps} steps, nops included; {most}",
            "spread its work over more channels (or build msccl-executor-nccl with MSCCL_MAX_NUM_STEPS=256)",
            tuple(runtime.name for runtime in RUNTIMES if steps > runtime.steps),
            refusal="load",
        )


BLOCK_RULES: tuple[Rule, ...] = (
    _channels_exist,
    _peers_are_other_ranks,
    _blocks_have_the_peers_that_they_use,
    _channels_are_shared_by_few_blocks,
    _blocks_are_within_the_limit_of_steps,
)

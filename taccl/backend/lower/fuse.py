"""Fused steps: a receive and the send of what it received become one step.

    r + s       rcs     receive, store, pass on
    rrc + s     rrcs    receive, add, store, pass on
    rrc + s     rrs     receive, add to the rank's own data, pass on; nothing is stored

The step runs where its send was. So it is made only if nothing in between needs what was received: no
other thread block waits for it, and the next message on its connection is sent later. Groups of several
chunks stay apart: a fused step of several pieces ties its two connections together, and the argument
of `order` for a single slot would no longer hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from taccl.backend.lower import actions as act
from taccl.backend.lower.actions import OP_CODE, SCRATCH, Actions
from taccl.backend.lower.blocks import DraftBlock
from taccl.backend.lower.expand import RankActions
from taccl.backend.lower.hazards import hazards, numbered_cells
from taccl.backend.program import Op
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.tolerance import TOLERANCE_US
from taccl.support.jit import Loop

#: By operation, the fused step of a receive and a send; -1 for what is not fused.
_FUSED = np.full(len(OP_CODE), -1, dtype=np.int64)
_FUSED[act.RECV] = OP_CODE[Op.RECV_COPY_SEND]
_FUSED[act.RECV_REDUCE_COPY] = OP_CODE[Op.RECV_REDUCE_COPY_SEND]


def fuse(
    rank: RankActions, blocks: Sequence[DraftBlock], left: IntArray, next_send: FloatArray, rows: int = 0
) -> None:
    """Fuse what can be fused, in `rank` and `blocks` themselves.

    Parameters
    ----------
    left, next_send : for each send, its event, and that of the next send of its connection.
    rows : how many actions there are at all ranks.
    """
    actions = rank.actions
    receives, sends = _candidates(actions, blocks, left, next_send)
    starts, waits = hazards(actions, [rank.input_shift], rows=rows)
    by_wait = np.argsort(waits, kind="stable")
    begins_with = {accumulator: own for own, accumulator in rank.early}
    src, dst, cells = numbered_cells(actions)
    how = _fuse(
        rows,
        receives=receives,
        sends=sends,
        may_be_reduced=(actions.op[receives] == act.RECV_REDUCE_COPY)
        & np.isin(actions.dst[receives], list(begins_with)),
        waits_apart=(actions.op == act.SEND) | (actions.op == act.COPY),
        followers=np.repeat(np.arange(len(actions)), np.diff(starts))[by_wait],
        first_follower=np.searchsorted(waits[by_wait], np.arange(len(actions) + 1)),
        reads=actions.reads,
        reads_target=actions.reads_target,
        writes=actions.writes,
        src=src,
        dst=dst,
        count=actions.count,
        ready_us=actions.ready_us,
        done_us=actions.done_us - TOLERANCE_US,
        in_scratch=actions.dst >= SCRATCH,
        cells=cells,
    )
    done = np.array(how, dtype=np.int64) >= 0
    reduces = np.array(how, dtype=np.int64)[done] > 0
    receives, sends = receives[done], sends[done]
    stored = actions.dst[receives].tolist()
    place = [
        begins_with.pop(each) if own else each for each, own in zip(stored, reduces.tolist(), strict=True)
    ]
    op, src, dst = actions.op.copy(), actions.src.copy(), actions.dst.copy()
    op[sends] = np.where(reduces, act.RECV_REDUCE_SEND, _FUSED[actions.op[receives]])
    src[sends] = dst[sends] = place
    is_gone = np.zeros(len(actions), dtype=np.bool_)
    is_gone[receives] = True
    runs_in = np.arange(len(actions))
    runs_in[receives] = sends
    pairs = {name: getattr(actions, name) for name in act.PAIRS}
    pairs = {name: np.stack([runs_in[each[:, 0]], each[:, 1]], axis=1) for name, each in pairs.items()}
    fused = replace(actions, op=op, src=src, dst=dst, **pairs)
    rank.actions = fused.take(np.flatnonzero(~is_gone))
    rank.early = [(own, place) for place, own in begins_with.items()]
    number = (np.cumsum(~is_gone) - 1).tolist()
    gone = set(receives.tolist())
    for block in blocks:
        block.actions = [number[action] for action in block.actions if action not in gone]


def _candidates(
    actions: Actions, blocks: Sequence[DraftBlock], left: IntArray, next_send: FloatArray
) -> tuple[IntArray, IntArray]:
    """Receives and the sends directly after them of what was received, one chunk each, block by block."""
    chain = np.array([number for block in blocks for number in block.actions], dtype=np.int64)
    block_of = np.repeat(np.arange(len(blocks)), [len(block.actions) for block in blocks])
    receive, send = chain[:-1], chain[1:]
    fits = (
        (block_of[:-1] == block_of[1:]) & (_FUSED[actions.op[receive]] >= 0) & (actions.count[receive] == 1)
    )
    fits &= (actions.op[send] == act.SEND) & (actions.count[send] == 1)
    fits &= actions.src[send] == actions.dst[receive]
    receive, send = receive[fits], send[fits]
    # The next message on its connection must not come before it has been passed on.
    is_free = next_send[actions.send[receive]] >= left[actions.send[send]]
    return receive[is_free], send[is_free]


def _fuse_in_columns(
    receives: Sequence[int],
    sends: Sequence[int],
    may_be_reduced: Sequence[bool],
    waits_apart: Sequence[bool],
    followers: Sequence[int],
    first_follower: Sequence[int],
    reads: Sequence[bool],
    reads_target: Sequence[bool],
    writes: Sequence[bool],
    src: Sequence[int],
    dst: Sequence[int],
    count: Sequence[int],
    ready_us: Sequence[float],
    done_us: Sequence[float],
    in_scratch: Sequence[bool],
    cells: int,
) -> list[int]:
    """Of each candidate: -1 if it is not fused, 1 if nothing is stored then, else 0.

    Parameters
    ----------
    receives, sends : the candidates, by the numbers of their actions.
    may_be_reduced : whether it adds to a sum that begins as a copy of the rank's own data.
    waits_apart : whether an action that waits for a receive may do so in another thread block.
    followers, first_follower : those that wait for action k begin at followers[first_follower[k]].
    """
    users = [-1] * (3 * cells)  # the first three of each cell
    for action in range(len(src)):
        if reads[action]:
            _add_user(action, src[action], src[action] + count[action], users)
        if writes[action] or reads_target[action]:
            _add_user(action, dst[action], dst[action] + count[action], users)
    is_fused = [False] * len(src)
    how = [0 for _ in range(0)]
    for at in range(len(receives)):
        receive, send = receives[at], sends[at]
        if _holds_up(receive, send, followers, first_follower, is_fused, waits_apart, ready_us, done_us):
            how.append(-1)
            continue
        is_fused[send] = True
        cell = dst[receive]
        alone = may_be_reduced[at] and users[3 * cell] == receive and users[3 * cell + 1] == send
        third = users[3 * cell + 2]
        if alone and third < 0:
            alone = in_scratch[receive]
        elif alone and not is_fused[third]:
            from_it = reads[third] and 0 <= cell - src[third] < count[third]
            onto_it = reads_target[third] and 0 <= cell - dst[third] < count[third]
            alone = not from_it and not onto_it
        how.append(1 if alone else 0)
    return how


def _holds_up(
    receive: int,
    send: int,
    followers: Sequence[int],
    first_follower: Sequence[int],
    is_fused: Sequence[bool],
    waits_apart: Sequence[bool],
    ready_us: Sequence[float],
    done_us: Sequence[float],
) -> bool:
    """Whether another action that waits for a receive cannot wait for the send as well."""
    for entry in range(first_follower[receive], first_follower[receive + 1]):
        follower = followers[entry]
        if follower != send and (
            follower < send
            or is_fused[follower]
            or not waits_apart[follower]
            or ready_us[follower] < done_us[send]
        ):
            return True
    return False


def _add_user(action: int, begin: int, end: int, users: list[int]) -> None:
    """Make an action a user of cells, of those that have fewer than three."""
    for cell in range(begin, end):
        entry = 3 * cell
        while entry < 3 * cell + 3 and users[entry] >= 0 and users[entry] != action:
            entry += 1
        if entry < 3 * cell + 3:
            users[entry] = action


_fuse = Loop(_fuse_in_columns, (_holds_up, _add_user))

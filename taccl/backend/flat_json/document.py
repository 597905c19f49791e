"""The noun of the flat JSON: for each rank a list of actions, each with what it waits for.

An action starts when all actions that it waits for are done; nothing else orders two actions of a rank. The
k-th message from one rank to another is sent by one action and received by one, which name it by its number.
Input and output are apart, and nothing is written to the input.

Offsets and counts are in *elements*. The size of a call, as nccl-tests counts it, has `call_elements`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from taccl.backend.program import Buffer

FORMAT, VERSION = "taccl-actions", 1
#: No number in a file is larger.
MOST = 2**44
#: Of a file that has some ranks only; nothing but an executor reads it.
FORMAT_OF_PART = "taccl-actions-of-ranks"


class Do(str, Enum):
    """What an action does, with the word that the file uses."""

    SEND = "send"
    RECEIVE = "receive"
    COPY = "copy"
    REDUCE = "reduce"

    @property
    def reads(self) -> bool:
        """Whether it reads a source."""
        return self is not Do.RECEIVE

    @property
    def writes(self) -> bool:
        """Whether it writes a target; a sum reads it, too."""
        return self is not Do.SEND

    @property
    def travels(self) -> bool:
        """Whether it is one end of a message."""
        return self in (Do.SEND, Do.RECEIVE)


#: The word of each buffer in the file.
BUFFERS = {"input": Buffer.INPUT, "output": Buffer.OUTPUT, "scratch": Buffer.SCRATCH}
WORD_OF = {buffer: word for word, buffer in BUFFERS.items()}


@dataclass(frozen=True, slots=True)
class Span:
    """Where elements are: a buffer of the action's own rank, and the offset of the first of them."""

    buffer: Buffer
    offset: int


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a rank does.

    Parameters
    ----------
    do : what; a sum adds its source to its target.
    elements : how many are sent, received, copied or added.
    source, target : None where it reads nothing, or writes nothing.
    peer, message : of sends and receives, the other rank, and the number of the message between the two.
    after : numbers of earlier actions of the rank that must be done before it starts.
    """

    do: Do
    elements: int
    source: Span | None = None
    target: Span | None = None
    peer: int = -1
    message: int = -1
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ActionRank:
    """What one rank does, and what its buffers are for.

    Parameters
    ----------
    input, output : chunks in the order in which they lie in the buffer, one behind another; -1: room for a
        chunk that is not there.
    scratch : elements.
    """

    input: tuple[int, ...]
    output: tuple[int, ...]
    scratch: int
    actions: Sequence[Action]

    def chains(self, *, local: bool = False) -> list[list[int]]:
        """All actions in chains, in each of which an action waits for the one before it.

        `local` : whether sends and receives each begin one.
        """
        chains: list[list[int]] = []
        ends: dict[int, list[int]] = {}
        for index, action in enumerate(self.actions):
            follows = not (local and action.do.travels)
            before = next((other for other in action.after if other in ends), None) if follows else None
            if before is None:
                chains.append(ends.setdefault(index, [index]))
            else:
                ends[index] = ends.pop(before)
                ends[index].append(index)
        return chains


@dataclass(frozen=True, slots=True)
class ActionsProgram:
    """All that a file says. `chunk_elements` and `sums` are of equal length.

    Parameters
    ----------
    name : of the algorithm.
    collective, root : what it computes; `root` is None for collectives without one.
    chunk_elements : of each chunk its elements.
    sums : of each chunk whether it is the sum of all inputs that hold it, or one and the same in each.
    call_elements : elements in what nccl-tests calls the size of a call.
    element_bytes : of an element, in the call that the file was made for.
    min_bytes, max_bytes : the calls that it may serve, as nccl-tests counts sizes; of gather and scatter one
        rank's part.
    ranks : in rank order.
    """

    name: str
    collective: str
    root: int | None
    chunk_elements: tuple[int, ...]
    sums: tuple[bool, ...]
    call_elements: int
    element_bytes: int
    min_bytes: int
    max_bytes: int
    ranks: tuple[ActionRank, ...]

    @property
    def num_actions(self) -> int:
        """Of all ranks together."""
        return sum(len(rank.actions) for rank in self.ranks)

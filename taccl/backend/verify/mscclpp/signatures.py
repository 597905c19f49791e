"""What each operation takes: its kinds of channels, and what its sources and targets are, in order.

From the runtime's kernels (v0.8 to v0.10). What an operation does with them is not said here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from taccl.backend.plan import Channel, Operation, OpName


class Operand(Enum):
    """What a range of an operation has to be."""

    OWN = auto()
    REMOTE = auto()
    SWITCH = auto()
    #: Packets in the rank's own scratch, in a peer's, and in all members' of a switch channel.
    PACKETS = auto()
    REMOTE_PACKETS = auto()
    SWITCH_PACKETS = auto()


REMOTE_OPERANDS = frozenset({Operand.REMOTE, Operand.REMOTE_PACKETS})
SWITCH_OPERANDS = frozenset({Operand.SWITCH, Operand.SWITCH_PACKETS})
PACKET_OPERANDS = frozenset({Operand.PACKETS, Operand.REMOTE_PACKETS, Operand.SWITCH_PACKETS})


@dataclass(frozen=True, slots=True)
class Ranges:
    """The ranges on one side of an operation.

    Parameters
    ----------
    first : what the first ones are; all of them must be there.
    more : what all that follow are; None: the runtime looks at no more of them.
    least : how many must follow.
    """

    first: tuple[Operand, ...] = ()
    more: Operand | None = None
    least: int = 0

    @property
    def needed(self) -> int:
        """How many there must be."""
        return len(self.first) + self.least

    def kinds(self, count: int) -> tuple[Operand, ...]:
        """What each of this many ranges has to be; those beyond the end of the tuple are not looked at."""
        rest = max(0, count - len(self.first)) if self.more is not None else 0
        return (*self.first[:count], *([self.more] * rest if self.more is not None else []))


#: Whose size counts: of each target, of each source, or of the first source for all.
Sizes = Literal["targets", "sources", "first"]


@dataclass(frozen=True, slots=True)
class Signature:
    """What an operation takes.

    Parameters
    ----------
    channels : the kinds of channel with which it does what its name says; none: it looks at none.
    sources, targets : its ranges.
    sizes : whose size counts. Where each target's or each source's does, sources and targets are pairs.
    """

    channels: tuple[Channel, ...] = ()
    sources: Ranges = Ranges()
    targets: Ranges = Ranges()
    sizes: Sizes = "first"


_MEMORY, _PORT, _SWITCH = Channel.MEMORY, Channel.PORT, Channel.SWITCH
_OWN = Ranges((Operand.OWN,))
_SOME_OWN = Ranges((), Operand.OWN, 1)
_OWN_AND_REMOTE = Ranges((Operand.OWN,), Operand.REMOTE)
_OWN_AND_PACKETS = Ranges((Operand.OWN,), Operand.PACKETS)
_PACKETS = Ranges((Operand.PACKETS,))
_SOME_REMOTE = Ranges((), Operand.REMOTE, 1)
_SOME_REMOTE_PACKETS = Ranges((), Operand.REMOTE_PACKETS, 1)
_SYNCHRONIZES = Signature((_MEMORY, _PORT))

SIGNATURES: dict[OpName, Signature] = {
    OpName.NOP: Signature(),
    OpName.BARRIER: Signature(),
    OpName.SIGNAL: _SYNCHRONIZES,
    OpName.RELAXED_SIGNAL: _SYNCHRONIZES,
    OpName.WAIT: _SYNCHRONIZES,
    OpName.RELAXED_WAIT: _SYNCHRONIZES,
    OpName.RELEASE: Signature(),
    OpName.ACQUIRE: Signature(),
    OpName.FLUSH: Signature((_PORT,)),
    OpName.PIPELINE: Signature(),
    OpName.COPY: Signature((), _OWN, _OWN),
    OpName.PUT: Signature((_MEMORY, _PORT), _SOME_OWN, _SOME_REMOTE, "targets"),
    OpName.PUT_SIGNAL: Signature((_PORT,), _SOME_OWN, _SOME_REMOTE, "targets"),
    OpName.PUT_SIGNAL_FLUSH: Signature((_PORT,), _SOME_OWN, _SOME_REMOTE, "targets"),
    OpName.GET: Signature((_MEMORY,), _SOME_REMOTE, _SOME_OWN, "sources"),
    OpName.REDUCE: Signature((), Ranges((Operand.OWN,), Operand.OWN), _OWN),
    OpName.REDUCE_SEND: Signature((_MEMORY,), Ranges((Operand.OWN,), Operand.OWN), _OWN_AND_REMOTE),
    OpName.READ_REDUCE: Signature((_MEMORY,), _OWN_AND_REMOTE, _OWN),
    OpName.READ_REDUCE_SEND: Signature((_MEMORY,), _OWN_AND_REMOTE, _OWN_AND_REMOTE),
    OpName.SWITCH_STORE: Signature((_SWITCH,), _OWN, Ranges((Operand.SWITCH,))),
    OpName.SWITCH_REDUCE_STORE: Signature((_SWITCH,), Ranges((Operand.SWITCH,)), Ranges((Operand.SWITCH,))),
    OpName.PUT_PACKETS: Signature((_MEMORY,), _SOME_OWN, _SOME_REMOTE_PACKETS, "sources"),
    OpName.COPY_TO_PACKETS: Signature((), _OWN, _PACKETS),
    OpName.COPY_FROM_PACKETS: Signature((), _PACKETS, _OWN),
    OpName.READ_PUT_PACKETS: Signature((_MEMORY, _PORT), _PACKETS, _SOME_REMOTE_PACKETS),
    OpName.REDUCE_PACKETS: Signature((), _OWN_AND_PACKETS, _OWN),
    OpName.REDUCE_SEND_PACKETS: Signature(
        (_MEMORY,), _OWN_AND_PACKETS, Ranges((Operand.OWN,), Operand.REMOTE_PACKETS)
    ),
    OpName.REDUCE_COPY_PACKETS: Signature((), _OWN_AND_PACKETS, Ranges((Operand.OWN, Operand.PACKETS))),
    OpName.REDUCE_COPY_SEND_PACKETS: Signature(
        (_MEMORY,), _OWN_AND_PACKETS, Ranges((Operand.OWN, Operand.PACKETS), Operand.REMOTE_PACKETS)
    ),
    OpName.SWITCH_STORE_PACKETS: Signature((_SWITCH,), _PACKETS, Ranges((Operand.SWITCH_PACKETS,))),
}

#: Through ports, they are taken for packets already.
_PUT_OF_PACKETS = Signature((_PORT,), Ranges((), Operand.PACKETS, 1), _SOME_REMOTE_PACKETS, "sources")


def signature_of(operation: Operation) -> Signature:
    """What an operation takes, with the kind of channel that it has."""
    if operation.name is OpName.PUT_PACKETS and operation.channel is _PORT:
        return _PUT_OF_PACKETS
    return SIGNATURES[operation.name]


SYNCHRONIZING = frozenset({OpName.SIGNAL, OpName.RELAXED_SIGNAL, OpName.WAIT, OpName.RELAXED_WAIT})
WAITING = frozenset({OpName.WAIT, OpName.RELAXED_WAIT})
#: Those that sum 16 bytes at a time, with a remainder.
SUMMING = frozenset(
    {
        *(OpName.REDUCE, OpName.REDUCE_SEND, OpName.READ_REDUCE, OpName.READ_REDUCE_SEND),
        OpName.SWITCH_REDUCE_STORE,
    }
)
PUTTING = frozenset({OpName.PUT, OpName.PUT_SIGNAL, OpName.PUT_SIGNAL_FLUSH})
#: Those of which a lane puts each target through a channel of its own, with ports.
LANES = frozenset({*PUTTING, OpName.PUT_PACKETS, OpName.READ_PUT_PACKETS})


def moves_packets(name: OpName) -> bool:
    """Whether an operation reads or writes packets."""
    signature = SIGNATURES[name]
    sides = (signature.sources, signature.targets)
    return any(kind in PACKET_OPERANDS for side in sides for kind in (*side.first, side.more))


def uses_channels(name: OpName, channel: Channel | None) -> bool:
    """Whether an operation with this kind of channel looks at its channel ids."""
    if name in SYNCHRONIZING:
        return True
    return channel is Channel.PORT and name in (*LANES, OpName.FLUSH)


def only_puts(operation: Operation) -> bool:
    """Whether it should put and signal, and on a channel of its kind only puts."""
    signals = operation.name in (OpName.PUT_SIGNAL, OpName.PUT_SIGNAL_FLUSH)
    return signals and operation.channel is Channel.MEMORY

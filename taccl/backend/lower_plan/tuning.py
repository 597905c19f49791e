"""What the runtime of MSCCL++ has room for, and numbers that were chosen."""

from __future__ import annotations

from taccl.backend.limits import RuntimeLimits

#: Of a thread block; all but the operations of each kind.
MAX_OPERATIONS = 64
MAX_CHANNELS = 16
MAX_REMOTES = 16
#: Of an operation, whatever the release: sources, and targets; semaphores; channels.
MAX_OPERANDS = 8
MAX_OPERATION_SEMAPHORES = 16
MAX_OPERATION_CHANNELS = 8
#: Thread blocks that run at once on the largest GPU; port channels, and memories of ports, of a rank.
MAX_BLOCKS = 304
MAX_PORT_CHANNELS = 1024
MAX_PORT_MEMORIES = 509
#: Offsets have 32 bits; messages are cut in units of this many bytes.
MAX_BUFFER_BYTES = 2**32
UNIT_BYTES = 16
#: The smallest size is read as a number of 31 bits.
MAX_MIN_BYTES = 2**31 - 1

#: Operations with which parts of a thread block wait for each other.
BETWEEN_PARTS = 8
#: Into how many pieces, one behind the other, ranks of several switches cut what they sum or give.
PIECES = (1, 2, 4, 8)
#: How thread blocks are filled: an action takes three operations or so of the 64 that there is room for. Of
#: all else there is as much as actions want.
FILLED = RuntimeLimits(
    blocks=2**20,
    steps=20,
    channels=2**20,
    blocks_per_channel=2**20,
    waited_blocks=2**20,
    count=2**30,
    buffer_chunks=2**30,
    elements=2**30,
    ranks=2**20,
)

"""What a user may say about the file of a schedule, but for what it is for: that is part of the request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from taccl.backend.target import THREAD_BLOCKS, AnyTarget, LoweringOptions, ThreadBlocks
from taccl.errors import TacclError, UnitError
from taccl.model import units
from taccl.model.executor import Executor
from taccl.support.arguments import shown, whole_number, word

#: Of names of programs: what a machine may be called, and readers of files without a parser cannot read.
_UNREADABLE = re.compile(r"[^A-Za-z0-9 _.,:+()-]+")
_LONGEST_NAME = 63
#: Of a program for a target that has no limit of its own.
_MOST_INSTANCES = 1024

#: As a protocol or a number of instances: whatever is predicted fastest.
AUTO: Literal["auto"] = "auto"


@dataclass(frozen=True)
class OutputOptions:
    """How a schedule becomes a file.

    Parameters
    ----------
    file : whether to make the target's file at all.
    protocol : one of the target's: of MSCCL-XML, Simple, LL or LL128.
    instances : how many parallel copies of the program share each chunk.
    thread_blocks : `two-way` blocks may send and receive; of `one-way` blocks each does one of the two.
        All three may be left open, as None or `auto`: then what is predicted fastest is chosen where the
        machine says what executing costs; elsewhere it is the target's usual protocol, 1 instance and
        `two-way`. Of one-sided plans, protocol and thread blocks are chosen so on every machine.
    in_place : whether the file is for calls in place, for targets whose files are for one way to call; None:
        as PyTorch calls the collective.
    min_bytes, max_bytes : sizes of calls that the file serves; None: around the size of the request.

    Raises
    ------
    TacclError : a size that is none, another word for thread blocks, or no truth value.
    """

    file: bool = True
    protocol: str | None = None
    instances: int | Literal["auto"] | None = None
    thread_blocks: ThreadBlocks | Literal["auto"] | None = None
    min_bytes: int | None = None
    max_bytes: int | None = None
    in_place: bool | None = None

    def __post_init__(self) -> None:
        if self.thread_blocks is not None:
            word(self.thread_blocks, "thread_blocks", (*THREAD_BLOCKS, AUTO), TacclError)
        if self.in_place is not None and not isinstance(self.in_place, bool):
            raise TacclError(f"in_place {shown(self.in_place)} is neither true nor false")
        for name, size_bytes in (("min", self.min_bytes), ("max", self.max_bytes)):
            if size_bytes is not None:
                what, most_bytes = f"{name}_bytes", 2 * units.MAX_SIZE_BYTES
                whole_number(size_bytes, what, UnitError, least=0, most=most_bytes, hint=f"--{name}-size 1MB")

    @property
    def requested_protocol(self) -> str | None:
        """The protocol that is requested; None: it is open."""
        return None if isinstance(self.protocol, str) and self.protocol == AUTO else self.protocol

    @property
    def requested_instances(self) -> int | None:
        """The number of instances that is requested; None: it is open."""
        return None if isinstance(self.instances, str) and self.instances == AUTO else self.instances

    @property
    def requested_thread_blocks(self) -> ThreadBlocks | None:
        """The kind of thread blocks that is requested; None: it is open."""
        return None if self.thread_blocks == AUTO else self.thread_blocks

    def most_instances(self, target: AnyTarget) -> int:
        """More are too many for a target."""
        return _MOST_INSTANCES if target.limits.instances is None else target.limits.instances

    def for_target(self, target: AnyTarget, name: str, executor: Executor | None = None) -> LoweringOptions:
        """The same for a target, with the name of the program, of which letters that a reader of files would
        trip over become dashes, and what executing costs on the machine.

        What is open is as it usually is.

        Raises
        ------
        TacclError : the target has no such protocol, not this many instances, or no files for calls in place
            alone.
        """
        if self.in_place is not None and not target.one_way_to_call:
            raise TacclError(
                f"files for {target.name} say themselves which calls they serve: in place, others or both",
                hint="--in-place and --out-of-place are for --target mscclpp",
            )
        most, instances, kind = (
            self.most_instances(target),
            self.requested_instances,
            self.requested_thread_blocks,
        )
        instances = 1 if instances is None else instances
        whole_number(instances, "instances", TacclError, least=1, most=most, hint="--instances 2")
        return LoweringOptions(
            protocol=target.protocol(self.requested_protocol),
            instances=instances,
            thread_blocks=THREAD_BLOCKS[0] if kind is None else kind,
            executor=executor,
            in_place=self.in_place,
            min_bytes=self.min_bytes,
            max_bytes=self.max_bytes,
            name=_UNREADABLE.sub("-", name)[:_LONGEST_NAME],
        )

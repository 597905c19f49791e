"""What a user may say about the file of a schedule, but for what it is for: that is part of the request."""

from __future__ import annotations

from dataclasses import dataclass

from taccl import units
from taccl.arguments import whole_number, word
from taccl.backend.target import THREAD_BLOCKS, AnyTarget, LoweringOptions, ThreadBlocks
from taccl.errors import TacclError, UnitError
from taccl.executor import Executor

#: Of a program for a target that has no limit of its own.
_MOST_INSTANCES = 1024


@dataclass(frozen=True)
class OutputOptions:
    """How a schedule becomes a file.

    Parameters
    ----------
    xml : whether to make the target's file at all.
    protocol : one of the target's: of MSCCL-XML, Simple, LL or LL128; None: its usual one.
    instances : how many parallel copies of the program share each chunk.
    thread_blocks : `two-way` blocks may send and receive; of `one-way` blocks each does one of the two.
    min_bytes, max_bytes : sizes of calls that the file serves; None: around the size of the request.

    Raises
    ------
    TacclError : a size that is none, or another word for thread blocks.
    """

    xml: bool = True
    protocol: str | None = None
    instances: int = 1
    thread_blocks: ThreadBlocks = "two-way"
    min_bytes: int | None = None
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        word(self.thread_blocks, "thread_blocks", THREAD_BLOCKS, TacclError)
        for name, size_bytes in (("min", self.min_bytes), ("max", self.max_bytes)):
            if size_bytes is not None:
                what, most_bytes = f"{name}_bytes", 2 * units.MAX_SIZE_BYTES
                whole_number(size_bytes, what, UnitError, least=0, most=most_bytes, hint=f"--{name}-size 1MB")

    def for_target(self, target: AnyTarget, name: str, executor: Executor | None = None) -> LoweringOptions:
        """The same for a target, with the name of the program and what executing costs on the machine.

        Raises
        ------
        TacclError : the target has no such protocol, or not so many instances.
        """
        most = _MOST_INSTANCES if target.limits.instances is None else target.limits.instances
        whole_number(self.instances, "instances", TacclError, least=1, most=most, hint="--instances 2")
        return LoweringOptions(
            protocol=target.protocol(self.protocol),
            instances=self.instances,
            thread_blocks=self.thread_blocks,
            executor=executor,
            min_bytes=self.min_bytes,
            max_bytes=self.max_bytes,
            name=name,
        )

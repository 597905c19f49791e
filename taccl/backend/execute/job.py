"""A run that is prepared: what ranks share, and which agents each has. Processes take it along."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

from taccl.backend.execute.agents import Ranked
from taccl.backend.execute.shared import Region, World

WorldT = TypeVar("WorldT", bound=World)

#: Held while counters change that others read.
Lock = AbstractContextManager[Any]


class RunJob(Protocol, Generic[WorldT]):
    """A run.

    `seed` : of the order in which agents act. `planned` : pieces that will be sent in all.
    """

    @property
    def seed(self) -> int: ...

    @property
    def planned(self) -> int: ...

    def world(self, region: Region, *, is_shared: bool) -> WorldT:
        """What all ranks share, in a region that other processes have too, or in this process alone."""
        ...

    def ranked(self, world: WorldT, rank: int, look: Callable[[], None], lock: Lock) -> Ranked:
        """The agents of a rank; `look` is called while data is made or compared, and may raise.

        Raises
        ------
        VerificationError : it would reach outside of its memory.
        """
        ...

    def sent(self, world: WorldT) -> int:
        """How many pieces were sent so far, as far as the world tells."""
        ...


def size_of(job: RunJob[WorldT], *, is_shared: bool) -> int:
    """Bytes of the region that the world of a run takes."""
    region = Region()
    job.world(region, is_shared=is_shared)
    return region.taken

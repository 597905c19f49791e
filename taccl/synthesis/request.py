"""What is requested: one frozen object that every function and command shares, and the keywords that spell
it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, get_args

from taccl.backend.target import AnyTarget
from taccl.backend.targets.registry import DEFAULT_TARGET
from taccl.errors import SketchError, TacclError, TopologyError
from taccl.model.collective import Collective
from taccl.model.network import OCCUPANCIES, Occupancy
from taccl.model.windows import Windows
from taccl.sketch import Sketch
from taccl.sketch.model import NIC_SHARINGS, NicSharing
from taccl.support.arguments import is_whole, shown, word
from taccl.synthesis.size_matrix import AnySizes
from taccl.topologies import PhysicalTopology

#: Where the symmetries of a schedule come from.
Symmetry = Literal["sketch", "auto"]
SYMMETRIES: tuple[Symmetry, ...] = get_args(Symmetry)

#: As a number of chunks: the one that is fastest at this size.
AUTO: Literal["auto"] = "auto"

AnyCollective = str | Path | Collective


@dataclass(frozen=True)
class Request:
    """What is requested, as the user says it; nothing is read or built yet.

    Parameters
    ----------
    collective : a name (allgather, reducescatter, allreduce, alltoall, broadcast, reduce, gather,
        scatter), a YAML file that describes one chunk by chunk, or a `Collective`.
    topology : a name of the catalogue (`taccl topology list`), a YAML file, or a topology. May be
        left out if the sketch names one.
    sketch : a published name, a file, or a sketch; None: all links may be used, as they are.
    size : what nccl-tests prints as `size`: bytes, or text like 16MB; rounded down to a whole number of
        equal chunks. Default: the size that the profile was measured for, else the size that the sketch is
        meant for.
    nodes : how many; default: the sketch's, else the topology's.
    profile : a TACCL profile (JSON) with measured costs of the links.
    chunks : pieces that one rank's part is cut into; default: the sketch's. `auto`: the number that is
        fastest at this size, which `synthesize` searches for; without a sketch it does so by default, and
        all else takes 1.
    root : root rank of broadcast, reduce, gather and scatter; default 0.
    occupancy : `serial` or `pipelined` (COST MODEL); default: the target's, else the topology's. Plans for
        MSCCL++ are pipelined, since whoever puts goes on at once.
    nic_sharing : `port` or `static`, TACCL's rule; default: the sketch's.
    without : helpers and links that the machine is to be without, by name (`taccl.topologies.without`).
    helpers : how many servers that aggregate the machine is to have (`taccl.topologies.servers`); None: those
        of its file.
    executor : whether what executing costs counts, next to links, as the machine's file says it, or else by
        defaults of its GPUs (docs/machines/executor.md). None: where either is known. True: it has to be.
        False: links alone.
    symmetry : `sketch`: the schedule has the symmetries that the sketch states; `auto`: and as many more
        as are found. There is less to decide, so large machines gain; the fastest schedule may
        have none.
    sizes : of an AlltoAll of unequal parts, bytes from each rank (row) to each (column): a CSV or `.npy`
        file, or an array; in place of `size`.
    windows : when computing makes chunks ready and what it does with what it got: a YAML file
        (docs/windows.md) or `taccl.model.windows.Windows`.
    target : what a file is for: a name of `taccl.backend.targets.registry.TARGETS` (all, msccl, executor,
        rccl), or a `Target` of one's own. It says how many chunks one send may carry, file or none.

    Raises
    ------
    TacclError : a word that is none of those; the subclass says of what.
    """

    collective: AnyCollective = "allgather"
    topology: str | Path | PhysicalTopology | None = None
    sketch: str | Path | Sketch | None = None
    size: str | int | None = None
    nodes: int | None = None
    profile: str | Path | None = None
    chunks: int | Literal["auto"] | None = None
    root: int | None = None
    occupancy: Occupancy | None = None
    nic_sharing: NicSharing | None = None
    executor: bool | None = None
    symmetry: Symmetry = "sketch"
    sizes: AnySizes | None = None
    target: str | AnyTarget = DEFAULT_TARGET.name
    without: str | Sequence[str] | None = None
    helpers: int | None = None
    windows: str | Path | Windows | None = None

    def __post_init__(self) -> None:
        word(self.symmetry, "symmetry", SYMMETRIES, SketchError)
        if self.occupancy is not None:
            word(self.occupancy, "occupancy", OCCUPANCIES, TopologyError)
        if self.nic_sharing is not None:
            word(self.nic_sharing, "nic_sharing", NIC_SHARINGS, SketchError)
        is_auto = isinstance(self.chunks, str) and self.chunks == AUTO
        if not (self.chunks is None or is_auto or is_whole(self.chunks)):
            raise TacclError(
                f"chunks must be a number or auto, not {shown(self.chunks)}", hint="chunks 4, or chunks auto"
            )

    @property
    def leaves_chunks_open(self) -> bool:
        """Whether `synthesize` chooses the number of chunks: it is requested to, or nothing says how many."""
        if self.chunks is None:
            return self.sketch is None and not isinstance(self.collective, Collective)
        return self.chunks == AUTO

    @property
    def first_chunks(self) -> int | None:
        """Where a search for the number of chunks begins: one chunk of the size that is given.

        None: the sketch says how many, or the number that the default size is meant for.
        """
        if isinstance(self.chunks, str):
            return None if self.size is None else 1
        return self.chunks


class MachineKeywords(TypedDict, total=False):
    """The part of a request that says which links there are and what they cost; see `Request`."""

    topology: str | Path | PhysicalTopology | None
    sketch: str | Path | Sketch | None
    nodes: int | None
    profile: str | Path | None
    occupancy: Occupancy | None
    nic_sharing: NicSharing | None
    without: str | Sequence[str] | None
    helpers: int | None
    executor: bool | None


class RequestKeywords(MachineKeywords, total=False):
    """A request but for its collective, as keywords of the functions that take one; see `Request`."""

    size: str | int | None
    chunks: int | Literal["auto"] | None
    root: int | None
    symmetry: Symmetry
    sizes: AnySizes | None
    windows: str | Path | Windows | None
    target: str | AnyTarget


def request_of(requested: AnyCollective | Request, keywords: Mapping[str, Any]) -> Request:
    """The request that a collective and keywords spell; a request is itself, with the keywords changed.

    Raises
    ------
    TacclError : see `Request`.
    """
    if isinstance(requested, Request):
        return replace(requested, **keywords)
    return Request(requested, **keywords)


_Function = TypeVar("_Function", bound=Callable[..., object])


def spelled_out(keywords: type[MachineKeywords]) -> Callable[[_Function], _Function]:
    """Make `help()` and notebooks list the keywords where a function is written with `**requested`.

    `keywords` is the TypedDict that type checkers are reported of.
    """
    stated = [field for field in fields(Request) if field.name in keywords.__annotations__]

    def with_signature(function: _Function) -> _Function:
        given = inspect.signature(function)
        own = [
            parameter
            for parameter in given.parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        requested = [
            inspect.Parameter(
                each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.type
            )
            for each in stated
        ]
        positional = [each for each in own if each.kind is not inspect.Parameter.KEYWORD_ONLY]
        rest = [each for each in own if each.kind is inspect.Parameter.KEYWORD_ONLY]
        spelled = given.replace(parameters=[*positional, *requested, *rest])
        function.__dict__["__signature__"] = spelled
        return function

    return with_signature

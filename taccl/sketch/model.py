"""What a communication sketch says, as written: nothing here depends on a machine.

GPUs are named by their local index, 0 .. GPUs per node - 1, and what is said of one node holds for
every node. Each part remembers the line it was written on, for messages that come later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from taccl.errors import SketchError

IntranodeStrategy = Literal["none", "switch", "minmax", "maxmin"]
InternodeStrategy = Literal["none", "relay", "fully-connected", "direct-map"]
SwitchPolicy = Literal["none", "uc-min", "uc-max"]
NicSharing = Literal["port", "static"]

INTRANODE_STRATEGIES: tuple[IntranodeStrategy, ...] = get_args(IntranodeStrategy)
INTERNODE_STRATEGIES: tuple[InternodeStrategy, ...] = get_args(InternodeStrategy)
SWITCH_POLICIES: tuple[SwitchPolicy, ...] = get_args(SwitchPolicy)
NIC_SHARINGS: tuple[NicSharing, ...] = get_args(NicSharing)

Offset = int | Literal["node"]
Group = int | Literal["node", "machine"]


@dataclass(frozen=True)
class Switch:
    """GPUs that may send to each other directly, because a switch joins them.

    Parameters
    ----------
    gpus : local indices; None for all GPUs of the node.
    policy : `uc-min` prefers few distinct connections (large sizes), `uc-max` many (small sizes).
    """

    gpus: tuple[int, ...] | None = None
    policy: SwitchPolicy = "none"
    line: int | None = None


@dataclass(frozen=True)
class Intranode:
    """Which links inside a node may be used.

    `none`: all, as they are; `minmax` and `maxmin`: all, and the load spread over them; `switch`:
    only those between GPUs behind one of `switches`.
    """

    strategy: IntranodeStrategy = "none"
    switches: tuple[Switch, ...] = ()
    line: int | None = None


@dataclass(frozen=True)
class Relay:
    """GPU `sender` of every node may send to the GPUs `receivers` of every other node."""

    sender: int
    receivers: tuple[int, ...]
    line: int | None = None


@dataclass(frozen=True)
class SenderFor:
    """The chunks of the GPUs `owners` leave their node through GPU `sender`."""

    sender: int
    owners: tuple[int, ...]
    line: int | None = None


@dataclass(frozen=True)
class Internode:
    """Which links between nodes may be used, and by which chunks.

    Parameters
    ----------
    strategy : `none`: every pair of GPUs that the machine joins past its own hosts;
        `fully-connected`: every pair; `direct-map`: GPU i to GPU i; `relay`: as in `relays`.
    sender_for : owners that appear in no entry may leave through any sender.
    own_first : a sender's own chunks leave before those it carries for others.
    nic_sharing : `port`: a NIC is a port, shared as it is used; `static`: TACCL's rule, which
        multiplies the beta of every inter-node link by links / NICs, used or not.
    nic_line : where `nic_sharing` is written.
    """

    strategy: InternodeStrategy = "none"
    relays: tuple[Relay, ...] = ()
    sender_for: tuple[SenderFor, ...] = ()
    own_first: bool = False
    nic_sharing: NicSharing = "port"
    line: int | None = None
    nic_line: int | None = None


@dataclass(frozen=True)
class Rotation:
    """A symmetry: rank r goes to (r div group) * group + (r mod group + offset) mod group.

    `node` stands for the number of GPUs of a node, `machine` for the number of ranks.
    """

    offset: Offset
    group: Group
    line: int | None = None

    def __str__(self) -> str:
        return f"[{self.offset}, {self.group}]"


@dataclass(frozen=True)
class Sketch:
    """The designer's half of an algorithm.

    Parameters
    ----------
    name, description : for messages and lists.
    topology, nodes : the machine it is meant for; both are defaults that a caller may override.
    chunks_per_rank : pieces that a rank's part is cut into.
    size : bytes, as nccl-tests counts them, that it is meant for.
    path : the file it was read from.
    chunks_line : where `chunks_per_rank` is written.
    """

    name: str
    description: str = ""
    topology: str | None = None
    nodes: int | None = None
    size: int | None = None
    chunks_per_rank: int = 1
    intranode: Intranode = field(default_factory=Intranode)
    internode: Internode = field(default_factory=Internode)
    symmetry: tuple[Rotation, ...] = ()
    path: str | None = None
    chunks_line: int | None = None

    def error(self, message: str, *, line: int | None = None, hint: str | None = None) -> SketchError:
        """An error that names this sketch's file."""
        return SketchError(message, path=self.path or f"sketch {self.name!r}", line=line, hint=hint)

"""What a file tells of a cluster: hosts, switches, which port is at which switch, which hosts share NVLinks.

The noun of this room. Readers make it and `plan` makes levels of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from taccl.support.lists import natural
from taccl.support.tables import FileLine


@dataclass(frozen=True)
class HostPort:
    """A port of a host at a switch.

    Parameters
    ----------
    nic : as the host calls it, `mlx5_0`; None where the file only says that the host hangs there.
    gbps : GB/s each way; None where the file has no speed.
    """

    place: FileLine
    host: str
    nic: str | None
    switch: str
    gbps: float | None = None


@dataclass(frozen=True)
class Trunk:
    """Cables between two switches; `count` and `gbps` of one of them, each way, or None where not stated."""

    place: FileLine
    a: str
    b: str
    count: int | None = None
    gbps: float | None = None


@dataclass(frozen=True)
class HostBlock:
    """Hosts that a scheduler keeps together; `is_nvlink` where the file says that NVLinks join them."""

    place: FileLine
    name: str
    hosts: tuple[str, ...]
    is_nvlink: bool


@dataclass(frozen=True)
class ClusterFacts:
    """All that a file tells.

    Parameters
    ----------
    format : `ibnetdiscover`, `slurm-tree`, ...
    hosts : every host once, as the file orders them.
    switches : name -> where it stands first.
    unnamed : ports of hosts that the file does not name; they count at their switch.
    gpus : of a host, where the file tells.
    notes : further facts, as (quantity, value, place).
    warnings : in plain sentences, with their lines.
    """

    format: str
    hosts: tuple[str, ...]
    switches: dict[str, FileLine]
    ports: tuple[HostPort, ...] = ()
    trunks: tuple[Trunk, ...] = ()
    blocks: tuple[HostBlock, ...] = ()
    unnamed: tuple[HostPort, ...] = ()
    gpus: int | None = None
    notes: tuple[tuple[str, str, FileLine], ...] = ()
    warnings: tuple[str, ...] = ()


def in_order(words: Iterable[str]) -> tuple[str, ...]:
    """Each word once, numbers in them by their value: `srv2` before `srv10`."""
    return tuple(sorted(set(words), key=natural))

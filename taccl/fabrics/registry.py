"""Which formats of cluster files there are, and which of them a text is in; it knows none of them inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from taccl.arguments import file_path
from taccl.errors import FileError, TopologyError
from taccl.fabrics.facts import Cluster
from taccl.fabrics.formats import (
    ibnetdiscover,
    ibnetdiscover_ports,
    labels,
    netq,
    slurm_conf,
    slurm_yaml,
    topograph,
)

#: The network of ten thousand hosts is a few MB.
MAX_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Format:
    """What a tool prints or reads.

    Parameters
    ----------
    name : how results call it.
    summary : for people.
    looks_like : whether a text is one, or was meant to be; damage in it is for `read` to tell.
    read : the text, its path for messages, and which topology of several -> what it tells.
    """

    name: str
    summary: str
    looks_like: Callable[[str], bool]
    read: Callable[[str, str | None, str | None], Cluster]


#: In the order in which they are tried: the pickiest first.
FORMATS: tuple[Format, ...] = (
    Format("ibnetdiscover", "ibnetdiscover", ibnetdiscover.looks_like, ibnetdiscover.read),
    Format("ibnetdiscover-p", "ibnetdiscover -p", ibnetdiscover_ports.looks_like, ibnetdiscover_ports.read),
    Format("netq", "NetQ computeNodes.json", netq.looks_like, netq.read),
    Format("labels", "kubectl get nodes -o json|yaml", labels.looks_like, labels.read),
    Format("slurm-conf", "SLURM topology.conf", slurm_conf.looks_like, slurm_conf.read),
    Format("slurm-yaml", "SLURM topology.yaml", slurm_yaml.looks_like, slurm_yaml.read),
    Format("topograph", "topograph's model of a cluster", topograph.looks_like, topograph.read),
)


def parse_cluster(text: str, path: str | None = None, choice: str | None = None) -> Cluster:
    """What a text tells of a cluster.

    Parameters
    ----------
    path : for messages.
    choice : which topology, where the file has several by name.

    Raises
    ------
    TopologyError : it is in no known format, or cannot be understood.
    """
    for each in FORMATS:
        if each.looks_like(text):
            return each.read(text, path, choice)
    raise TopologyError(
        "this is no file of a cluster that is known here" if text.strip() else "this is empty",
        path=path,
        line=1,
        hint="one of: " + "; ".join(each.summary for each in FORMATS),
    )


def read_cluster(path: str | Path, choice: str | None = None) -> Cluster:
    """What a file tells of a cluster.

    Raises
    ------
    FileError : it cannot be read.
    TopologyError : as `parse_cluster`, or it is too large.
    """
    path = file_path(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise FileError("there is no such file", path=path) from None
    except IsADirectoryError:
        raise FileError("this is a directory, not a file", path=path) from None
    except (OSError, ValueError) as fault:
        raise FileError(f"cannot be read: {getattr(fault, 'strerror', None) or fault}", path=path) from None
    if len(data) > MAX_BYTES:
        raise TopologyError(f"the file is larger than {MAX_BYTES // 2**20} MB", path=path)
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return parse_cluster(data.decode(encoding, errors="replace"), str(path), choice)

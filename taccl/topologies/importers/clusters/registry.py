"""Which formats of cluster files there are, and which of them a text is in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from taccl.errors import TopologyError
from taccl.support.reading import Format, recognized
from taccl.topologies.importers.clusters.facts import Cluster
from taccl.topologies.importers.clusters.formats import aws, infiniband, labels, netq, slurm, topograph
from taccl.topologies.importers.nodes.registry import read_text

#: A cluster from a text and its path, for messages.
Read = Callable[[str, str | None], Cluster]

SLURM_YAML: Format[Read] = Format("slurm-yaml", "SLURM topology.yaml", slurm.is_yaml, slurm.read_yaml)
#: In the order in which they are tried: the pickiest first.
FORMATS: tuple[Format[Read], ...] = (
    Format("ibnetdiscover", "ibnetdiscover", infiniband.has_blocks, infiniband.read_blocks),
    Format("ibnetdiscover-p", "ibnetdiscover -p", infiniband.has_ports, infiniband.read_ports),
    Format("iblinkinfo", "iblinkinfo", infiniband.has_link_info, infiniband.read_link_info),
    Format("netq", "NetQ computeNodes.json", netq.looks_like, netq.read),
    Format("aws", "aws ec2 describe-instance-topology", aws.looks_like, aws.read),
    Format("labels", "kubectl get nodes -o json|yaml", labels.looks_like, labels.read),
    Format("slurm-conf", "SLURM topology.conf", slurm.is_conf, slurm.read_conf),
    SLURM_YAML,
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
    TopologyError : it is in no known format, cannot be understood, or has no topology of that name.
    """
    found = recognized(text, path, FORMATS, TopologyError, "this is no file of a cluster that is known here")
    if found is SLURM_YAML:
        return slurm.read_yaml(text, path, choice)
    if choice is not None:
        raise TopologyError(f"this file has one topology without a name, not {choice!r}", path=path)
    return found.read(text, path)


def read_cluster(path: str | Path, choice: str | None = None) -> Cluster:
    """What a file tells of a cluster.

    Raises
    ------
    FileError : it cannot be read.
    TopologyError : as `parse_cluster`, or it is too large.
    """
    return parse_cluster(read_text(path), str(path), choice)

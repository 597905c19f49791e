"""Which formats of cluster files there are, and which of them a text is in; it knows none of them inside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from taccl.errors import TopologyError
from taccl.support.reading import Format, recognized
from taccl.topologies.importers.clusters.facts import Cluster
from taccl.topologies.importers.clusters.formats import (
    aws,
    ibnetdiscover,
    ibnetdiscover_ports,
    labels,
    netq,
    slurm_conf,
    slurm_yaml,
    topograph,
)
from taccl.topologies.importers.nodes.registry import read_text

#: A cluster from a text, its path for messages, and which topology of several.
Read = Callable[[str, str | None, str | None], Cluster]


#: In the order in which they are tried: the pickiest first.
FORMATS: tuple[Format[Read], ...] = (
    Format("ibnetdiscover", "ibnetdiscover", ibnetdiscover.looks_like, ibnetdiscover.read),
    Format("ibnetdiscover-p", "ibnetdiscover -p", ibnetdiscover_ports.looks_like, ibnetdiscover_ports.read),
    Format("netq", "NetQ computeNodes.json", netq.looks_like, netq.read),
    Format("aws", "aws ec2 describe-instance-topology", aws.looks_like, aws.read),
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
    found = recognized(text, path, FORMATS, TopologyError, "this is no file of a cluster that is known here")
    return found.read(text, path, choice)


def read_cluster(path: str | Path, choice: str | None = None) -> Cluster:
    """What a file tells of a cluster.

    Raises
    ------
    FileError : it cannot be read.
    TopologyError : as `parse_cluster`, or it is too large.
    """
    return parse_cluster(read_text(path), str(path), choice)

"""A file of a cluster, imported: its format, what it tells, and the levels for the hosts requested, as text.

The walk through this room, written out once. A new format is a module in `formats/` and a row in `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from taccl.errors import TopologyError
from taccl.support.reading import Format, recognized
from taccl.topologies.importers.clusters.facts import ClusterFacts
from taccl.topologies.importers.clusters.formats import aws, infiniband, labels, netq, slurm, topograph
from taccl.topologies.importers.clusters.hostlist import expanded
from taccl.topologies.importers.clusters.merge import (
    MachineFile,
    check_fits,
    merged,
    named_equally,
    switch_of_domains,
)
from taccl.topologies.importers.clusters.plan import ClusterFile, plan
from taccl.topologies.importers.clusters.section import Section, section
from taccl.topologies.importers.clusters.tiers import Tiers
from taccl.topologies.importers.nodes.registry import read_text

#: A cluster from a text and its path, for messages.
Read = Callable[[str, str | None], ClusterFacts]

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


def parse_cluster(text: str, path: str | None = None, choice: str | None = None) -> ClusterFacts:
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


def read_cluster(path: str | Path, choice: str | None = None) -> ClusterFacts:
    """What a file tells of a cluster.

    Raises
    ------
    FileError : it cannot be read.
    TopologyError : as `parse_cluster`, or it is too large.
    """
    return parse_cluster(read_text(path), str(path), choice)


@dataclass(frozen=True)
class ImportedCluster:
    """The network of a cluster.

    Parameters
    ----------
    plan, section : for the hosts that were requested.
    yaml : the keys for a machine file, or the whole machine file where one was given.
    """

    cluster: ClusterFacts
    plan: ClusterFile
    section: Section
    yaml: str

    @property
    def headline(self) -> str:
        """What the file is, and how much of a cluster it tells."""
        tiers = ", ".join(f"{count} {name}" for name, count in Tiers(self.cluster).counts().items())
        hosts = f"{self.cluster.format}: {len(self.cluster.hosts)} hosts"
        return f"{hosts}, switches: {tiers}" if tiers else hosts

    def to_dict(self) -> dict[str, object]:
        """The figures as JSON has them; speeds in GB/s each way."""
        tiers = Tiers(self.cluster)
        return {
            "format": self.cluster.format,
            "hosts": len(self.cluster.hosts),
            "switches": tiers.counts(),
            "leaves": [self._leaf(tiers, leaf) for leaf in tiers.leaves],
            "blocks": [
                {"name": block.name, "hosts": list(block.hosts), "nvlink": block.is_nvlink}
                for block in self.cluster.blocks
            ],
            "nodes": list(self.plan.hosts),
            "nics": list(self.plan.nics),
            "levels": [
                {
                    "name": level.name,
                    "switches": len(level.nic_groups),
                    "nodes": None if level.groups is None else [list(group) for group in level.groups],
                    "rails": 1 if level.rails is None else len(level.rails),
                    "uplinks": None if level.uplinks is None else [uplink.number for uplink in level.uplinks],
                }
                for level in self.plan.levels
            ],
            "domains": None if self.plan.domains is None else [list(domain) for domain in self.plan.domains],
            "values": [asdict(row) for row in self.section.values],
            "warnings": list(self.section.warnings),
            "yaml": self.yaml,
        }

    def _leaf(self, tiers: Tiers, leaf: str) -> dict[str, object]:
        ports = [port for port in self.cluster.ports if port.switch == leaf]
        unnamed = sum(port.switch == leaf for port in self.cluster.unnamed)
        uplinks = tiers.uplinks(1, leaf)
        down, up = tiers.host_gbps(leaf), uplinks.gbps(None)
        return {
            "name": leaf,
            "hosts": len({port.host for port in ports}),
            "host_ports": len(ports) + unnamed,
            "uplinks": uplinks.number,
            "oversubscription": round(down / up, 4) if down and up else None,
        }


def import_cluster(
    path: str | Path,
    *,
    hosts: str | None = None,
    nodes: int | None = None,
    nics: Sequence[str] | None = None,
    choice: str | None = None,
    blocks_are_nvlink: bool = False,
    machine: MachineFile | None = None,
) -> ImportedCluster:
    """The network that a file of a cluster tells.

    Parameters
    ----------
    hosts : which, in a scheduler's words (`n[01-04],x1`) and in the order of the nodes; None for all that are
        equivalent.
    nodes : only this many of them.
    nics : only NICs of these names, in the order of the machine's; those of the machine where the hosts have
        NICs of the same names.
    choice : which topology, where the file has several by name.
    blocks_are_nvlink : whether NVLinks join the hosts of a scheduler's blocks.
    machine : the machine file whose network it is.

    Raises
    ------
    FileError : the file cannot be read.
    TopologyError : it cannot be understood, lacks a host, or does not fit the machine.
    """
    cluster = read_cluster(path, choice)
    if blocks_are_nvlink:
        cluster = replace(cluster, blocks=tuple(replace(block, is_nvlink=True) for block in cluster.blocks))
    try:
        names = None if hosts is None else expanded(hosts)
        if nics is None and machine is not None and named_equally(cluster, machine.nics, names):
            nics = machine.nics
        planned = plan(cluster, names, nodes, nics)
    except TopologyError as fault:
        if fault.path is None:
            raise TopologyError(fault.message, path=path, hint=fault.hint) from None
        raise
    if machine is None:
        made = section(cluster, planned)
        return ImportedCluster(cluster, planned, made, made.text)
    check_fits(machine, planned)
    made = section(cluster, planned, machine.costs, machine.nics, switch_of_domains(machine))
    return ImportedCluster(cluster, planned, made, merged(machine, made))

"""`taccl topology import --cluster`: the network between nodes, from what tells how they are joined."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import click

from taccl.cli.options import FILE
from taccl.cli.output import STDOUT, claim_outputs, output_name, show_json, show_table, write_output
from taccl.errors import TopologyError
from taccl.support.reading import utf8_text
from taccl.support.schemas import stamped
from taccl.topologies.importers.clusters.imported import ImportedCluster, import_cluster
from taccl.topologies.importers.clusters.merge import MachineFile, machine_file
from taccl.topologies.strict_yaml import MAX_BYTES

_Command = TypeVar("_Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--cluster",
        type=FILE,
        help="How nodes are joined: ibnetdiscover, SLURM, topograph, labels of Kubernetes, NetQ, AWS.",
    ),
    click.option(
        "--hosts",
        metavar="LIST",
        help="Hosts of the cluster, as nodes in order: n[01-04],x1. Default: all equivalent.",
    ),
    click.option(
        "--nics",
        metavar="LIST",
        help="Their NICs, in the order of the machine's: mlx5_0,mlx5_1. Default: all.",
    ),
    click.option("--choose", metavar="NAME", help="Which topology, where the cluster's file has several."),
    click.option("--blocks-are-nvlink", is_flag=True, help="A scheduler's blocks are domains of NVLinks."),
    click.option("--into", type=FILE, help="A machine file whose network the cluster's is."),
)


class Network(TypedDict):
    """What the options say."""

    cluster: Path | None
    hosts: str | None
    nics: str | None
    choose: str | None
    blocks_are_nvlink: bool
    into: Path | None


def cluster_options(command: _Command) -> _Command:
    """The options that say which network between nodes; a command gets them as `Network`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def check_options(requested: Network, has_files: bool) -> None:
    """Raise click.UsageError for options that nothing asks for."""
    if requested["cluster"] is None:
        for name in ("hosts", "nics", "choose", "blocks_are_nvlink", "into"):
            if requested[name]:
                raise click.UsageError(f"--{name.replace('_', '-')} goes with --cluster")
        if not has_files:
            raise click.UsageError("Missing argument 'FILE...', or --cluster.")
    elif has_files and requested["into"] is not None:
        raise click.UsageError(
            "the network goes into a machine file or into the machine of FILE..., not both"
        )


def network_of(requested: Network, nodes: int | None, machine: MachineFile | None) -> ImportedCluster:
    """The network that the options ask for. Raises as `import_cluster` does."""
    assert requested["cluster"] is not None
    nics = requested["nics"]
    return import_cluster(
        requested["cluster"],
        hosts=requested["hosts"],
        nodes=nodes,
        nics=None if nics is None else [name.strip() for name in nics.split(",") if name.strip()],
        choice=requested["choose"],
        blocks_are_nvlink=requested["blocks_are_nvlink"],
        machine=machine,
    )


def import_network(requested: Network, nodes: int | None, output: Path | None, as_json: bool) -> None:
    """`taccl topology import --cluster FILE` without dumps of a node."""
    err = claim_outputs([output], [requested["cluster"], requested["into"]], as_json=as_json)
    into = requested["into"]
    machine = None if into is None else machine_file(utf8_text(into, MAX_BYTES, TopologyError), str(into))
    found = network_of(requested, nodes, machine)
    if output is not None:
        write_output(output, found.yaml)
    if as_json:
        show_json(stamped("taccl.topology.cluster/1", found.to_dict()))
        return
    show_network(found, err=err)
    if output is None:
        click.echo(f"\n{found.yaml}", nl=False)
    elif output != STDOUT:
        click.echo(f"wrote {output_name(output)}")


def show_network(found: ImportedCluster, *, err: bool) -> None:
    """The table of what is known of a network, and warnings."""
    click.echo(found.headline, err=err)
    rows = [(row.quantity, row.value, row.how, row.source) for row in found.section.values]
    show_table(("QUANTITY", "VALUE", "HOW", "SOURCE"), rows, err=err)
    for warning in found.section.warnings:
        click.echo(f"warning: {warning}", err=True)

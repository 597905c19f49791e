"""`taccl topology import --cluster`: the network between nodes, from what tells how they are joined."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from taccl.cli.options import FILE, json_option
from taccl.cli.output import STDOUT, claim_outputs, output_name, show_json, show_table, write_output
from taccl.fabrics.imported import ImportedCluster, import_cluster
from taccl.fabrics.merge import machine_file
from taccl.schemas import stamped
from taccl.topologies.strict_yaml import read_text

_Command = TypeVar("_Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--cluster", type=FILE, help="How nodes are joined: ibnetdiscover, SLURM, topograph, NetQ, labels."
    ),
    click.option(
        "--hosts", metavar="LIST", help="Hosts of the cluster, in order: n[01-04],x1. Default: all alike."
    ),
    click.option(
        "--nics", metavar="LIST", help="Their NICs, by the cluster's names: mlx5_0,mlx5_1. Default: all."
    ),
    click.option("--choose", metavar="NAME", help="Which topology, where the cluster's file has several."),
    click.option("--blocks-are-nvlink", is_flag=True, help="SLURM's blocks are domains of NVLinks."),
)


def cluster_options(command: _Command) -> _Command:
    """The options that say which network between nodes."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command("import")
@cluster_options
@click.option("--nodes", type=click.IntRange(min=1), help="Only so many of the hosts.")
@click.option("--into", type=FILE, help="A machine file whose network this is.")
@click.option("-o", "--output", type=FILE, help="The machine file (YAML); - is standard output.")
@json_option
def import_network(
    cluster: Path | None,
    hosts: str | None,
    nics: str | None,
    choose: str | None,
    blocks_are_nvlink: bool,
    nodes: int | None,
    into: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Make the network of a machine file of what tells how nodes are joined."""
    if cluster is None:
        raise click.UsageError("Missing option '--cluster'.")
    err = claim_outputs([output], [cluster, into], as_json=as_json)
    machine = None if into is None else machine_file(read_text(into), str(into))
    found = import_cluster(
        cluster,
        hosts=hosts,
        nodes=nodes,
        nics=None if nics is None else [name.strip() for name in nics.split(",") if name.strip()],
        choice=choose,
        blocks_are_nvlink=blocks_are_nvlink,
        machine=machine,
    )
    if output is not None:
        write_output(output, found.yaml)
    if as_json:
        show_json(stamped("taccl.topology.cluster/1", found.to_dict()))
        return
    show_network(found, with_text=output is None, err=err)
    if output is not None and output != STDOUT:
        click.echo(f"wrote {output_name(output)}")


def show_network(found: ImportedCluster, *, with_text: bool, err: bool) -> None:
    """The table of what is known of a network, its text where no file takes it, and warnings."""
    facts = found.to_dict()
    shown = ", ".join(f"{count} {name}" for name, count in facts["switches"].items())  # type: ignore[attr-defined]
    click.echo(
        f"{facts['format']}: {facts['hosts']} hosts" + (f", switches: {shown}" if shown else ""), err=err
    )
    rows = [(row.quantity, row.value, row.how, row.source) for row in found.section.values]
    show_table(("QUANTITY", "VALUE", "HOW", "SOURCE"), rows, err=err)
    if with_text:
        click.echo(f"\n{found.yaml}", nl=False, err=err)
    for warning in found.section.warnings:
        click.echo(f"warning: {warning}", err=True)

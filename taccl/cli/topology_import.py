"""`taccl topology import`: a machine from what tools print about it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from taccl.cli.options import FILE, json_option
from taccl.cli.output import STDOUT, claim_outputs, output_name, show_json, show_table, write_output
from taccl.cli.sections import Sectioned
from taccl.cli.topology_cluster import (
    Network,
    check_options,
    cluster_options,
    import_network,
    network_of,
    show_network,
)
from taccl.support.schemas import stamped
from taccl.topologies.importers.clusters.merge import machine_file
from taccl.topologies.importers.nodes.machine import Imported, make_machine
from taccl.topologies.importers.nodes.merge import merge
from taccl.topologies.importers.nodes.rates import PROTOCOLS, Protocol
from taccl.topologies.importers.nodes.registry import read_dump
from taccl.topologies.machines.figures import BANDWIDTHS, Bandwidth

if TYPE_CHECKING:
    from typing_extensions import Unpack


@click.command("import", cls=Sectioned)
@click.argument("files", type=FILE, nargs=-1, metavar="FILE...")
@click.option(
    "--nodes",
    type=click.IntRange(min=1),
    help="Number of such nodes. Default: 1, or all hosts of the cluster.",
)
@click.option(
    "--bandwidth",
    type=click.Choice(BANDWIDTHS),
    default="nccl",
    show_default=True,
    help="What a file states, else what NCCL and RCCL take for reachable; or the vendor's figures.",
)
@click.option(
    "--protocol", type=click.Choice(PROTOCOLS), help="Latencies of this protocol. Default: of small messages."
)
@click.option("--gpu", metavar="MODEL", help="The model of the GPUs, where no file names it: B200.")
@cluster_options
@click.option("-o", "--output", type=FILE, help="The machine file (YAML); - is standard output.")
@json_option
def import_machine(
    files: tuple[Path, ...],
    nodes: int | None,
    bandwidth: Bandwidth,
    protocol: Protocol | None,
    gpu: str | None,
    output: Path | None,
    as_json: bool,
    **network: Unpack[Network],
) -> None:
    """Make a machine file of what tools print about one node, and about how nodes are joined.

    Each FILE is found to be of its kind by what is in it. Several files refine each other; where they
    contradict each other, both lines are reported.
    """
    check_options(network, bool(files))
    if gpu is not None and not files:
        raise click.UsageError("--gpu is of FILE...")
    if not files:
        import_network(network, nodes, output, as_json)
        return
    err = claim_outputs([output], [*files, network["cluster"]], as_json=as_json)
    dump = merge([read_dump(file) for file in files])
    name, found = _name(files[0]), None
    if network["cluster"] is None:
        machine = make_machine(dump, name, nodes=nodes or 1, bandwidth=bandwidth, protocol=protocol, gpu=gpu)
    else:
        machine = make_machine(dump, name, bandwidth=bandwidth, protocol=protocol, gpu=gpu)
        found = network_of(network, nodes, machine_file(machine.yaml))
    if output is not None:
        write_output(output, machine.yaml if found is None else found.yaml)
    if as_json:
        more = {} if found is None else {"cluster": found.to_dict()}
        show_json(stamped("taccl.topology.import/1", machine.to_dict() | more))
    else:
        _show(machine, err=err)
        if found is not None:
            show_network(found, err=err)
    if output is not None and output != STDOUT and not as_json:
        click.echo(f"wrote {output_name(output)}")


def _show(machine: Imported, *, err: bool) -> None:
    rows = [(row.quantity, row.value, row.how, row.source) for row in machine.values]
    show_table(("QUANTITY", "VALUE", "HOW", "SOURCE"), rows, err=err)
    for warning in machine.warnings:
        click.echo(f"warning: {warning}", err=True)


def _name(file: Path) -> str:
    """A machine's name from that of its first file."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", file.stem).strip("-.") or "imported"

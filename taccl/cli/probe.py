"""`taccl probe`: small programs whose times tell what a machine really takes."""

from __future__ import annotations

from pathlib import Path

import click

from taccl.backend.program import Protocol
from taccl.calibration.probe import Probe
from taccl.calibration.probe import probe as probe_machine
from taccl.cli.options import FILE, json_option, nodes_option, topology_option
from taccl.cli.output import show_json, show_table
from taccl.cli.sections import Sectioned
from taccl.model import units
from taccl.support.files import check_folder


@click.command(cls=Sectioned)
@topology_option("The machine to measure: a name of the catalogue or a YAML file.")
@nodes_option
@click.option(
    "--protocol",
    "protocols",
    multiple=True,
    type=click.Choice([protocol.value for protocol in Protocol], case_sensitive=False),
    help="Probe this protocol only; may be given several times. Default: all.",
)
@click.option(
    "-o", "--output", type=FILE, metavar="FOLDER", help="Write programs, run.sh and README.md into it."
)
@json_option
def probe(
    topology: str, nodes: int | None, protocols: tuple[str, ...], output: Path | None, as_json: bool
) -> None:
    """Programs to run on a machine so that `taccl topology fit --runs` can tell its parameters apart: one
    hop, chains of hops, all GPUs to all, 1 to 8 instances, each protocol, and sums.

    Each is verified. The folder's README.md has the commands to run them with nccl-tests, and what to
    bring back.

    \b
    taccl probe --topology dgx2 --nodes 1 -o probe
    """
    if output is not None:
        check_folder(output)
    wanted = [each for each in Protocol if not protocols or each.value in protocols]
    found = probe_machine(topology, nodes=nodes, protocols=wanted)
    if output is not None:
        found.write(output)
    if as_json:
        show_json(found.to_dict())
        return
    _show(found, output)


def _show(found: Probe, output: Path | None) -> None:
    least, largest, factor = found.sizes
    click.echo(f"{len(found.programs)} programs for the {found.num_ranks} GPUs of {found.topology}")
    rows = [
        (program.file, program.thread_blocks, ", ".join(program.readers), program.tells)
        for program in found.programs
    ]
    show_table(("file", "blocks", "runtimes", "what its times tell"), rows)
    sizes = f"{units.format_size(least)} to {units.format_size(largest)}, times {factor}"
    click.echo(f"sizes: {sizes}")
    for note in found.notes:
        click.echo(f"note: {note}")
    click.echo(
        "-o FOLDER writes them" if output is None else f"written to {output}: README.md says how to run them"
    )

"""`taccl topology fit`: costs from what benchmarks measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from taccl.cli import completion
from taccl.cli.options import FILE, json_option, nodes_option
from taccl.cli.output import claim_outputs, output_name, show_json, show_table, write_output
from taccl.cli.sections import Sectioned
from taccl.model.units import format_size

if TYPE_CHECKING:
    from taccl.calibration.benchmarks.quantities import Quantity
    from taccl.calibration.link_fit import MeasuredFit


@click.command(cls=Sectioned)
@click.argument("files", nargs=-1, type=FILE)
@click.option(
    "--runs",
    multiple=True,
    metavar="FOLDER|FILE.xml=TIMES",
    help="Measured runs of programs: a folder of MSCCL-XML files with times.csv, or a file and its times. "
    "Further ones may follow as FILES.",
)
@click.option(
    "--topology",
    shell_complete=completion.machines,
    metavar="NAME|FILE",
    help="A machine of the catalogue or a YAML file, whose numbers the measured ones replace.",
)
@nodes_option
@click.option("--profile", type=FILE, help="A TACCL profile (JSON) with costs of the links before the fit.")
@click.option(
    "--at", metavar="SIZE", help="Size of the messages that will be sent: 1MB. Default: the largest."
)
@click.option(
    "--between",
    type=click.Choice(["gpus", "nodes"]),
    help="Whom a sweep joins that does not tell: GPUs of one node, or nodes.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the bootstrap.")
@click.option("-o", "--output", type=FILE, help="The machine with the measured numbers (YAML).")
@json_option
def fit(
    files: tuple[Path, ...],
    runs: tuple[str, ...],
    topology: str | None,
    nodes: int | None,
    profile: Path | None,
    at: str | None,
    between: Literal["gpus", "nodes"] | None,
    seed: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Fit alphas, betas and ports to FILES: what nccl-tests, p2pBandwidthLatencyTest, nvbandwidth, OSU,
    perftest, TransferBench or mpiGraph printed. See docs/machines/fit.md.

    With --runs, costs of links and of the executor are fitted to measured times of any programs, such as
    those of `taccl probe`. See docs/machines/probe.md.
    """
    if runs:
        if at is not None or between is not None:
            raise click.UsageError("--at and --between are for outputs of benchmarks, not for --runs")
        from taccl.cli.topology_fit_runs import fit_and_show  # loads SciPy

        fit_and_show([*runs, *map(str, files)], topology, nodes, profile, seed, output, as_json=as_json)
        return
    if not files:
        raise click.UsageError("name one or more outputs of benchmarks")
    if output is not None and topology is None:
        raise click.UsageError("-o writes the machine of --topology; name one")
    if topology is None and (nodes is not None or profile is not None):
        raise click.UsageError("--nodes and --profile are of the machine of --topology; name one")
    from taccl.calibration.link_fit import fit_measured  # loads SciPy

    to_stdout = claim_outputs([output], [*files, topology, profile], as_json=as_json)
    fitted = fit_measured(
        files, topology=topology, nodes=nodes, profile=profile, at=at, between=between, seed=seed
    )
    if output is not None and fitted.machine_text is not None:
        write_output(output, fitted.machine_text)
    if as_json:
        show_json(fitted.to_dict())
    else:
        _show(fitted, output, err=to_stdout)


def _show(fitted: MeasuredFit, output: Path | None, *, err: bool) -> None:
    if fitted.found.quantities:
        header = ("LINK", "QUANTITY", "VALUE", "90% INTERVAL", "SIZES", "POINTS", "MISS", "FROM", "NOTE")
        show_table(header, [_row(quantity) for quantity in fitted.found.quantities], err=err)
    for each in fitted.found.refusals:
        click.echo(f"{each.link}: {each.name}: {each.reason} ({each.source})", err=err)
    if fitted.changes:
        click.echo("", err=err)
        rows = [(each.key, f"{each.before:.6g}", f"{each.after:.6g}") for each in fitted.changes]
        show_table(("CHANGED", "BEFORE", "AFTER"), rows, err=err)
    for warning in fitted.warnings:
        click.echo(f"warning: {warning}", err=True)
    if output is not None:
        click.echo(f"wrote {output_name(output)}", err=err)


def _row(quantity: Quantity) -> tuple[str, ...]:
    name, value, low, high = quantity.name, quantity.value, quantity.low, quantity.high
    gbps = quantity.gbps
    shown = f"{value:.4g}" if gbps is None else f"{value:.4g} ({gbps:.4g} GB/s)"
    sizes = (
        ""
        if quantity.sizes_bytes is None
        else " .. ".join(map(format_size, dict.fromkeys(quantity.sizes_bytes)))
    )
    miss = ""
    if quantity.worst_miss is not None:
        median = "" if quantity.median_miss is None else f"{quantity.median_miss:.1%}, "
        miss = f"{median}worst {quantity.worst_miss:.1%}"
    interval = f"{low:.4g} .. {high:.4g}" + (" weak" if quantity.weak else "")
    return (
        quantity.link,
        name,
        shown,
        interval,
        sizes,
        str(quantity.points),
        miss,
        quantity.source,
        quantity.note,
    )

"""`taccl topology fit --runs`: what is shown of a machine fitted to measured times of programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from taccl.calibration.runs import INTERVALS, FittedRuns, fit_runs
from taccl.cli.output import STDOUT, claim_outputs, output_name, show_json, show_table, write_output
from taccl.model import units
from taccl.topologies import load_topology

_UNITS = {"us": "us", "gbps": "GB/s"}


def fit_and_show(
    runs: Sequence[str],
    topology: str | None,
    nodes: int | None,
    profile: Path | None,
    seed: int,
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    """Fit, write the machine where `output` is given, and show what was found.

    Raises
    ------
    TacclError : as `fit_runs`.
    click.UsageError : no machine is named.
    """
    if topology is None:
        raise click.UsageError("--runs needs --topology: the machine whose links were measured")
    takes_stdout = claim_outputs([output], [topology, profile, *_tables(runs)], as_json=as_json)
    found = fit_runs(runs, load_topology(topology, nodes, profile), seed=seed)
    text = None if output is None else found.yaml()
    if as_json:
        show_json(found.to_dict())
    else:
        _show(found, err=takes_stdout)
    if output is not None and text is not None:
        write_output(output, text)
        if output != STDOUT and not as_json:
            click.echo(f"written to {output_name(output)}")


def _tables(runs: Sequence[str]) -> list[Path]:
    """The files among the sources, which the output must not replace."""
    paths: list[Path] = []
    for source in runs:
        program, equals, times = source.partition(".xml=")
        if equals:
            paths += [Path(f"{program}.xml"), Path(times)]
        elif Path(source).is_dir():
            paths += [path for path in Path(source).iterdir() if path.is_file()]
    return paths


def _show(found: FittedRuns, err: bool) -> None:
    errors = found.errors
    files = {residual.file for residual in found.residuals}
    click.echo(f"{found.machine.name}: {len(errors)} measured times of {len(files)} programs", err=err)
    if found.pieces is not None:
        click.echo(f"pieces: those of {found.pieces}, which fit best", err=err)
    show_table(
        ("quantity", "of", "fitted", "90% interval", "before", ""),
        [
            (
                *(each.name, each.of, _value(each.name, each.value)),
                f"{each.low:.4g} .. {each.high:.4g}" if each.reported else "-",
                "-" if each.base is None else f"{each.base:.4g}",
                each.remark,
            )
            for each in found.parameters
        ],
        err=err,
    )
    click.echo(INTERVALS, err=err)
    click.echo("\npredicted over measured time, by file and size", err=err)
    header, rows = residual_table(found)
    show_table(header, rows, err=err)
    median, nine_tenths, worst = np.quantile(errors, (0.5, 0.9, 1.0))
    click.echo(
        f"error: median {100 * median:.1f}%, 90% below {100 * nine_tenths:.1f}%, worst {100 * worst:.1f}%",
        err=err,
    )
    for note in found.notes:
        click.echo(f"note: {note}", err=err)


def _value(name: str, value: float) -> str:
    return f"{value:.4g} {_UNITS.get(name.rsplit('_', 1)[1], '')}".rstrip()


def residual_table(found: FittedRuns, most_sizes: int = 8) -> tuple[list[str], list[list[str]]]:
    """Files as rows, sizes as columns (evenly chosen where there are many), and how far each file is off."""
    sizes = sorted({residual.size_bytes for residual in found.residuals})
    chosen = [sizes[at] for at in np.unique(np.linspace(0, len(sizes) - 1, most_sizes).round().astype(int))]
    rows: dict[str, dict[int, float]] = {}
    for residual in found.residuals:
        rows.setdefault(residual.file, {})[residual.size_bytes] = residual.predicted_us / residual.measured_us
    header = ["file", *map(units.format_size, chosen), "median error", "worst"]
    table = []
    for file, ratios in rows.items():
        errors = [max(ratio, 1 / ratio) - 1 for ratio in ratios.values()]
        cells = [f"{ratios[size]:.2f}" if size in ratios else "-" for size in chosen]
        table.append([file, *cells, f"{100 * float(np.median(errors)):.1f}%", f"{100 * max(errors):.1f}%"])
    return header, table

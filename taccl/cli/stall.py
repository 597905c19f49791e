"""`taccl stall`: how long a training step waits for its collectives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from taccl.analysis.training.stall_report import Stalled
from taccl.analysis.training.stalled import stall as stall_of
from taccl.analysis.training.step_timeline import step_lines, step_timeline
from taccl.backend.show.trace import to_trace
from taccl.cli import completion
from taccl.cli.options import FILE, json_option, nodes_option, topology_option
from taccl.cli.output import claim_outputs, output_name, show_json, show_table, write_output
from taccl.cli.sections import Sectioned


@click.command(cls=Sectioned)
@click.argument("job", metavar="JOB")
@topology_option()
@nodes_option
@click.option(
    "--plan",
    default="ring",
    show_default=True,
    metavar="NAME[,NAME]",
    help="ring, tree or another algorithm of libraries; nccl (its own estimates); synthesize.",
)
@click.option(
    "--bucket",
    default="25MB",
    show_default=True,
    metavar="BYTES|auto",
    help="At which a bucket of gradients is closed; auto: what makes the shortest step.",
)
@click.option("--first-bucket", metavar="BYTES", help="The same for the first bucket; DDP has 1MB.")
@click.option(
    "--gradients",
    type=click.Choice(("fp32", "fp16", "bf16")),
    help="Send gradients so that the job has in fp32. Default: as they are.",
)
@click.option("--batch", type=float, metavar="N", help="Samples of a GPU. Default: the job's.")
@click.option(
    "--until",
    type=click.Choice(("step", "next-forward")),
    default="step",
    show_default=True,
    help="When sums are due: at the end of the step (DDP), or before each layer's own next forward pass.",
)
@click.option(
    "--one-node",
    shell_complete=completion.machines,
    metavar="NAME|FILE",
    help="One node with as many GPUs, to compare with.",
)
@click.option("--price", type=float, metavar="DOLLARS", help="Of one node for an hour; with --samples.")
@click.option("--samples", type=int, metavar="N", help="Of one epoch.")
@click.option(
    "--time-limit", type=float, default=60.0, show_default=True, metavar="SECONDS", help="For each plan."
)
@click.option("--effort", type=int, metavar="N", help="Units of work for each collective of synthesize.")
@click.option(
    "--trace",
    type=FILE,
    metavar="FILE",
    help="Write the fastest plan's step as a trace for Perfetto; - for standard output.",
)
@json_option
def stall(
    job: str, price: float | None, samples: int | None, trace: Path | None, as_json: bool, **requested: Any
) -> None:
    """Predict how long a training step waits for its collectives, by plan and size of buckets, with a bound
    that holds for any schedule.

    JOB is a YAML file of layers, ASTRA-sim's text of layers, a trace of PyTorch's profiler, or a
    transformer's shape. Buckets of gradients run one after another, as NCCL runs them.

    \b
    taccl stall vgg11.yaml --topology p3.yaml --nodes 2 --plan ring,nccl,synthesize
    taccl stall transformer:layers=24,hidden=2048,seq=2048,batch=4,tflops=150,tensor=8 --topology dgx-h100
    """
    if (price is None) != (samples is None):
        raise click.UsageError("--price and --samples go together: dollars an epoch")
    claim_outputs((trace,), (job, requested["topology"], requested["one_node"]), as_json=as_json)
    found = stall_of(job, price=price, samples=samples, **requested)
    if trace is not None:
        write_output(trace, to_trace(step_timeline(found, found.best)))
        click.echo(f"wrote {output_name(trace)}", err=True)
    if as_json:
        show_json(found.to_dict())
    elif trace != Path("-"):
        _show(found)


def _show(found: Stalled) -> None:
    table = found.report().table
    click.echo(table.title)
    show_table(list(table.header), [list(row) for row in table.cells])
    header, rows = found.bucket_cells()
    click.echo(f"\nbuckets of {found.best.plan}:")
    show_table(header, rows)
    click.echo(f"\na step by {found.best.plan} (F forward, B backward, c calls, digits buckets):")
    for line in step_lines(found.best.step):
        click.echo(line)
    for each in found.plans:
        if each.cost_of_epoch is not None:
            click.echo(f"an epoch by {each.plan}: {each.cost_of_epoch:.2f} dollars")
    for note in found.notes:
        click.echo(f"note: {note}")

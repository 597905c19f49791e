"""`taccl deploy`: plans become a Python module that registers them with MSCCL++ and chooses among them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from taccl.cli.options import FILE, json_option, machine_options, proxy_option
from taccl.cli.output import STDOUT, claim_outputs, output_name, show_json, write_output
from taccl.cli.sections import Sectioned
from taccl.deployment.deployment import Deployment, is_module, module_file
from taccl.deployment.deployment import deploy as deploy_plans
from taccl.deployment.first_run import cautions, log_lines, placeholders, test_command, torchrun_commands
from taccl.deployment.order import LAST
from taccl.deployment.plans import DeployedPlan
from taccl.model import units
from taccl.support.files import check_folder


@click.command(cls=Sectioned)
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option(
    "-o",
    "--output",
    type=FILE,
    required=True,
    metavar="MODULE.py|FOLDER",
    help="Where to write the module, which names the plans where they are; or a new folder, for the module "
    "with all plans next to it; - for standard output.",
)
@click.option(
    "--ranks-per-node",
    type=click.IntRange(min=1),
    metavar="N",
    help="As PyTorch starts them. Default: those that memory channels join.",
)
@click.option("--root", type=int, help="Root of broadcast. Default: the one that fits.")
@machine_options
@proxy_option
@json_option
def deploy(files: tuple[Path, ...], output: Path, as_json: bool, **requested: Any) -> None:
    """Write the Python module that registers the plans in FILES with MSCCL++, with a selector of its own by
    size and in-place-ness, and say how to run them for the first time.

    Each is verified first. Where plans serve the same calls, the one that is predicted faster on --topology
    or --sketch comes first; without a machine, the one given first. Exit code 4: a plan is wrong; 2: bad
    input.

    \b
    taccl deploy small.json large.json -o taccl_plans.py --topology dgx-h100 --nodes 1
    """
    if output.suffix == ".json":
        raise click.UsageError(f"{output} is for a plan; a module ends in .py, and anything else is a folder")
    in_folder = output != STDOUT and not is_module(output)
    if in_folder:
        check_folder(output)
    on_stdout = claim_outputs(() if in_folder else (output,), files, as_json=as_json)
    made = deploy_plans(files, **requested)
    place = None if output == STDOUT else output
    if place is None:
        write_output(output, made.text())
    else:
        made.write(place)
    if as_json:
        show_json(made.to_dict(place))
        return
    for line in _lines(made, place):
        # a plan's name may be any text, also one that moves the cursor
        click.echo("".join(each if each.isprintable() else "?" for each in line), err=on_stdout)


def _lines(made: Deployment, output: Path | None) -> list[str]:
    name = output_name(STDOUT if output is None else module_file(output))
    lines = [f"wrote {name}: {len(made.plans)} {'plan' if len(made.plans) == 1 else 'plans'}"]
    for plan in made.plans:
        lines += [plan.name, *(f"  {label:<10} {text}" for label, text in _rows(made, plan, output))]
    lines += _choices(made)
    lines.append("in the program, before the communicator is made: import it, and call register()")
    lines += [f"  {'run':<10} {each}" for each in torchrun_commands(made.plans)]
    lines += [f"  {'where':<10} {each}" for each in placeholders(made.plans)]
    lines += [f"  {'log':<10} {each}" for each in log_lines(made.plans)]
    return [*lines, *(f"note: {each}" for each in made.notes)]


def _rows(made: Deployment, plan: DeployedPlan, output: Path | None) -> Iterator[tuple[str, str]]:
    root = "" if plan.root is None else f" (root {plan.root})"
    places = " and ".join("in place" if each else "out of place" for each in plan.in_place)
    yield "serves", f"{plan.collective}{root}, {plan.ranks} ranks, {plan.ranks_per_node} a node, {places}"
    sizes = f"{units.format_size(plan.min_bytes)} to {units.format_size(plan.max_bytes)}"
    yield "sizes", f"{sizes}, multiples of {plan.unit_bytes} bytes"
    test = test_command(plan, made.file_of(plan, output))
    if test is not None:
        yield "test", test
    for caution in cautions(plan):
        yield "note", caution


def _choices(made: Deployment) -> list[str]:
    """Where the order decides, who comes first."""
    lines = []
    for row in made.order:
        if row.is_choice:
            to = "above" if row.up_to_bytes == LAST else f"to {units.format_size(row.up_to_bytes)}"
            lines.append(f"{row.collective}, {row.ranks} ranks, {to}: {', '.join(row.names)}")
    return lines

"""`taccl bundle`: a folder of files that tile a range of sizes, and its check against measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from taccl.cli import completion
from taccl.cli.explore_options import explore_options
from taccl.cli.explore_progress import search_reports
from taccl.cli.options import FILE, json_option
from taccl.cli.output import show_reported
from taccl.cli.signals import undisturbed
from taccl.cli.targets import target_option
from taccl.deployment.bundles.bundle import Bundle
from taccl.deployment.bundles.bundle import bundle as make_bundle
from taccl.deployment.bundles.checked import check_bundle
from taccl.support.files import check_folder

#: Something failed its check.
_WRONG = 4


@click.group(invoke_without_command=True)
@click.option(
    "--topology",
    shell_complete=completion.machines,
    metavar="NAME|FILE",
    help="A machine of the catalogue or a YAML file.",
)
@explore_options
@target_option("What the files are for. Default: all runtimes of MSCCL-XML.")
@click.option("-o", "--output", type=FILE, metavar="FOLDER", help="A new or empty folder.")
@json_option
@click.pass_context
def bundle(
    ctx: click.Context,
    /,
    topology: str | None,
    output: Path | None,
    as_json: bool,
    quiet: bool,
    no_cache: bool,
    **requested: Any,
) -> None:
    """Explore a machine, and write a folder to deploy: verified files that tile the sizes without hole or
    overlap, a manifest, scripts that point a runtime at them and check them with nccl-tests.

    Calls that have no file, or for which the library is expected to be faster, are left to the library.

    \b
    taccl bundle --topology ndv2 --nodes 2 --collective allgather,allreduce -o ndv2x2
    taccl bundle check ndv2x2 results.txt
    """
    if ctx.invoked_subcommand is not None:
        return
    if topology is None or output is None:
        raise click.UsageError("a bundle needs --topology, and -o with the name of a folder")
    check_folder(output)
    target = requested.pop("target")
    with search_reports(quiet=quiet) as listen:
        made = make_bundle(
            topology=topology,
            target=None if target is None else target.name,
            cache=not no_cache,
            on_search=listen,
            **requested,
        )
    with undisturbed():
        made.write(output)
        show_reported(made, as_json=as_json)
        _show_notes(made, as_json=as_json, is_kept=not no_cache)
    click.echo(f"wrote {output}: its README.md says how to use it", err=True)


@bundle.command()
@click.argument("folder", type=FILE)
@click.argument("results", type=FILE)
@json_option
@click.pass_context
def check(ctx: click.Context, /, folder: Path, results: Path, as_json: bool) -> None:
    """Compare what nccl-tests printed (RESULTS, of check.sh) with what the bundle in FOLDER promised. Exit
    code 4: nccl-tests failed or counted wrong values, or a file of the folder is not as its manifest says.
    """
    found = check_bundle(folder, results)
    show_reported(found, as_json=as_json)
    if not as_json:
        for name in found.seen:
            click.echo(f"executed: {name}")
        for note in found.notes:
            click.echo(f"note: {note}")
        for fault in found.faults:
            click.echo(f"WRONG: {fault}", err=True)
    if not found.ok:
        ctx.exit(_WRONG)


def _show_notes(made: Bundle, *, as_json: bool, is_kept: bool) -> None:
    """What the exploration left out and why; standard error has it, always, if it was interrupted."""
    if not as_json:
        for note in made.notes:
            click.echo(f"note: {note}")
    if made.is_interrupted:
        goes_on = "; the same command with another folder goes on where it was" if is_kept else ""
        click.echo(f"note: the exploration was interrupted{goes_on}", err=True)

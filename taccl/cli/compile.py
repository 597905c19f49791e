"""`taccl compile`: make machine code of the loops, so that no search and no file has to wait for it."""

from __future__ import annotations

import time
from itertools import chain

import click

from taccl.cli.warm_up import compile_engines, compile_stages


@click.command("compile")
def compile() -> None:  # the command's name: nothing here needs the function that it hides
    """Compile the loops of engines and files, once after installing.

    Some engines run loops over millions of rows as machine code. It is made when it is first needed, which
    takes some thirty seconds for an engine; a search with less time goes on without that engine, and says so.
    Bounds of large machines run such loops, too, and so do lowering, verifying and simulating files of many
    steps.
    """
    began = time.monotonic()
    for name, was_there in chain(compile_engines(), compile_stages()):
        now = time.monotonic()
        click.echo(f"{name:12} {'cached' if was_there else f'compiled in {now - began:.1f} s'}")
        began = now

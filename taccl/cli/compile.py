"""`taccl compile`: make machine code of the engines' loops, so that the first search need not."""

from __future__ import annotations

import time

import click

from taccl.compiling import compile_engines


@click.command("compile")
def compile() -> None:  # the command's name: nothing here needs the function that it hides
    """Compile the engines' loops, once after installing.

    Some engines run loops over millions of rows as machine code. It is made when it is first needed, which
    takes some ten seconds for an engine; a search with less time goes on without that engine, and says so.
    """
    began = time.monotonic()
    for name, was_there in compile_engines():
        now = time.monotonic()
        click.echo(f"{name:12} {'at hand' if was_there else f'compiled in {now - began:.1f} s'}")
        began = now

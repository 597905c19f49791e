"""`taccl cache`: the answers that `explore` keeps."""

from __future__ import annotations

import click

from taccl.analysis.exploration.cache import VARIABLE, Cache, cache_folder
from taccl.cli.options import json_option
from taccl.cli.output import show_json, show_table
from taccl.support.schemas import stamped


@click.group()
def cache() -> None:
    """List or clear the answers that `explore` keeps, in the user's cache folder."""


@cache.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the answers: what was searched for, how long it took, how large it is."""
    kept = Cache(cache_folder())
    rows = [
        answer.figures() | {"bytes": path.stat().st_size}
        for path in kept.files()
        if (answer := kept.get(path.stem))
    ]
    if as_json:
        show_json(stamped("taccl.cache.list/1", {"folder": str(kept.folder), "answers": rows}))
        return
    click.echo(f"{kept.folder}: {len(rows)} answers (the variable {VARIABLE} names another folder)")
    if rows:
        show_table(list(rows[0]), [list(row.values()) for row in rows])


@cache.command()
def clear() -> None:
    """Remove all answers."""
    kept = Cache(cache_folder())
    removed = kept.clear()
    click.echo(f"removed {removed} answers from {kept.folder}")

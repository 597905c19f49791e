"""What the shell offers for a value: engines, collectives, sketches and machines by name, and files.

Each function is what click calls a `shell_complete`. Where a file will do as well, that item comes first: in
bash, it takes back the items before it.
"""

from __future__ import annotations

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

Items = list["CompletionItem[str]"]


def engines(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """The engines of `taccl synthesize`."""
    from taccl.encoding.engines.registry import names

    return _named(((name, "") for name in names()), incomplete)


def collectives(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """The collectives by name, and files of custom ones."""
    from taccl.model.collectives import COLLECTIVES

    return files(ctx, param, incomplete) + _named(((name, "") for name in COLLECTIVES), incomplete)


def copying_or_summing(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """The collectives that only copy or only sum, as `taccl pareto` takes them."""
    from taccl.model.collectives import COLLECTIVES

    return _named(((name, "") for name in COLLECTIVES if name != "allreduce"), incomplete)


def sketches(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """The published sketches by name, and files."""
    from taccl.sketch import published_sketches

    named = ((sketch.name, sketch.description) for sketch in published_sketches())
    return files(ctx, param, incomplete) + _named(named, incomplete)


def machines(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """The machines of the catalogue, an example of each shape, and files."""
    from taccl.topologies import catalogue

    named = ((entry.name, entry.summary) for entry in catalogue())
    return files(ctx, param, incomplete) + _named(named, incomplete)


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Whatever files the shell finds."""
    return [CompletionItem(incomplete, type="file")]


def _named(named: Iterable[tuple[str, str]], incomplete: str) -> Items:
    return [CompletionItem(name, help=about or None) for name, about in named if name.startswith(incomplete)]

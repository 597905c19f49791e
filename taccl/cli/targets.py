"""`--target`: the names of all targets, those of other packages included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from taccl.backend.target import Target
from taccl.backend.targets import all_targets

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _TargetName(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic from click 8.2 on
    """The name of a target; as a value, the target."""

    name = "target"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        names = "|".join(target.name for target in all_targets())
        return f"[{names}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, Target):
            return value
        known = {target.name: target for target in all_targets()}
        return known[click.Choice(list(known)).convert(value, param, ctx)]

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [
            CompletionItem(target.name, help=target.title)
            for target in all_targets()
            if target.name.startswith(incomplete)
        ]


def target_option(help_text: str, *, default: str | None = None) -> Callable[[_Command], _Command]:
    """`--target`, as a `Target`; None where it is left out and has no default."""
    return click.option(
        "--target", type=_TargetName(), default=default, show_default=default is not None, help=help_text
    )

"""What the command line offers beyond what is built in: a program that embeds it hands over its own.

main(obj=Registry(targets=(*TARGETS, mine)))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from taccl.backend.target import AnyTarget, Target
from taccl.backend.targets import TARGETS

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Registry:
    """What can be named on the command line: the targets, the usual one first."""

    targets: tuple[AnyTarget, ...] = TARGETS


def registry_of(ctx: click.Context | None) -> Registry:
    """What the program was started with, or what is built in."""
    found = None if ctx is None else ctx.find_object(Registry)
    return Registry() if found is None else found


class _TargetName(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic from click 8.2 on
    """The name of a target of the registry; as a value, the target."""

    name = "target"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        names = "|".join(_names(ctx))
        return f"[{names}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, Target):
            return value
        named = click.Choice(_names(ctx)).convert(value, param, ctx)
        return next(target for target in registry_of(ctx).targets if target.name == named)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        targets = registry_of(ctx).targets
        return [
            CompletionItem(each.name, help=each.title) for each in targets if each.name.startswith(incomplete)
        ]


def _names(ctx: click.Context | None) -> list[str]:
    return [target.name for target in registry_of(ctx).targets]


def target_option(help_text: str, *, default: str | None = None) -> Callable[[_Command], _Command]:
    """`--target`, as a `Target` of the registry; None where it is left out and has no default."""
    return click.option(
        "--target", type=_TargetName(), default=default, show_default=default is not None, help=help_text
    )

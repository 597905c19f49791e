"""`--target` and `--protocol`: what there is to choose from, the targets of other packages included."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from taccl.backend.target import AnyTarget
from taccl.backend.targets.registry import all_targets, find_target
from taccl.errors import CollectiveError
from taccl.synthesis.output_options import AUTO

if TYPE_CHECKING:
    _ParamType = click.ParamType[Any, Any]
else:
    _ParamType = click.ParamType  # generic since click 8.2 only

_Command = TypeVar("_Command", bound=Callable[..., Any])

#: For commands that make no file.
TARGET_OF_PROBLEM = "What a file would be for: it says how many chunks one send may carry."


class _TargetName(_ParamType):
    """The name of a target; as a value, the target."""

    name = "target"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        names = "|".join(target.name for target in _loadable())
        return f"[{names}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return find_target(value)
        except CollectiveError:
            return click.Choice([target.name for target in all_targets()]).convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [
            CompletionItem(target.name, help=target.title)
            for target in _loadable()
            if target.name.startswith(incomplete)
        ]


class _ProtocolName(_ParamType):
    """A protocol of any target, which the chosen one may refuse; or `auto`."""

    name = "protocol"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        names = "|".join(_protocols())
        return f"[{names}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return click.Choice(_protocols(), case_sensitive=False).convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        begun = incomplete.lower()
        return [CompletionItem(name) for name in _protocols() if name.lower().startswith(begun)]


def _protocols() -> list[str]:
    names = dict.fromkeys(protocol for target in _loadable() for protocol in target.protocols)
    return [*names, AUTO]


def _loadable() -> tuple[AnyTarget, ...]:
    """The targets that can be offered: those of a broken package are reported where one is requested."""
    return all_targets(lambda name, fault: None)


def protocol_option(command: _Command) -> _Command:
    """`--protocol`."""
    return click.option(
        "--protocol",
        type=_ProtocolName(),
        help="How the runtime moves bytes. Default: auto, what is predicted fastest where the machine has an "
        "executor, and for mscclpp anywhere; else the target's usual one, Simple for MSCCL-XML.",
    )(command)


def target_option(help_text: str, *, default: str | None = None) -> Callable[[_Command], _Command]:
    """`--target`, as a `Target`; None where it is left out and has no default."""
    return click.option(
        "--target", type=_TargetName(), default=default, show_default=default is not None, help=help_text
    )

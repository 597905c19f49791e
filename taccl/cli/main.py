"""The `taccl` command and its groups."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from taccl.cli.failures import told_in_a_line
from taccl.cli.signals import terminated_as_interrupted

#: Each is the command of that name in the module of that name, imported when it is used: so `--version`
#: loads no solver.
_COMMANDS = (
    *("synthesize", "explain", "bound", "pareto", "verify"),
    *("convert", "deploy", "simulate", "run", "show", "topology", "probe", "sketch", "compile"),
)


class _Taccl(click.Group):
    """The commands, and the errors of each as a line on standard error and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"taccl.cli.{cmd_name}"), cmd_name)
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with told_in_a_line():  # --help and --version are told here
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with told_in_a_line(), terminated_as_interrupted():
            return super().invoke(ctx)


@click.group(cls=_Taccl, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="taccl", message="%(prog)s %(version)s")
def main() -> None:
    """Synthesize fast, proven and verified collective algorithms for GPU machines."""

"""The `taccl` command: its groups, and what becomes of errors."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import click

from taccl.errors import TacclError

#: Each is the command of that name in the module of that name, imported when it is used: so `--version`
#: loads no solver.
_COMMANDS = (
    *("synthesize", "explain", "bound", "pareto", "verify"),
    *("simulate", "run", "show", "topology", "sketch"),
)

#: What a shell gives a process that was ended by Ctrl-C.
_INTERRUPTED = 130

#: Set to anything, a bug shows its traceback.
_DEBUG = "TACCL_DEBUG"


class _Taccl(click.Group):
    """The commands, and the errors of each as a line on standard error and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"taccl.cli.{cmd_name}"), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TacclError as error:
            _complain(str(error))
            raise click.exceptions.Exit(error.exit_code) from error
        except click.UsageError as error:
            where = "taccl" if error.ctx is None else error.ctx.command_path
            _complain(f"{error.format_message()}\n  try: {where} --help")
            raise click.exceptions.Exit(error.exit_code) from error
        except KeyboardInterrupt as interrupt:
            _complain("interrupted; nothing was written")
            raise click.exceptions.Exit(_INTERRUPTED) from interrupt
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as bug:
            if os.environ.get(_DEBUG):
                raise
            _complain(
                f"internal error ({type(bug).__name__}: {bug}): this is a bug in taccl\n"
                f"  try: report it with this command and its files; {_DEBUG}=1 shows where it happened"
            )
            raise click.exceptions.Exit(1) from bug


def _complain(message: str) -> None:
    click.echo(f"error: {message}", err=True)


@click.group(cls=_Taccl, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="taccl", message="%(prog)s %(version)s")
def main() -> None:
    """Synthesize fast, proven and verified collective algorithms for GPU machines."""

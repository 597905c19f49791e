"""The `taccl` command and its groups."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from taccl.cli.failures import in_one_line
from taccl.cli.sections import Listed, write_commands
from taccl.cli.signals import terminated_as_interrupted

#: Each is the command of that name in the module of that name, imported when it is used: so `--help` and
#: `--version` load no solver.
COMMANDS = (
    Listed("synthesize", "Make", "Find a fast schedule for a collective and write it as a verified file."),
    Listed("explore", "Make", "Find the fastest algorithm at each size, next to bounds and libraries."),
    Listed("bundle", "Make", "Write a folder to deploy: files that tile a range of sizes."),
    Listed("pareto", "Make", "Trade latency against bandwidth on a small machine, after SCCL."),
    Listed("convert", "Make", "Convert an MSCCL-XML file to a plan for MSCCL++."),
    Listed("lower", "Make", "Turn a file into rounds of messages, for PyTorch, MPI and others."),
    Listed("export", "Make", "Write a file or schedule as a trace for simulators of others."),
    Listed("deploy", "Make", "Write the Python module that registers plans with MSCCL++."),
    Listed("verify", "Check", "Check files against each runtime: limits, results, races and deadlocks."),
    Listed("run", "Check", "Execute a file on CPU arrays and compare the results with NumPy."),
    Listed("bench", "Check", "Measure plans in a job of PyTorch or MPI next to its own collectives."),
    Listed("bound", "Check", "Prove lower bounds on the time of any schedule."),
    Listed("explain", "Check", "Explain why a sketch has no schedule, or none by a target time."),
    Listed("baseline", "Look", "Show what NCCL or RCCL picks, and the time that NCCL expects."),
    Listed("simulate", "Look", "Predict how long a file takes, at several sizes."),
    Listed("show", "Look", "Show what a file does: text, timeline, web page or trace."),
    Listed("repair", "Jobs", "Make a schedule valid for a machine whose links slowed or died."),
    Listed("order", "Jobs", "Find the order of hosts in which a plan is fastest."),
    Listed("stall", "Jobs", "Predict how long a training step waits for its collectives."),
    Listed("rank-placements", "Jobs", "Rank allocations of GPUs by the step time of a job."),
    Listed("testbed", "Machines", "Build a machine out of shaped links here, and run ranks in it."),
    Listed("topology", "Machines", "List, show, check, import and calibrate machines."),
    Listed("sketch", "Machines", "List, show, check and start communication sketches."),
    Listed("probe", "Machines", "Write small programs whose run times calibrate a machine."),
    Listed("cache", "Machines", "List or clear the answers that `explore` keeps."),
    Listed("compile", "Machines", "Compile the loops of engines and files, once after installing."),
)
_NAMES = tuple(command.name for command in COMMANDS)


class _Taccl(click.Group):
    """The commands, and the errors of each as a line on standard error and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _NAMES:
            return None
        module = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"taccl.cli.{module}"), module)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_commands(formatter, COMMANDS)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with in_one_line():  # --help and --version are reported here
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with in_one_line(), terminated_as_interrupted():
            return super().invoke(ctx)


@click.group(cls=_Taccl, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="taccl", message="%(prog)s %(version)s")
def main() -> None:
    """Synthesize fast, proven and verified collective algorithms for GPU machines."""

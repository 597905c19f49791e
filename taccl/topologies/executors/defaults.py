"""Looking up what executing costs by default on a machine, by the model of its GPUs and a runtime."""

from __future__ import annotations

from dataclasses import replace

from taccl.errors import TopologyError
from taccl.model.executor import RUNTIME_NAMES, Executor, RuntimeName
from taccl.support.arguments import word
from taccl.topologies.executors.numbers import Defaults
from taccl.topologies.executors.tuning import EVERY
from taccl.topologies.model import PhysicalTopology


def every_default(gpu: str | None) -> tuple[Defaults, ...]:
    """The rows of the table for a model of GPU, one for each runtime that there are defaults for."""
    return tuple(each for each in EVERY if gpu in each.gpus)


def defaults_of(gpu: str, runtime: RuntimeName) -> Defaults | None:
    """The row of the table for a model of GPU and a runtime; None: there is none.

    Raises
    ------
    TopologyError : an unknown runtime.
    """
    word(runtime, "runtime", RUNTIME_NAMES, TopologyError)
    return next((each for each in EVERY if gpu in each.gpus and each.runtime == runtime), None)


def default_executor(gpu: str, runtime: RuntimeName) -> Executor | None:
    """What executing costs on such GPUs, as far as it is known without measuring the machine; None: unknown.

    Raises
    ------
    TopologyError : an unknown runtime.
    """
    row = defaults_of(gpu, runtime)
    return None if row is None else row.executor(gpu)


def as_executed(
    machine: PhysicalTopology, wanted: bool | None, runtime: RuntimeName | None
) -> PhysicalTopology:
    """The machine with what executing costs there, as far as that is wanted and known.

    Here it is decided for all commands and functions: a machine's own numbers come first, then the defaults
    of its GPUs for the runtime, and where neither is known links alone count.

    Parameters
    ----------
    wanted : False: nothing, so that links alone count, as published comparisons have it. True: it is an error
        where nothing is known.
    runtime : who executes; None: nobody whose costs are known.

    Raises
    ------
    TopologyError : it is wanted, and nothing is known of the machine or its GPUs.
    """
    if wanted is False:
        return machine if machine.executor is None else replace(machine, executor=None)
    if machine.executor is not None:
        return machine
    executor = None if machine.gpu is None or runtime is None else default_executor(machine.gpu, runtime)
    if executor is None and wanted:
        raise _unknown(machine, runtime)
    return machine if executor is None else replace(machine, executor=executor)


def _unknown(machine: PhysicalTopology, runtime: RuntimeName | None) -> TopologyError:
    models = ", ".join(dict.fromkeys(gpu for each in EVERY for gpu in each.gpus))
    what = "names no model of its GPUs" if machine.gpu is None else f"has {machine.gpu}s"
    by = "these files" if runtime is None else runtime
    return TopologyError(
        f"{machine.name} {what}, so what executing costs with {by} has no defaults",
        hint=f"a section executor: in its file, or --no-executor; there are defaults for {models}",
    )

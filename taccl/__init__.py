"""Synthesize fast, proven and verified collective algorithms for GPU machines.

from taccl import synthesize

result = synthesize("allgather", sketch="ndv2-sk-1", size="16MB")
print(result.summary())
result.write("ag.xml")
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taccl.api import make_problem, synthesize
    from taccl.backend.verify import verify_file
    from taccl.backend.verify_plan import verify_plan_file
    from taccl.collective import Collective
    from taccl.collectives import make_collective
    from taccl.converted import ConvertedFile, convert_file
    from taccl.deployed import Deployment, deploy
    from taccl.encoding.core.options import SearchOptions
    from taccl.errors import TacclError
    from taccl.explained import Explanation, explain
    from taccl.frontier import Frontier, pareto
    from taccl.machine_check import MachineCheck, check_machine
    from taccl.measured import fit_measured
    from taccl.measured_fit import MeasuredFit
    from taccl.output_options import OutputOptions
    from taccl.problem import Problem
    from taccl.proofs import Bounds, bounds
    from taccl.request import Request
    from taccl.result import Result
    from taccl.schedule import Schedule, read_schedule
    from taccl.schemas import json_schema
    from taccl.simulated import simulate_file
    from taccl.simulated_result import SimulatedFile
    from taccl.sketch import Sketch, load_sketch
    from taccl.stated import StatedProblem
    from taccl.topologies import PhysicalTopology, load_topology

__version__ = version("taccl")

__all__ = [
    "Bounds",
    "Collective",
    "ConvertedFile",
    "Deployment",
    "Explanation",
    "Frontier",
    "MachineCheck",
    "MeasuredFit",
    "OutputOptions",
    "PhysicalTopology",
    "Problem",
    "Request",
    "Result",
    "Schedule",
    "SearchOptions",
    "SimulatedFile",
    "Sketch",
    "StatedProblem",
    "TacclError",
    "bounds",
    "check_machine",
    "convert_file",
    "deploy",
    "explain",
    "fit_measured",
    "json_schema",
    "load_sketch",
    "load_topology",
    "make_collective",
    "make_problem",
    "pareto",
    "read_schedule",
    "simulate_file",
    "synthesize",
    "verify_file",
    "verify_plan_file",
]

_HOME = {
    "Bounds": "proofs",
    "Collective": "collective",
    "ConvertedFile": "converted",
    "Deployment": "deployed",
    "Explanation": "explained",
    "Frontier": "frontier",
    "MachineCheck": "machine_check",
    "MeasuredFit": "measured_fit",
    "OutputOptions": "output_options",
    "PhysicalTopology": "topologies",
    "Problem": "problem",
    "Request": "request",
    "Result": "result",
    "Schedule": "schedule",
    "SearchOptions": "encoding.core.options",
    "SimulatedFile": "simulated_result",
    "Sketch": "sketch",
    "StatedProblem": "stated",
    "TacclError": "errors",
    "bounds": "proofs",
    "check_machine": "machine_check",
    "convert_file": "converted",
    "deploy": "deployed",
    "explain": "explained",
    "fit_measured": "measured",
    "json_schema": "schemas",
    "load_sketch": "sketch",
    "load_topology": "topologies",
    "make_collective": "collectives",
    "make_problem": "api",
    "pareto": "frontier",
    "read_schedule": "schedule",
    "simulate_file": "simulated",
    "synthesize": "api",
    "verify_file": "backend.verify",
    "verify_plan_file": "backend.verify_plan",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `import taccl.errors` loads no solver."""
    if name not in _HOME:
        raise AttributeError(f"module 'taccl' has no attribute {name!r}")
    return getattr(import_module(f"taccl.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    """The public names, used already or not, and what every module has."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})

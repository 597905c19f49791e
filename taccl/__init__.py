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
    from taccl.analysis.bound import Bounds, bounds
    from taccl.analysis.explained import Explanation, explain
    from taccl.analysis.machine_check import MachineCheck, check_machine
    from taccl.analysis.pareto import Frontier, pareto
    from taccl.analysis.simulated import simulate_file
    from taccl.analysis.simulated_result import SimulatedFile
    from taccl.api import make_problem, synthesize
    from taccl.backend.verify import verify_file
    from taccl.backend.verify_plan import verify_plan_file
    from taccl.calibration.fit_result import MeasuredFit
    from taccl.calibration.link_fit import fit_measured
    from taccl.deployment import Deployment, deploy
    from taccl.deployment.converted import ConvertedFile, convert_file
    from taccl.encoding.core.options import SearchOptions
    from taccl.errors import TacclError
    from taccl.model.collective import Collective
    from taccl.model.collectives import make_collective
    from taccl.model.problem import Problem
    from taccl.model.schedule import Schedule, read_schedule
    from taccl.sketch import Sketch, load_sketch
    from taccl.support.schemas import json_schema
    from taccl.synthesis.output_options import OutputOptions
    from taccl.synthesis.request import Request
    from taccl.synthesis.result import Result
    from taccl.synthesis.stated import StatedProblem
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
    "Bounds": "analysis.bound",
    "Collective": "model.collective",
    "ConvertedFile": "deployment.converted",
    "Deployment": "deployment",
    "Explanation": "analysis.explained",
    "Frontier": "analysis.pareto",
    "MachineCheck": "analysis.machine_check",
    "MeasuredFit": "calibration.fit_result",
    "OutputOptions": "synthesis.output_options",
    "PhysicalTopology": "topologies",
    "Problem": "model.problem",
    "Request": "synthesis.request",
    "Result": "synthesis.result",
    "Schedule": "model.schedule",
    "SearchOptions": "encoding.core.options",
    "SimulatedFile": "analysis.simulated_result",
    "Sketch": "sketch",
    "StatedProblem": "synthesis.stated",
    "TacclError": "errors",
    "bounds": "analysis.bound",
    "check_machine": "analysis.machine_check",
    "convert_file": "deployment.converted",
    "deploy": "deployment",
    "explain": "analysis.explained",
    "fit_measured": "calibration.link_fit",
    "json_schema": "support.schemas",
    "load_sketch": "sketch",
    "load_topology": "topologies",
    "make_collective": "model.collectives",
    "make_problem": "api",
    "pareto": "analysis.pareto",
    "read_schedule": "model.schedule",
    "simulate_file": "analysis.simulated",
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

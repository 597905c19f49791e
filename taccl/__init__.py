"""Synthesize fast, proven and verified collective algorithms for GPU machines.

from taccl import synthesize

result = synthesize("allgather", sketch="ndv2-sk-1", size="16MB")
print(result.summary())
result.write("ag.xml")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taccl.analysis.baseline import Baseline as Baseline
    from taccl.analysis.baseline import baseline as baseline
    from taccl.analysis.bound import Bounds as Bounds
    from taccl.analysis.bound import bounds as bounds
    from taccl.analysis.explained import Explanation as Explanation
    from taccl.analysis.explained import explain as explain
    from taccl.analysis.exploration.explore import explore as explore
    from taccl.analysis.exploration.explored import Explored as Explored
    from taccl.analysis.exploration.library_table import library as library
    from taccl.analysis.machine_check import MachineCheck as MachineCheck
    from taccl.analysis.machine_check import check_machine as check_machine
    from taccl.analysis.pareto import Frontier as Frontier
    from taccl.analysis.pareto import pareto as pareto
    from taccl.analysis.several import Several as Several
    from taccl.analysis.several import several as several
    from taccl.analysis.simulated import simulate_file as simulate_file
    from taccl.analysis.simulated_result import SimulatedFile as SimulatedFile
    from taccl.api import make_problem as make_problem
    from taccl.api import synthesize as synthesize
    from taccl.backend.verify.msccl_xml import verify_file as verify_file
    from taccl.backend.verify.mscclpp import verify_plan_file as verify_plan_file
    from taccl.calibration.link_fit import MeasuredFit as MeasuredFit
    from taccl.calibration.link_fit import fit_measured as fit_measured
    from taccl.deployment.bundles.bundle import Bundle as Bundle
    from taccl.deployment.bundles.bundle import bundle as bundle
    from taccl.deployment.bundles.checked import check_bundle as check_bundle
    from taccl.deployment.converted import ConvertedFile as ConvertedFile
    from taccl.deployment.converted import convert_file as convert_file
    from taccl.deployment.deployment import Deployment as Deployment
    from taccl.deployment.deployment import deploy as deploy
    from taccl.encoding.core.options import SearchOptions as SearchOptions
    from taccl.errors import TacclError as TacclError
    from taccl.model.collective import Collective as Collective
    from taccl.model.collectives import make_collective as make_collective
    from taccl.model.problem import Problem as Problem
    from taccl.model.schedule import Schedule as Schedule
    from taccl.model.schedule import read_schedule as read_schedule
    from taccl.sketch import Sketch as Sketch
    from taccl.sketch import load_sketch as load_sketch
    from taccl.support.schemas import json_schema as json_schema
    from taccl.synthesis.formulated import Formulated as Formulated
    from taccl.synthesis.output_options import OutputOptions as OutputOptions
    from taccl.synthesis.request import Request as Request
    from taccl.synthesis.result import Result as Result
    from taccl.synthesis.traffic import TrafficPlan as TrafficPlan
    from taccl.synthesis.traffic import plan_traffic as plan_traffic
    from taccl.topologies import PhysicalTopology as PhysicalTopology
    from taccl.topologies import load_topology as load_topology

    __version__: str

#: The public names, by the module that has them.
_PUBLIC = {
    "analysis.baseline": "Baseline baseline",
    "analysis.bound": "Bounds bounds",
    "analysis.explained": "Explanation explain",
    "analysis.machine_check": "MachineCheck check_machine",
    "analysis.pareto": "Frontier pareto",
    "analysis.several": "Several several",
    "analysis.simulated": "simulate_file",
    "analysis.simulated_result": "SimulatedFile",
    "api": "make_problem synthesize",
    "backend.verify.msccl_xml": "verify_file",
    "backend.verify.mscclpp": "verify_plan_file",
    "deployment.bundles.bundle": "Bundle bundle",
    "deployment.bundles.checked": "check_bundle",
    "calibration.link_fit": "MeasuredFit fit_measured",
    "deployment.deployment": "Deployment deploy",
    "deployment.converted": "ConvertedFile convert_file",
    "encoding.core.options": "SearchOptions",
    "errors": "TacclError",
    "analysis.exploration.explore": "explore",
    "analysis.exploration.explored": "Explored",
    "analysis.exploration.library_table": "library",
    "model.collective": "Collective",
    "model.collectives": "make_collective",
    "model.problem": "Problem",
    "model.schedule": "Schedule read_schedule",
    "sketch": "Sketch load_sketch",
    "support.schemas": "json_schema",
    "synthesis.output_options": "OutputOptions",
    "synthesis.request": "Request",
    "synthesis.result": "Result",
    "synthesis.formulated": "Formulated",
    "synthesis.traffic": "TrafficPlan plan_traffic",
    "topologies": "PhysicalTopology load_topology",
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names.split()}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `import taccl.errors` loads no solver."""
    if name == "__version__":
        return import_module("importlib.metadata").version("taccl")
    if name not in _HOME:
        raise AttributeError(f"module 'taccl' has no attribute {name!r}")
    return getattr(import_module(f"taccl.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    """The public names, used already or not, and what every module has."""
    return sorted({*__all__, "__version__", *(name for name in globals() if name.startswith("__"))})

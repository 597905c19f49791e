"""How long a plan takes on a machine: an event simulation of one call."""

from taccl.backend.simulate_plan.simulator import PlanSimulation, simulate_plan
from taccl.backend.simulate_plan.work import moves_only_packets

__all__ = ["PlanSimulation", "moves_only_packets", "simulate_plan"]

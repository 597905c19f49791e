"""How long a plan takes on a machine: an event simulation of one call."""

from taccl.backend.simulate_plan.simulator import PlanSimulation, simulate_plan

__all__ = ["PlanSimulation", "simulate_plan"]

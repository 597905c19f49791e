"""How long a program takes on a machine, under the cost model."""

from taccl.backend.simulate.simulation import Simulation
from taccl.backend.simulate.simulator import simulate_program

__all__ = ["Simulation", "simulate_program"]

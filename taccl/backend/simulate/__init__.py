"""How long one call takes on a machine, under the cost model or as its executor runs it.

There are three event loops, for three models of a link. `links` is the cost model that schedules are made
for: a port serves one send at a time, of several the most urgent, so the loop keeps queues of sends before
ports and lets nobody in before a moment is over. `executor` is what GPUs do with a program: blocks move
slices through a few slots, links are shared equally, and a block or a link has one next event at most, which
makes the compiled loop fast enough to fit costs with it. In `plan` there are neither slots nor receivers:
blocks and proxies wait for counters and packets, and several transfers of a block go on at once. What they
have in common stands here: what a simulation says (`simulated`) and what may be said of it (`settings`).
"""

from taccl.backend.simulate.links.simulation import Simulation
from taccl.backend.simulate.links.simulator import simulate_program
from taccl.backend.simulate.plan.simulator import PlanSimulation, simulate_plan
from taccl.backend.simulate.plan.work import moves_only_packets

__all__ = ["PlanSimulation", "Simulation", "moves_only_packets", "simulate_plan", "simulate_program"]

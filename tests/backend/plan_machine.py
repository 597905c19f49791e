"""Runs the steps of a plan in random orders that a GPU could choose, thousands of times in a second.

Agents are the threads of all blocks, the ports and the hosts; every write is visible at once. Hosts wait for
nothing but their own blocks, save that a port that is still to read a user's buffer gets what is there
before the host rewrites it (the verifier only warns of those). Orders are unfair on purpose: some agents are
slow all the time, some freeze at one step until nobody else can go on. Between two calls a host's buffers are
its own: whoever writes there then is wrong, whatever comes of it.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from plan_agents import (
    GOES_ON,
    HANGS,
    RIGHT,
    WAITS,
    alongside,
    begin_again,
    host_acts,
    port_acts,
    state_of,
    thread_acts,
)
from plan_steps import PUSH, PUSH_SIGNAL, Steps, steps_of

from taccl.backend.plan import ExecutionPlan

CALLS = 3
_WORDS = ("right", "wrong", "hangs")


@dataclass(frozen=True)
class Machine:
    """A plan at one size of call, with inputs drawn at random, and what its outputs must hold.

    Parameters
    ----------
    given : shape (calls, words of all inputs).
    wanted : shape (alternatives, calls, words of all outputs); of a broadcast one for each root.
    most_pushes : into one port in all calls.
    """

    steps: Steps
    given: np.ndarray
    wanted: np.ndarray
    most_pushes: int

    @staticmethod
    def of(plan: ExecutionPlan, units: int, calls: int = CALLS) -> "Machine":
        """Raises `CannotRun` where the runtime would refuse the plan or touch memory that is not meant."""
        steps = steps_of(plan, units)
        dice = np.random.default_rng(7)
        ranks = plan.num_ranks
        given = dice.integers(-(2**60), 2**60, (calls, ranks, int(steps.inputs[0, 1])))
        wanted = np.array([_wanted(plan, given, root) for root in _roots(plan)])
        pushes = np.zeros(max(1, len(steps.port_rank)), dtype=np.int64)
        rows = steps.steps[(steps.steps[:, 0] == PUSH) | (steps.steps[:, 0] == PUSH_SIGNAL)]
        np.add.at(pushes, rows[:, 1], 1)
        return Machine(steps, given.reshape(calls, -1), wanted, int(pushes.max()) * calls)

    def runs(self, number: int, seed: int, run=None) -> tuple[str, int]:
        """The first outcome of this many runs that is not right, and which run that was; else `right`, -1."""
        state = state_of(self.steps, self.given, self.wanted, max(1, self.most_pushes))
        outcome, which = (run or run_many)(self.steps, state, Orders.of(self.steps), number, seed)
        return _WORDS[outcome], which


def _roots(plan: ExecutionPlan) -> range:
    return range(plan.num_ranks if plan.collective == "broadcast" else 1)


def _wanted(plan: ExecutionPlan, given: np.ndarray, root: int) -> np.ndarray:
    """What all outputs hold after each call, rank by rank."""
    calls, ranks, _ = given.shape
    name = plan.collective
    if name == "allreduce":
        rows = [given.sum(axis=1)] * ranks
    elif name == "reducescatter":
        rows = list(given.sum(axis=1).reshape(calls, ranks, -1).transpose(1, 0, 2))
    elif name == "allgather":
        rows = [given.reshape(calls, -1)] * ranks
    elif name == "alltoall":
        rows = list(given.reshape(calls, ranks, ranks, -1).transpose(2, 0, 1, 3).reshape(ranks, calls, -1))
    elif name == "broadcast":
        rows = [given[:, root]] * ranks
    elif name == "sendrecv":
        rows = [given[:, (r - 1) % ranks] for r in range(ranks)]
    else:
        raise ValueError(f"nothing is known of {name}")
    return np.concatenate(rows, axis=1)


class Orders(NamedTuple):
    """Whose turn it is, by agent: hosts, then ports, then threads.

    Parameters
    ----------
    pace : how readily it goes on, from 0 to 1. stops : after this many acts it freezes. acted : how many it
        did. asleep : `wakes` when it last had to wait; until that has changed, it has to wait still.
    ready : room for a list of agents.
    of_rank, of_block : how readily all agents of a rank, and of a block, go on.
    """

    pace: np.ndarray
    stops: np.ndarray
    acted: np.ndarray
    asleep: np.ndarray
    ready: np.ndarray
    of_rank: np.ndarray
    of_block: np.ndarray

    @staticmethod
    def of(fixed: Steps) -> "Orders":
        """None drawn yet."""
        ranks, blocks = len(fixed.inputs), len(fixed.block_rank)
        agents = ranks + len(fixed.port_rank) + len(fixed.starts) - 1
        stops, acted, asleep, ready = (np.zeros(agents, dtype=np.int64) for _ in range(4))
        return Orders(np.ones(agents), stops, acted, asleep, ready, np.ones(ranks), np.ones(blocks))


#: It freezes never.
_NEVER = 2**60
#: How often some agent is drawn before all that may go on are looked through.
_DRAWS = 8


@njit(_nrt=False)  # not kept on disk, where it would not be made anew when the agents change
def run_many(fixed, state, orders, number, seed):
    """Some runs, until one is not right: its outcome, and which it was."""
    np.random.seed(seed)
    for run in range(number):
        begin_again(fixed, state)
        _draw_paces(fixed, orders)
        _draw_frosts(fixed, state, orders)
        outcome = GOES_ON
        while outcome == GOES_ON:
            agent = _whose_turn(orders, state.wakes[0])
            outcome = HANGS if agent < 0 else _act(fixed, state, orders, agent)
        if outcome != RIGHT:
            return outcome, run
    return RIGHT, -1


@alongside
def _draw_paces(fixed, orders):
    """How unfair this order is: slow ranks, blocks and agents; all at paces of their own; or all
    equivalent."""
    ranks, ports, blocks = len(fixed.inputs), len(fixed.port_rank), len(fixed.block_rank)
    kind = np.random.randint(0, 5)
    of_rank, of_block = orders.of_rank, orders.of_block
    for rank in range(ranks):
        of_rank[rank] = _slow_or_not(kind)
    for block in range(blocks):
        of_block[block] = of_rank[fixed.block_rank[block]] * _slow_or_not(kind)
    for agent in range(len(orders.pace)):
        if agent < ranks:
            pace = of_rank[agent]
        elif agent < ranks + ports:
            pace = of_rank[fixed.port_rank[agent - ranks]]
        else:
            pace = of_block[fixed.block[agent - ranks - ports]]
        pace *= _slow_or_not(kind)
        orders.pace[agent] = 10.0 ** (-6.0 * np.random.random()) if kind == 3 else pace


@alongside
def _slow_or_not(kind):
    return 0.03 if kind < 3 and np.random.random() < 0.25 else 1.0


@alongside
def _draw_frosts(fixed, state, orders):
    """After how many acts some agents freeze, until nobody else can go on."""
    ranks, ports, calls = len(fixed.inputs), len(fixed.port_rank), len(state.given)
    orders.acted[:] = 0
    orders.asleep[:] = -1
    orders.stops[:] = _NEVER
    for _ in range(np.random.randint(0, 4)):
        agent = np.random.randint(0, len(orders.stops))
        if agent < ranks:
            acts = 2 * calls
        elif agent < ranks + ports:
            acts = 4 * state.queue.shape[1] + 1
        else:
            thread = agent - ranks - ports
            acts = calls * (fixed.starts[thread + 1] - fixed.starts[thread]) + 1
        orders.stops[agent] = np.random.randint(0, acts)


@alongside
def _whose_turn(orders, wakes):
    """An agent that may go on: the slow ones seldom, the frozen ones only if nobody else can; -1: none."""
    agents = len(orders.pace)
    for _ in range(_DRAWS):
        agent = np.random.randint(0, agents)
        is_ready = orders.asleep[agent] != wakes and orders.acted[agent] < orders.stops[agent]
        if is_ready and np.random.random() < orders.pace[agent]:
            return agent
    total, found = 0.0, 0
    for agent in range(agents):
        if orders.asleep[agent] != wakes:
            orders.ready[found] = agent
            found += 1
            total += _weight(orders, agent)
    if found == 0:
        return -1
    drawn = np.random.random() * total
    for k in range(found):
        drawn -= _weight(orders, orders.ready[k])
        if drawn <= 0.0:
            return orders.ready[k]
    return orders.ready[found - 1]


@alongside
def _weight(orders, agent):
    is_frozen = orders.acted[agent] >= orders.stops[agent]
    return orders.pace[agent] * (1e-9 if is_frozen else 1.0)


@alongside
def _act(fixed, state, orders, agent):
    """An agent acts, once or several times in a row, until it has to wait or freezes."""
    ranks, ports = len(fixed.inputs), len(fixed.port_rank)
    burst = 1
    dice = np.random.randint(0, 4)
    if dice == 2:
        burst = 5
    elif dice == 3:
        burst = 50
    for _ in range(burst):
        if agent < ranks:
            outcome = host_acts(fixed, state, agent)
        elif agent < ranks + ports:
            outcome = port_acts(fixed, state, agent - ranks)
        else:
            outcome = thread_acts(fixed, state, agent - ranks - ports)
        if outcome == WAITS:
            orders.asleep[agent] = state.wakes[0]
            return GOES_ON
        if outcome != GOES_ON:
            return outcome
        orders.acted[agent] += 1
        if orders.acted[agent] > orders.stops[agent]:
            orders.stops[agent] = _NEVER  # its frost is over
        elif orders.acted[agent] == orders.stops[agent]:
            return GOES_ON
    return GOES_ON

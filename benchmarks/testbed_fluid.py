"""How long rounds take where what meets on a link shares it equally, as TCP does.

`taccl lower --rounds` serves a port one message at a time, and a message takes all of its ports from one
moment on; so what waits for a busy uplink keeps the NIC before it from others. Here all messages that are
posted go on at once, at max-min fair rates.
"""

from __future__ import annotations

import numpy as np

from taccl.backend.rounds.rounds import Rounds
from taccl.model.network import LogicalTopology

#: Messages that end within this part of each other's time end together, so that there are fewer steps.
_TOGETHER = 1e-3


def time_shared(
    rounds: Rounds, network: LogicalTopology, alphas_us: np.ndarray, chunk_mb: float, launch_us: float
) -> float:
    """The time of a call, us. A message is there the link's alpha after its last byte has left."""
    link_of = {pair: k for k, pair in enumerate(zip(network.src.tolist(), network.dst.tolist(), strict=True))}
    first, ports = network.first_pair.tolist(), network.incidence[1].tolist()
    port_beta = network.pair_betas.tolist()
    messages = []
    for number, each in enumerate(rounds.rounds):
        for message in each.messages:
            link = link_of[message.source, message.target]
            uses = {ports[pair]: port_beta[pair] for pair in range(first[link], first[link + 1])}
            messages.append((number, message.source, message.target, uses, message.count * chunk_mb, link))
    remaining: list[list[set[int]]] = [[set() for _ in rounds.rounds] for _ in range(rounds.num_ranks)]
    for k, (number, source, target, *_) in enumerate(messages):
        remaining[source][number].add(k)
        remaining[target][number].add(k)
    takes = np.zeros((network.num_ports, len(messages)))
    for k, message in enumerate(messages):
        for port, beta in message[3].items():
            takes[port, k] = beta
    left = np.array([message[4] for message in messages])
    at, posted = [-1] * rounds.num_ranks, [0.0] * rounds.num_ranks
    now, starts, active, arriving = 0.0, dict[int, float](), list[int](), dict[int, float]()

    def advance(rank: int, time_us: float) -> None:
        """Post the next round in which a rank has messages."""
        while at[rank] + 1 < len(rounds.rounds):
            at[rank] += 1
            if remaining[rank][at[rank]]:
                posted[rank] = time_us + launch_us
                for k in remaining[rank][at[rank]]:
                    number, source, target = messages[k][:3]
                    if at[source] == at[target] == number:
                        starts[k] = max(posted[source], posted[target])
                return

    for rank in range(rounds.num_ranks):
        advance(rank, 0.0)
    while starts or active or arriving:
        for k in [k for k, begin in starts.items() if begin <= now]:
            del starts[k]
            active.append(k)
        rates = _rates(takes[:, active]) if active else np.zeros(0)
        ends = left[active] / rates if active else np.zeros(0)
        until = min([*starts.values(), *arriving.values(), *(now + ends)])
        step = (
            max(0.0, until - now) * (1 + _TOGETHER) if active and until == now + ends.min() else until - now
        )
        left[active] -= rates * step
        now = max(now, now + step)
        for k in [k for k in active if left[k] <= 1e-9]:
            active.remove(k)
            arriving[k] = now + float(alphas_us[messages[k][5]])
        for k in [k for k, end in arriving.items() if end <= now]:
            del arriving[k]
            number, *ends_of = messages[k][:3]
            for rank in ends_of:
                remaining[rank][number].discard(k)
                if at[rank] == number and not remaining[rank][number]:
                    advance(rank, now)
    return now


def _rates(takes: np.ndarray) -> np.ndarray:
    """MB per us of flows: shares grow alike until a port is full (us per MB by port and flow)."""
    rates = np.zeros(takes.shape[1])
    room, open_ = np.ones(len(takes)), np.ones(takes.shape[1], dtype=bool)
    while open_.any():
        load = takes[:, open_].sum(axis=1)
        full = np.divide(room, load, out=np.full(len(room), np.inf), where=load > 0)
        grows = full.min()
        rates[open_] += grows
        room = room - grows * load
        open_ &= ~(takes[full <= grows * (1 + 1e-9)] > 0).any(axis=0)
    return rates

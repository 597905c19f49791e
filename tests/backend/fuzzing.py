"""Random programs that must be right, and what comes of running a program in many random orders."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from programs import block, program, step
from strategies import random_network

from taccl.backend.execute import execute
from taccl.backend.execute.two_sided.call import PIECE_BYTES
from taccl.backend.lower import lower
from taccl.backend.program import Protocol
from taccl.encoding.core.options import SearchOptions
from taccl.errors import VerificationError
from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.model.problem import Problem
from taccl.synthesis.search import search

#: W of RCCL where it is smaller than that of the others, bytes.
_RCCL_PIECE_BYTES = {Protocol.LL: 16 * 2**10, Protocol.LL128: 50_176}
_MAX_COUNT = 71
_ITEM = 8


def no_free_link(network):
    """The network with an alpha for links that would cost nothing at all."""
    return replace(network, alpha_us=np.where(network.beta_us_per_mb > 0, network.alpha_us, 1.0))


def random_programs(dice):
    """(schedule, lowered programs) of a random collective on a random network, found by the greedy engine."""
    ranks = dice.randint(2, 5)
    name = dice.choice(COLLECTIVES)
    pieces = dice.randint(1, 2 if name == "alltoall" else 3)
    root = dice.randrange(ranks) if name in ("broadcast", "reduce", "gather", "scatter") else None
    collective = make_collective(name, ranks, pieces, root)
    network = no_free_link(random_network(ranks, dice))
    problem = Problem(network, collective, chunk_mb=dice.choice((0.001, 0.25, 4.0)))
    found = search(problem, SearchOptions(engine="greedy", time_limit_s=10.0, gap=0.5))
    targets = ["all", "executor", "rccl"] + ([] if name in ("gather", "scatter") else ["msccl"])
    lowered = lower(
        found.schedule,
        protocol=dice.choice(list(Protocol)),
        runtimes=dice.choice(targets),
        instances=dice.choice((1, 1, 2)),
    )
    return found.schedule, lowered


def random_train(dice):
    """A broadcast over a ring, right or wrong by luck: groups travel in fused steps and come back.

    Rank 0 copies them to its scratch and sends them from there; they go through all others, by rcs or by
    r and s, and return to another block of rank 0, which writes them nearby, after some wait or none.
    """
    ranks, groups = dice.choice((3, 3, 4)), dice.choice((1, 1, 2))
    count = dice.randint(1, 3)
    whole = count * groups
    leaves, lands = (dice.randint(0, whole + 1) for _ in range(2))
    copy = step("cpy", "i0", f"s{leaves}", whole, tells=True)
    at = range(0, whole, count)
    sends = [step("s", f"s{leaves + k}", count=count, tells=True) for k in at]
    takes = [step("r", f"s{lands + k}", count=count) for k in at]
    waits = [(0, 0), (0, 0), (0, dice.randint(0, groups)), None]
    takes[0] = replace(takes[0], depends=dice.choice(waits))
    back = step("cpy", f"s{lands}", "o0", whole)
    blocks = [(block(0, 1, -1, copy, *sends), block(1, -1, ranks - 1, *takes, back))]
    for rank in range(1, ranks):
        passing = []
        for k in at:
            apart = dice.random() < 0.2
            kinds = ("r", "s") if apart else ("rcs",)
            passing += [step(kind, f"o{k}", count=count) for kind in kinds]
        blocks.append((block(0, (rank + 1) % ranks, rank - 1, *passing),))
    protocol = dice.choice(list(Protocol))
    return program("broadcast", whole, *blocks, scratch=2 * whole + 2, protocol=protocol, max_bytes=2**26)


def run(program, in_place, seed, readers=("msccl",), root=None):
    """ "right", "wrong" or "hangs", cut into as many pieces as the largest call that the program serves."""
    chunk_bytes, piece_bytes = _cut(program, readers)
    chunks = program.chunks_per_loop
    if program.collective in ("gather", "scatter"):
        chunks *= program.num_ranks
    try:
        return execute(
            program,
            in_place=in_place,
            size_bytes=chunks * chunk_bytes,
            piece_bytes=piece_bytes,
            dtype="int64",
            root=root,
            ranks_as="turns",
            seed=seed,
        ).verdict
    except VerificationError:
        return "wrong"


def _cut(program, readers):
    """Bytes of a chunk and of a piece that cut a small call as the largest allowed one would be."""
    most = PIECE_BYTES[program.protocol]
    if "rccl" in readers:
        most = min(most, _RCCL_PIECE_BYTES.get(program.protocol, most))
    largest = program.max_bytes - (tuple(readers) == ("msccl",))
    chunk = -(-largest // program.chunks_per_loop)
    if chunk > most:
        return 2 * _ITEM, _ITEM  # two iterations
    if program.protocol is Protocol.SIMPLE and program.collective in ("broadcast", "reduce"):
        most = max(chunk, most // 4)
    return _ITEM, _ITEM * min(_MAX_COUNT, most // chunk)


def modes_of(program, readers):
    """Whether each call that a runtime gives to the program is in place: msccl looks at `inplace` alone."""
    modes = set()
    if "msccl" in readers and not (program.in_place and program.collective == "alltoall"):
        modes.add(program.in_place)
    if set(readers) & {"executor", "rccl"}:
        modes |= {
            mode for mode, claims in ((True, program.in_place), (False, program.out_of_place)) if claims
        }
    return sorted(modes)


def outcomes(program, runs, seed=0, readers=("msccl",), root=None):
    """The outcomes that occur in some random orders, in every mode in which these readers call it."""
    modes = modes_of(program, readers)
    seen = set()
    for number in range(runs):
        seen |= {run(program, mode, seed + number, readers, root) for mode in modes}
        if seen & {"wrong", "hangs"}:
            break
    return seen

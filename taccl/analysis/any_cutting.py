"""Lower bounds that hold for any algorithm, however finely it cuts the size."""

from __future__ import annotations

import time
from collections.abc import Sequence

from taccl.analysis.machine_check import SHARE_OF_PATHS, network_in_time
from taccl.encoding.bounds import Proof, known_bounds, proofs
from taccl.encoding.instance import Instance
from taccl.errors import TacclError
from taccl.model import units
from taccl.model.collective import Collective
from taccl.model.collectives import chunk_bytes, make_collective
from taccl.sketch import SketchedNetwork
from taccl.support.budget import Budget
from taccl.topologies import PhysicalTopology
from taccl.topologies.without import as_used_by


def any_cutting_bounds(
    machine: PhysicalTopology, collective: str, sizes: Sequence[int], budget: Budget
) -> list[Proof | None]:
    """For each size the largest bound; None where none is, or none was found within the budget.

    Two kinds hold for any cutting: bounds that say so of themselves, and all bounds for parts of one byte.
    Every schedule of larger parts delivers one byte of each part, too, over the same hops and no faster.
    """
    try:
        made = make_collective(collective, machine.num_members, 1, None)
    except TacclError:  # more chunks than can be built
        return [None] * len(sizes)
    machine = as_used_by(machine, made)
    network = network_in_time(machine, time.monotonic() + SHARE_OF_PATHS * budget.remaining_s())
    if network is None:
        return [None] * len(sizes)
    made = made.with_helpers(machine.num_helpers)
    found = [_largest(network, made, size, budget) for size in sizes]
    if not any(size >= made.chunks_per_size for size in sizes):
        return found
    latency = max(
        _proved(network, made, 1, budget, any_chunks=False), key=lambda proof: proof.value_us, default=None
    )
    proved: list[Proof | None] = []
    for done, (size, proof) in enumerate(zip(sizes, found, strict=True)):
        share = Budget(max(0.0, budget.remaining_s()) / (len(sizes) - done))
        slower = _largest(network, made, size, share, quick=False)
        best = _larger(_larger(proof, slower), latency)
        proved.append(best if size >= made.chunks_per_size else None)
    return proved


def _largest(
    network: SketchedNetwork, made: Collective, size: int, budget: Budget, *, quick: bool = True
) -> Proof | None:
    """The largest bound that says of itself that it holds for any cutting."""
    if size < made.chunks_per_size:  # not a byte for each part
        return None
    proved = _proved(
        network, made, chunk_bytes(made.chunks_per_size, size), budget, any_chunks=True, quick=quick
    )
    return max(
        (proof for proof in proved if proof.holds_for_any_chunks),
        key=lambda proof: proof.value_us,
        default=None,
    )


def _larger(one: Proof | None, other: Proof | None) -> Proof | None:
    proved = [proof for proof in (one, other) if proof is not None and proof.value_us > 0]
    return max(proved, key=lambda proof: proof.value_us, default=None)


def _proved(
    network: SketchedNetwork,
    made: Collective,
    bytes_each: int,
    budget: Budget,
    *,
    any_chunks: bool,
    quick: bool = True,
) -> list[Proof]:
    """What the quick bounds, or the others, prove of equal chunks while time is left."""
    if budget.remaining_s() <= 0:
        return []
    instance = Instance(network.applied(made, bytes_each / units.MB).problem)
    requested = [bound for bound in known_bounds() if bound.is_quick == quick]
    return list(proofs(instance, budget, requested, any_chunks=any_chunks))

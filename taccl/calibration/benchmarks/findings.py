"""From all that was measured to fitted numbers, each with interval, range, points and source."""

from __future__ import annotations

from collections.abc import Mapping

from taccl.calibration.benchmarks.classes import Pair
from taccl.calibration.benchmarks.facts import Measured, Scope
from taccl.calibration.benchmarks.from_matrices import (
    both_directions,
    host_sharing,
    is_for_links,
    matrix_findings,
    median_gbps,
    merged,
    source_of,
)
from taccl.calibration.benchmarks.from_sweeps import (
    better_of,
    contradictions,
    groups_of,
    shared_ports,
    sweep_findings,
)
from taccl.calibration.benchmarks.quantities import Findings, LinkCost, Quantity, Refusal


def findings(
    measured: Measured, *, at_bytes: int | None = None, between: Scope | None = None, seed: int = 0
) -> Findings:
    """Fit everything that was measured.

    Parameters
    ----------
    at_bytes : the size of the messages that will be sent: sweeps are fitted from an eighth of it to eight
        times it. Without it, beta is of the largest sizes and alpha of the smallest.
    between : whom sweeps join whose file does not tell.
    seed : of the bootstrap.
    """
    quantities: list[Quantity] = []
    refusals: list[Refusal] = []
    warnings = list(measured.warnings)
    costs: dict[Scope, LinkCost] = {}
    groups = groups_of(measured.sweeps, between)
    for group in groups:
        warnings += contradictions(group)
        reported, refused, cost = sweep_findings(group, at_bytes, seed)
        quantities += reported
        refusals += refused
        if cost is not None:
            costs[cost.scope] = better_of(costs.get(cost.scope), cost)
    quantities += shared_ports(groups)
    pair_gbps: Mapping[Pair, float] = {}
    pair_source = ""
    for matrix in merged(measured.matrices):
        reported, warned = matrix_findings(matrix)
        quantities += reported
        warnings += warned
        if is_for_links(matrix):
            values = matrix.pairs()
            if values and (not pair_gbps or median_gbps(values) > median_gbps(pair_gbps)):
                pair_gbps, pair_source = values, source_of(matrix)
    quantities += host_sharing(merged(measured.matrices))
    if not pair_gbps:
        quantities += both_directions(merged(measured.matrices))
    if not quantities and not refusals:
        warnings.append("nothing in the output tells the cost of a link")
    return Findings(
        tuple(quantities), tuple(refusals), tuple(costs.values()), pair_gbps, pair_source, tuple(warnings)
    )

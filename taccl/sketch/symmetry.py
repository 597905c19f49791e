"""Symmetries of a sketch: from [offset, group] to permutations of ranks, and the check that they are.

A symmetry must be an automorphism of everything that an engine sees: the network and what the sketch says
of it (`taccl.model.automorphism`), and the collective. An engine then needs one variable for each orbit of
(chunk, link).
"""

from __future__ import annotations

import numpy as np

from taccl.model.automorphism import broken_by
from taccl.model.collective import Collective, IntArray
from taccl.model.network import LogicalTopology
from taccl.model.problem import RoutingLimits
from taccl.sketch.layout import SketchLayout
from taccl.sketch.model import Rotation, Sketch


def rank_map(sketch: Sketch, rotation: Rotation, layout: SketchLayout) -> IntArray:
    """The permutation of a rotation, shape (num_ranks,).

    Raises
    ------
    SketchError : the group does not divide the ranks, or the nodes are not equivalent.
    """
    offset = _number(sketch, rotation, rotation.offset, layout)
    group = _number(sketch, rotation, rotation.group, layout)
    if group < 1 or layout.num_ranks % group:
        raise sketch.error(
            f"symmetry {rotation}: groups of {group} ranks do not divide the {layout.num_ranks} ranks",
            line=rotation.line,
            hint="write `node` for the GPUs of a node and `machine` for all ranks, "
            "and the sketch serves any number of nodes",
        )
    ranks = np.arange(layout.num_ranks)
    return np.asarray((ranks // group) * group + (ranks % group + offset) % group)


def _number(sketch: Sketch, rotation: Rotation, value: int | str, layout: SketchLayout) -> int:
    if isinstance(value, int):
        return value
    if value == "machine":
        return layout.num_ranks
    if layout.gpus_per_node is None:
        raise sketch.error(
            f"symmetry {rotation}: the nodes of this machine differ in size", line=rotation.line
        )
    return layout.gpus_per_node


def check_rotation(
    sketch: Sketch,
    rotation: Rotation,
    ranks: IntArray,
    logical: LogicalTopology,
    limits: RoutingLimits,
) -> None:
    """Raise SketchError, naming the first link that breaks it, unless `ranks` is a symmetry."""
    reason = broken_by(ranks, logical, limits)
    if reason is not None:
        raise sketch.error(
            f"{rotation} is no symmetry of this network: {reason}",
            line=rotation.line,
            hint="leave it out, or make the links it names equal; `taccl explain` names the lines against it",
        )


def keeps_collective(ranks: IntArray, collective: Collective) -> bool:
    """Whether a collective is the same after a permutation of the ranks."""
    return collective.chunk_map(ranks) is not None

"""What a problem may use so that a file of MSCCL-XML can carry it out."""

from __future__ import annotations

from taccl.errors import CollectiveError
from taccl.problem import Feature, Problem

#: What follows an output is nothing that a file does, so it may be there.
FEATURES: frozenset[Feature] = frozenset({"reductions", "tails"})
REASONS: dict[str, str] = {
    "helpers": "its ranks all hold data, sum and copy",
    "sizes": "its chunks are all of one size",
    "ready_times": "it takes all inputs to be there when the call begins",
}


def check_features(problem: Problem) -> None:
    """Raise CollectiveError for a problem that uses more than a file can carry out."""
    for feature in sorted(problem.features - FEATURES):
        words = feature.replace("_", " ")
        raise CollectiveError(
            f"a file of MSCCL-XML knows no {words}: {REASONS[feature]}",
            hint="--no-xml keeps the schedule",
        )

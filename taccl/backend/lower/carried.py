"""What a problem may use so that a file can carry it out."""

from __future__ import annotations

from taccl.model.problem import Feature

#: What follows an output is nothing that a file does, so it may be there.
FEATURES: frozenset[Feature] = frozenset({"reductions", "sizes", "tails"})
REASONS: dict[Feature, str] = {
    "helpers": "its ranks all hold data, sum and copy, and nothing does it for them",
    "ready_times": "it takes all inputs to be there when the call begins",
    "sum_work": "its sums are copied on as they are, and what is done with them is a kernel of one's own",
}

#: The same of MSCCL-XML.
XML_FEATURES = FEATURES - {"sizes"}
XML_REASONS: dict[Feature, str] = {**REASONS, "sizes": "its chunks are all of one size"}

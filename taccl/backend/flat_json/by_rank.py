"""The flat JSON of a template, rank by rank: no more than one rank is there at any moment."""

from __future__ import annotations

import math
from collections.abc import Iterator

from taccl.backend.flat_json.document import ActionsProgram
from taccl.backend.flat_json.of_rank import actions_of_rank
from taccl.backend.flat_json.writer import lines_of_actions
from taccl.backend.lower.sizes import sizes_of
from taccl.backend.target import LoweringOptions
from taccl.model.template import Template
from taccl.model.units import MB


def text_of_ranks(template: Template, options: LoweringOptions, ranks: range | None = None) -> Iterator[str]:
    """The pieces of a file of these ranks, one or more for each; None: of all.

    Of some ranks it is a file of its own format, which says which; of all it is one like any other.

    Raises
    ------
    CollectiveError : a rank that there is not.
    UnitError : no size lies between those requested.
    """
    problem = template.part.problem
    sizes = sizes_of(problem.collective, problem.size_bytes, options.min_bytes, options.max_bytes)
    chunks = template.num_ranks * problem.collective.chunks_per_rank
    header = ActionsProgram(
        name=options.name,
        collective=template.collective,
        root=None,
        chunk_elements=(1,) * chunks,
        sums=(problem.collective.is_reduction,) * chunks,
        call_elements=chunks,
        element_bytes=max(1, math.ceil(problem.chunk_mb * MB)),
        min_bytes=sizes.min_bytes,
        max_bytes=sizes.max_bytes,
        ranks=(),
    )
    every = range(template.num_ranks) if ranks is None else ranks
    only = None if ranks is None else (ranks.start, template.num_ranks)
    return lines_of_actions(header, (actions_of_rank(template, rank) for rank in every), only)

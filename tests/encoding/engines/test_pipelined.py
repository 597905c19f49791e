"""What engines of one pipeline share: who may use which link, and whether there is time to compile loops."""

from __future__ import annotations

import numpy as np
from engine_runs import assert_waits_for_no_compiler
from small_problems import problem, ring

from taccl.encoding.engines.pipelined import asks_quotient, kinds_of, note_of_compiling
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem, RoutingLimits
from taccl.support.budget import Budget


def test_without_rules_all_chunks_are_of_one_kind() -> None:
    usable, kind = kinds_of(problem(ring(3), "allgather", 2))
    assert usable.tolist() == [[True] * 3]
    assert kind.tolist() == [0] * 6


def test_chunks_of_ranks_that_may_use_the_same_links_are_of_one_kind() -> None:
    requested = problem(ring(3), "allgather", 2)
    may_use = np.array([[True, True, True], [True, False, True], [True, True, True]])
    limited = Problem(
        requested.topology, requested.collective, requested.chunk_mb, limits=RoutingLimits(may_use=may_use)
    )
    usable, kind = kinds_of(limited)
    assert len(usable) == 2
    assert usable[kind].tolist() == may_use[requested.collective.owner].tolist()


def test_loops_are_compiled_where_there_is_time_or_nobody_looks_at_the_clock() -> None:
    def nothing_is_there() -> bool:
        return False

    late = note_of_compiling("paths", "paths", Budget(1.0), nothing_is_there)
    assert late is not None
    assert_waits_for_no_compiler([late])
    assert note_of_compiling("paths", "paths", Budget(60.0), nothing_is_there) is None
    assert note_of_compiling("paths", "paths", Budget.of_work(1), nothing_is_there) is None
    assert note_of_compiling("paths", "paths", Budget(1.0), lambda: True) is None


def test_the_quotient_is_looked_for_where_there_is_time() -> None:
    instance = Instance(problem(ring(3), "allgather"))
    assert asks_quotient(instance, Budget(60.0))
    assert not asks_quotient(instance, Budget(0.0))

"""Making machine code of the engines' loops ahead of time, so that no search has to wait for it.

It knows which engines have loops, and a problem small enough to run each on; what the loops compute it must
not know.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from taccl.api import make_problem
from taccl.encoding.core.budget import Budget
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.registry import ENGINES
from taccl.encoding.instance import Instance

#: An engine of trees serves the first, one of paths the second.
_COLLECTIVES = ("allreduce", "alltoall")
#: Units of work: enough for a first schedule.
_WORK = 50


def compile_engines() -> Iterator[tuple[str, bool]]:
    """Compile the loops of each engine that has any, once on a computer.

    Yields the engine's name, and whether its loops were machine code already. Compiling takes some ten
    seconds for an engine; what was compiled is kept beside the package, or where `NUMBA_CACHE_DIR` says.
    """
    problems = [
        make_problem(each, topology="mesh:2x2", size="1MB", chunks=2).problem for each in _COLLECTIVES
    ]
    for engine in ENGINES:
        if engine.is_compiled is None:
            continue
        was_there = engine.is_compiled()
        served = next((each for each in problems if engine.can(Instance(each))), None)
        if not was_there and served is not None:
            deque(engine.run(Instance(served), SearchOptions(), Budget.of_work(_WORK), None), maxlen=0)
        yield engine.name, was_there

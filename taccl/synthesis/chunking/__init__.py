"""How finely to cut: a search for the number of chunks, by successive halving.

Finer chunks fill a pipeline better and pay more alphas, so large sizes gain and small ones lose; which
number is best, no formula says. So each number gets a short trial, the best few a longer one, and the rest
of the time is for one, as in the successive halving of Jamieson and Talwalkar (2016). The search for a number
begins with the best schedule of a coarser cut, so cutting finer never makes anything slower. Each number is a
problem of its own with a bound of its own; one whose bound is above a time already found cannot win and is
left alone.
"""

from __future__ import annotations

from taccl.synthesis.chunking.choose import choose_chunks
from taccl.synthesis.chunking.numbers import candidates
from taccl.synthesis.chunking.trials import Choice, ChunksTried

__all__ = ["Choice", "ChunksTried", "candidates", "choose_chunks"]

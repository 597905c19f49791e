"""How a schedule becomes a file where files can be predicted: by predicted time.

A protocol and a number of instances set the costs that engines see, and which schedule is best depends on
these. So a schedule is searched for under the costs of one way to make the file, lowered in every way and
executed; the way that is then predicted fastest is searched for next, until it stays the same.
"""

from __future__ import annotations

from taccl.synthesis.autotune.choose import FileChoice, Searched, choose_file, unpredicted
from taccl.synthesis.autotune.fewer_chunks import chunks_that_fit
from taccl.synthesis.autotune.predictions import FileTried, Predictor
from taccl.synthesis.autotune.ways import Way, ways_to_try

__all__ = [
    "FileChoice",
    "FileTried",
    "Predictor",
    "Searched",
    "Way",
    "choose_file",
    "chunks_that_fit",
    "unpredicted",
    "ways_to_try",
]

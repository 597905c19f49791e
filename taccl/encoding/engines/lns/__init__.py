"""Large neighbourhood search between greedy and proof (Shaw 1998): windows of a schedule, decided anew.

1. The best schedule is *taken apart* into rows: a bundle of chunks in a send, and what it waits for
   (`apart`).
2. A *window* is drawn by lots near what ends last: some rows, or all of some bundles, are open (`choose`).
3. Its *neighbourhood* is all schedules that differ from the known one only there: open rows may go over other
   links and in other sends, all others keep theirs and may move in time (`window`).
4. CP-SAT searches it. `sends` and `moments` are the variables, `rules` and `presence` the constraints;
   `model` has the mathematics, and `solutions` reads what was found. The known schedule is the hint.
5. What is no worse is taken, so the search also walks between schedules that are equally fast, towards fewer
   sends that end last. Windows grow and shrink, and kinds that helped are drawn more often (`engine`).
"""

from taccl.encoding.engines.lns.engine import lns, serves

__all__ = ["lns", "serves"]

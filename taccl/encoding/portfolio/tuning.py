"""Numbers of the portfolio: parts of the time for bounds, and the shortest turn.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

# --- contenders

#: The part of a turn for bounds of a phase, before its engines.
CONTENDERS_BOUNDS = 1 / 8
#: The part of the time that a first schedule takes where it may be improved at once, and at most so long.
#: Of 13 open cells in 8 s of a slow core three are faster so than with 0.02 and 0.1, by 9 to 21%, and ten as
#: fast.
CONTENDERS_OPENING, CONTENDERS_OPENING_S = 0.04, 0.25
#: Who serves a phase is requested before the first round where that is known sooner than this.
CONTENDERS_SOON_S = 0.1

# --- journal

#: Units of work that a turn costs whatever is done in it, so that turns of engines that do nothing end.
JOURNAL_OF_A_TURN = 2.0

# --- rounds

#: The most that an engine that builds its schedules takes of what is left of its round.
ROUNDS_FOR_A_BUILDER = 0.5

# --- solve

#: Parts of the time for bounds: after the first schedule, and after each round for those that there was no
#: time for. Of 44 cells of the plane in 5 s, most of them open, the mean gap is 18.6% with a quarter, 16.8%
#: with 0.4, to the bound for any number of chunks 30.0 and 27.4%; schedules take as long.
SOLVE_BOUNDS, SOLVE_BOUNDS_BETWEEN = 0.4, 1 / 8
#: In place of SOLVE_BOUNDS where the instance was searched before, as engines have had turns on it. Of 36
#: open cells of the plane in 5 s the mean gap is 20.7% with 0.4 and 20.2% with 0.6; schedules take as long.
SOLVE_BOUNDS_AGAIN = 0.6
#: Where work counts, the machine without helpers has all of it, counted apart, and engines that know helpers
#: have this part of it once more.
SOLVE_HELPED = 1 / 2
#: In less time than this an engine only begins, or in less than the first schedule took.
SOLVE_LEAST_TURN_S = 1.0

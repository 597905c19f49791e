"""Numbers of the search for an order.

They were chosen by judgement but where a measurement is named; how near all of them together come to the
best order is measured by benchmarks/orders.py.
"""

#: Up to this many hosts every order is compared: 9! are 362,880, and what is bounded away is not timed.
MOST_EXHAUSTIVE = 9
#: Orders whose loads are computed at once, a table of this many rows: 40,000 take 100 MB at 9 hosts.
ORDERS_AT_ONCE = 40_000
#: Times the sends of a plan: this many ends of sends are computed at once, 160 MB.
SENDS_OF_ORDERS = 20_000_000
#: Permutations that keep amounts and are tried as automorphisms, and those that are used: a ring of 9 has 9.
MOST_CANDIDATES, MOST_AUTOMORPHISMS = 2_000, 32
#: Proposals of one annealing run for each host.
PROPOSALS_PER_HOST = 2_000
#: Temperatures of a run, first and last, as parts of the estimate at its begin.
HOTTEST, COLDEST = 0.05, 1e-4
#: Orders of one round that are timed exactly.
TIMED_PER_ROUND = 3
#: Rounds without a faster order after which a search without a time limit ends.
ROUNDS_IN_VAIN = 8
#: Loads are joined as the norm of this power: the largest counts, and of equal ones those behind it.
POWER_LOG2 = 3
#: Up to this many hosts of a ring CP-SAT proves the least bottleneck and the least sum.
MOST_RING_PROVED = 24
#: Deterministic seconds of CP-SAT for each of the two.
CP_SAT_SECONDS = 10.0
#: Solutions that OR-tools' routing looks at for a first tour; the annealing does the rest.
ROUTING_SOLUTIONS = 200
#: The part of the time left that routing may take: of 512 hosts it takes about 10 s.
FOR_ROUTING = 0.3
#: One unit of work, a nominal millisecond, for this many ports of pairs in annealing, or sends timed.
PORTS_PER_UNIT, SENDS_PER_UNIT = 50_000, 3_000
#: Moves by exact times in each round, for each host; and the most sends that they may time together.
CLIMB_MOVES, CLIMB_SENDS = 40, 1_000_000
#: Insertions and reversals change at most this many positions: longer ones cost more than they find.
LONGEST_MOVE = 24
#: Of the whole, what one missing link adds to an estimate.
MISSING = 4.0
#: A least cut is computed exactly of graphs with this many pairs at most; a ring of 4,000 hosts has as many.
MOST_CUT_EDGES = 4_000
#: The part of the time for what no algorithm beats; and of that, for loads of wires, which come first.
FOR_BOUNDS, OF_WIRES = 0.2, 0.5

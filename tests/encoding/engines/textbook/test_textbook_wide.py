"""Textbook algorithms as columns: the same sends at the same times as one by one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from small_problems import machine, problem, ring, two_nodes
from textbook_machines import switch, torus

from taccl.encoding.core.timing import in_order
from taccl.encoding.engines.textbook.cycles import cycles, snakes
from taccl.encoding.engines.textbook.parts import parts_of
from taccl.encoding.engines.textbook.plans import algorithms
from taccl.encoding.engines.textbook.transfer import decisions, estimate_us
from taccl.encoding.engines.textbook.wide import estimate_wide_us, timed_wide
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology

MACHINES = {"switch": switch(4), "ring": ring(5), "torus": torus(2, 3), "nodes": two_nodes()}


@pytest.mark.parametrize(("collective", "chunks"), [("allreduce", 3), ("allgather", 1), ("broadcast", 2)])
@pytest.mark.parametrize("name", MACHINES)
def test_columns_say_what_sends_one_by_one_say(name: str, collective: str, chunks: int) -> None:
    requested = problem(MACHINES[name], collective, chunks)
    parts = parts_of(Instance(requested))
    assert parts is not None
    wide = [algorithm for algorithm in algorithms(requested, parts) if algorithm.wide is not None]
    assert wide
    for algorithm in wide:
        for batches in range(1, min(algorithm.most_batches(parts), 2) + 1):
            cut, made = algorithm.cut(parts, batches), algorithm.built(parts, batches)
            columns = algorithm.wide(cut) if algorithm.wide is not None else None
            assert (made is None) == (columns is None)
            if made is None or columns is None:
                continue
            sends = decisions(requested, made[1], made[0].chunks)
            schedule = timed_wide(requested, columns, cut)
            assert (sends is None) == (schedule is None)
            if sends is None or schedule is None:
                continue
            schedule.check()
            by_hand = in_order(requested, sends)
            assert schedule.makespan_us == pytest.approx(by_hand.makespan_us)
            assert np.array_equal(schedule.link, by_hand.link)
            assert np.array_equal(schedule.chunk, by_hand.chunk)
            estimate = estimate_us(requested, made[1], made[0].chunks, batches)
            assert estimate_wide_us(requested, columns, cut, batches) == pytest.approx(estimate)


def mesh(rows: int, columns: int) -> LogicalTopology:
    """Links between neighbours, none round the edges."""
    place = {(y, x): y * columns + x for y in range(rows) for x in range(columns)}
    near = [(a, b) for a in place for b in place if abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1]
    return machine(rows * columns, [(place[a], place[b], 1.0, 1.0) for a, b in near])


@pytest.mark.parametrize(("rows", "columns"), [(2, 3), (4, 3), (3, 4), (4, 4)])
def test_a_mesh_with_an_even_side_has_a_ring(rows: int, columns: int) -> None:
    found = cycles(problem(mesh(rows, columns), "allgather"))
    assert found
    for cycle in found:
        assert sorted(cycle) == list(range(rows * columns))


def test_a_snake_goes_past_all_ranks_of_a_grid_of_three_axes() -> None:
    """From neighbour to neighbour on 2 x 3 x 4, and back to where it began."""
    where = [np.array(place) for place in np.ndindex(2, 3, 4)]
    steps = [
        max(int(np.abs(where[a] - where[b]).sum()) for a, b in pairwise((*snake, snake[0])))
        for snake in snakes(24)
    ]
    assert 1 in steps

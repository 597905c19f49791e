"""What cells hold after moves, against a count of contributions; and what is noted on the way."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import examples
from test_machine_run import machine

from taccl.backend.machine.acts import Kind, Machine, Role, Writer
from taccl.backend.machine.contents import carry_out
from taccl.backend.machine.run import run_calls
from taccl.backend.machine.values import Values
from taccl.support.jit import ahead_of_time

CELLS = 6  # of scratch, of each rank


def moved(*moves: tuple[list[int], list[int], int]) -> Machine:
    """One block that does some moves: sources, targets, and how many cells each has."""
    writer = Writer()
    writer.block(0)
    for operation, (sources, targets, count) in enumerate(moves):
        writer.act(Kind.MOVE, operation)
        operands = [(cell, cell, Role(0)) for cell in sources]
        writer.move([*operands, *((cell, cell, Role.TARGET) for cell in targets)], count)
    return machine(writer, scratch=CELLS)


moves = st.lists(
    st.tuples(
        st.lists(st.integers(0, CELLS), min_size=1, max_size=3),
        st.lists(st.integers(1, CELLS), min_size=1, max_size=2, unique=True),
        st.integers(1, 2),
    ),
    max_size=8,
)


@settings(max_examples=examples(40), deadline=None)
@given(moves)
def test_cells_hold_what_counting_contributions_says(some: list[tuple[list[int], list[int], int]]) -> None:
    made = moved(*some)
    contents = carry_out(made, run_calls(made, 1))
    other = int(made.layout.user[1, 0])
    nothing = Counter({(-1, -1): 1})
    cells = [nothing for _ in range(made.layout.num_cells)]
    cells[0], cells[other] = Counter({(0, 0): 1}), Counter({(1, 0): 1})
    reads = set()
    for act, (sources, targets, count) in enumerate(some):
        total = [Counter[tuple[int, int]]() for _ in range(count)]
        for first in sources:
            for k in range(count):
                reads |= {(act, first + k)} if cells[first + k] == nothing else set()
                total[k] += cells[first + k]
        for first in targets:
            cells[first : first + count] = total
    for cell, wanted in enumerate(cells):
        held: Counter[tuple[int, int]] = Counter()
        for offset, ranks, twice in contents.values[int(contents.cells[cell])]:
            for rank in range(2):
                if ranks >> rank & 1:
                    key = (-1, -1) if offset < 0 else (rank, offset)
                    held[key] = 2 if twice >> rank & 1 else 1
        assert held == {key: min(2, count) for key, count in wanted.items()}
    assert set(map(tuple, contents.unwritten.tolist())) == reads


def test_sums_of_the_same_are_equal_in_whatever_order_they_were_made() -> None:
    values = Values(4, 1)
    a, b, c = (values.inputs(rank, 1)[0] for rank in range(3))
    first = values.first_sum
    values.set_sums(np.array([a, first, b, a]), np.array([b, c, c, first + 2]))
    assert not values.differ(np.array([first + 1]), np.array([first + 3])).any()
    assert values.differ(np.array([first + 1]), np.array([first])).all()


@pytest.mark.parametrize("is_compiled", [False, True])
def test_machine_code_and_python_carry_out_the_same(is_compiled: bool) -> None:
    made = moved(([0], [2], 1), ([0, 2], [3, 4], 1), ([3, 0], [5], 2), ([7], [1], 1))
    if is_compiled:
        with ahead_of_time():
            contents = carry_out(made, run_calls(made, 2))
    else:
        contents = carry_out(made, run_calls(made, 2))
    assert [contents.values[int(contents.cells[cell])] for cell in (2, 3, 5)] == [
        ((0, 1 << 2, 0),),
        ((0, 1 << 2, 1 << 2),),
        ((0, 1 << 2, 1 << 2),),
    ]
    assert contents.unwritten.tolist() == [[2, 1], [3, 7], [2, 1], [3, 7]]

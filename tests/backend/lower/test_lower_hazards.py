from dataclasses import replace

import numpy as np

from taccl.backend.lower import hazards as columns
from taccl.backend.lower.actions import INPUT, OP_CODE, OUTPUT, SCRATCH, Actions, local_copies
from taccl.backend.program import Op


def input_(offset: int) -> int:
    return INPUT + offset


def output(offset: int) -> int:
    return OUTPUT + offset


def scratch(offset: int) -> int:
    return SCRATCH + offset


def act(op: Op, src: int, dst: int, count: int = 1, ready: float = 0.0, done: float = 0.0) -> Actions:
    return replace(
        local_copies([(src, dst, count)]),
        op=np.array([OP_CODE[op]]),
        ready_us=np.array([ready]),
        done_us=np.array([done]),
    )


def in_order(actions: list[Actions]) -> Actions:
    together = actions[0]
    for each in actions[1:]:
        together = together.then(each)
    return together


def listed(waits: columns.Waits) -> list[list[int]]:
    return [each.tolist() for each in np.split(waits[1], waits[0][1:-1])]


def hazards(actions: list[Actions], input_shift: int | None) -> list[list[int]]:
    return listed(columns.hazards(in_order(actions), [input_shift]))


def works_in_place(actions: list[Actions], input_shift: int) -> bool:
    return columns.works_in_place(in_order(actions), input_shift)


def needed_waits(actions: Actions, block_of: list[int]) -> list[list[int]]:
    return listed(columns.drop_implied(actions, np.array(block_of), columns.hazards(actions, [None])))


def test_a_read_waits_for_the_last_write_and_a_write_for_the_readers_since() -> None:
    actions = [
        act(Op.RECV, scratch(9), scratch(0)),
        act(Op.SEND, scratch(0), scratch(9)),
        act(Op.COPY, scratch(0), output(0)),
        act(Op.RECV, scratch(9), scratch(0)),
    ]
    assert hazards(actions, None) == [[], [0], [0], [0, 1, 2]]


def test_an_addition_reads_its_target_too() -> None:
    actions = [
        act(Op.RECV, scratch(9), scratch(0)),
        act(Op.RECV, scratch(9), scratch(1)),
        act(Op.REDUCE, scratch(1), scratch(0)),
    ]
    assert hazards(actions, None)[2] == [0, 1]


def test_every_cell_of_a_group_counts() -> None:
    actions = [act(Op.RECV, scratch(9), scratch(1)), act(Op.SEND, scratch(0), scratch(9), count=2)]
    assert hazards(actions, None)[1] == [0]


def test_in_place_an_output_cell_waits_for_the_readers_of_the_input_under_it() -> None:
    actions = [act(Op.SEND, input_(0), output(0)), act(Op.RECV, input_(0), output(2))]
    assert hazards(actions, None)[1] == []
    assert hazards(actions, 2)[1] == [0]
    assert hazards(actions, 1)[1] == []


def test_input_read_after_its_output_cell_was_changed_does_not_work_in_place() -> None:
    change, read = act(Op.RECV, input_(0), output(2)), act(Op.SEND, input_(0), output(0))
    assert works_in_place([read, change], 2)
    assert not works_in_place([change, read], 2)
    assert works_in_place([change, read], 0)


def test_a_change_that_would_have_to_wait_for_a_slow_reader_does_not_work_in_place() -> None:
    slow, early = act(Op.SEND, input_(0), output(0), done=10.0), act(Op.RECV, input_(0), output(0), ready=5.0)
    assert not works_in_place([slow, early], 0)


def test_copying_a_cell_onto_itself_changes_nothing() -> None:
    assert works_in_place([act(Op.COPY, input_(0), output(2)), act(Op.SEND, input_(0), output(0))], 2)


def test_waits_that_follow_from_program_order_are_dropped() -> None:
    actions = in_order(
        [
            act(Op.RECV, scratch(9), scratch(0)),
            act(Op.RECV, scratch(9), scratch(1)),
            act(Op.SEND, scratch(0), scratch(9), count=2),
        ]
    )
    assert needed_waits(actions, [0, 0, 1]) == [[], [], [1]]
    assert needed_waits(actions, [0, 1, 2]) == [[], [], [0, 1]]
    assert needed_waits(actions, [0, 0, 0]) == [[], [], []]


def test_waits_that_follow_from_other_waits_are_dropped() -> None:
    actions = [
        act(Op.RECV, scratch(9), scratch(0)),
        act(Op.COPY, scratch(0), scratch(1)),
        act(Op.SEND, scratch(0), scratch(9), count=2),
    ]
    assert needed_waits(in_order(actions), [0, 1, 2]) == [[], [0], [1]]


def test_what_is_known_to_be_done_is_not_waited_for() -> None:
    actions = in_order([act(Op.SEND, output(0), output(0)), act(Op.RECV, output(0), output(0))])
    assert needed_waits(actions, [0, 1]) == [[], [0]]
    assert needed_waits(replace(actions, known=np.array([(1, 0)])), [0, 1]) == [[], []]

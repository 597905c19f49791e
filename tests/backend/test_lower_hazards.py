from taccl.backend.lower.actions import Action, Endpoint, Place
from taccl.backend.lower.hazards import drop_implied, hazards, works_in_place
from taccl.backend.program import Buffer, Op

I, O, S = (lambda offset, b=b: Place(b, offset) for b in Buffer)


def act(op: Op, src: Place, dst: Place, count: int = 1, ready: float = 0.0, done: float = 0.0) -> Action:
    return Action(op, src, dst, count, 0, 0, Endpoint(0, 1, False), ready, done)


def test_a_read_waits_for_the_last_write_and_a_write_for_the_readers_since() -> None:
    actions = [
        act(Op.RECV, S(9), S(0)),
        act(Op.SEND, S(0), S(9)),
        act(Op.COPY, S(0), O(0)),
        act(Op.RECV, S(9), S(0)),
    ]
    assert hazards(actions, None) == [[], [0], [0], [0, 1, 2]]


def test_an_addition_reads_its_target_too() -> None:
    actions = [act(Op.RECV, S(9), S(0)), act(Op.RECV, S(9), S(1)), act(Op.REDUCE, S(1), S(0))]
    assert hazards(actions, None)[2] == [0, 1]


def test_every_cell_of_a_group_counts() -> None:
    actions = [act(Op.RECV, S(9), S(1)), act(Op.SEND, S(0), S(9), count=2)]
    assert hazards(actions, None)[1] == [0]


def test_in_place_an_output_cell_waits_for_the_readers_of_the_input_under_it() -> None:
    actions = [act(Op.SEND, I(0), O(0)), act(Op.RECV, I(0), O(2))]
    assert hazards(actions, None)[1] == []
    assert hazards(actions, 2)[1] == [0]
    assert hazards(actions, 1)[1] == []


def test_input_read_after_its_output_cell_was_changed_does_not_work_in_place() -> None:
    change, read = act(Op.RECV, I(0), O(2)), act(Op.SEND, I(0), O(0))
    assert works_in_place([read, change], 2)
    assert not works_in_place([change, read], 2)
    assert works_in_place([change, read], 0)


def test_a_change_that_would_have_to_wait_for_a_slow_reader_does_not_work_in_place() -> None:
    slow, early = act(Op.SEND, I(0), O(0), done=10.0), act(Op.RECV, I(0), O(0), ready=5.0)
    assert not works_in_place([slow, early], 0)


def test_copying_a_cell_onto_itself_changes_nothing() -> None:
    assert works_in_place([act(Op.COPY, I(0), O(2)), act(Op.SEND, I(0), O(0))], 2)


def test_waits_that_follow_from_program_order_are_dropped() -> None:
    actions = [act(Op.RECV, S(9), S(0)), act(Op.RECV, S(9), S(1)), act(Op.SEND, S(0), S(9), count=2)]
    waits = hazards(actions, None)
    assert drop_implied(actions, [0, 0, 1], waits) == [[], [], [1]]
    assert drop_implied(actions, [0, 1, 2], waits) == [[], [], [0, 1]]
    assert drop_implied(actions, [0, 0, 0], waits) == [[], [], []]


def test_waits_that_follow_from_other_waits_are_dropped() -> None:
    actions = [
        act(Op.RECV, S(9), S(0)),
        act(Op.COPY, S(0), S(1)),
        act(Op.SEND, S(0), S(9), count=2),
    ]
    assert drop_implied(actions, [0, 1, 2], hazards(actions, None)) == [[], [0], [1]]


def test_what_is_known_to_be_done_is_not_waited_for() -> None:
    actions = [act(Op.SEND, O(0), O(0)), act(Op.RECV, O(0), O(0))]
    assert drop_implied(actions, [0, 1], hazards(actions, None)) == [[], [0]]
    actions[1].known = (0,)
    assert drop_implied(actions, [0, 1], hazards(actions, None)) == [[], []]

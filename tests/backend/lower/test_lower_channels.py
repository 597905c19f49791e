import numpy as np
import pytest
from small_schedules import by_hand, direct_allgather, program_of, ring_allreduce

from taccl.backend.limits import LIMITS, RuntimeLimits
from taccl.backend.lower.channels import assign_channels, connections_in_order, cut_by_steps
from taccl.backend.lower.flow import read_flow
from taccl.backend.lower.order import order_events
from taccl.backend.program import Op
from taccl.errors import ProgramLimitError
from taccl.model.collectives import make_collective


def channels_of(limits: RuntimeLimits, ranks: int) -> list[tuple[int, int, int]]:
    schedule = direct_allgather(ranks)
    nothing = np.zeros(len(schedule), dtype=np.int64)
    flow = read_flow(schedule, nothing, np.arange(schedule.problem.num_chunks))
    connections = {
        connection: [part] for connection, part in connections_in_order(flow, order_events(flow)).items()
    }
    channels = assign_channels(flow, connections, limits)
    return [(t.src, t.dst, channel) for t, channel in zip(flow.sends, channels, strict=True)]


def test_a_connection_is_cut_where_the_next_send_would_be_too_many_steps() -> None:
    def cut(steps: list[tuple[int, int]], most: int) -> list[list[int]]:
        parts = cut_by_steps(np.arange(len(steps)), np.array(steps), most)
        return [part.tolist() for part in parts]

    steps = [(1, 2), (1, 2), (1, 2), (4, 1), (1, 1)]
    assert cut(steps, 4) == [[0, 1], [2], [3], [4]]
    assert cut(steps, 64) == [[0, 1, 2, 3, 4]]
    assert cut([(9, 9), (9, 9)], 4) == [[0], [1]]


def test_a_channel_holds_so_many_peers_of_a_rank_and_no_more() -> None:
    assigned = channels_of(RuntimeLimits(blocks=64, steps=64, channels=9, blocks_per_channel=2), 5)
    for rank in range(5):
        for channel in range(9):
            assert sum(src == rank and c == channel for src, _, c in assigned) <= 2
            assert sum(dst == rank and c == channel for _, dst, c in assigned) <= 2


def test_too_few_channels_are_refused() -> None:
    with pytest.raises(ProgramLimitError, match="does not fit into 1 channels"):
        channels_of(RuntimeLimits(blocks=64, steps=64, channels=1, blocks_per_channel=2), 5)


def test_more_peers_than_a_channel_holds_spread_over_several() -> None:
    program = program_of(direct_allgather(40))
    assert program.num_channels >= 2
    for rank in program.ranks:
        for channel in range(program.num_channels):
            blocks = [block for block in rank.thread_blocks if block.channel == channel]
            assert sum(block.send >= 0 for block in blocks) <= 32
            assert sum(block.recv >= 0 for block in blocks) <= 32


@pytest.mark.parametrize("runtimes", ["executor", "rccl", "msccl"])
def test_parts_of_a_connection_are_sent_one_after_the_other(runtimes: str) -> None:
    rows = [(2.0 * chunk, 0, 1, (chunk,), False) for chunk in range(300)]
    program = program_of(by_hand(make_collective("broadcast", 2, 300), rows), runtimes=runtimes)
    blocks = {block.channel: block for block in program.ranks[0].thread_blocks if block.send == 1}
    assert len(blocks) >= 2
    for channel in range(1, len(blocks)):
        first = blocks[channel].steps[0]
        assert first.op is Op.SEND and first.depends is not None
        before, step = first.depends
        assert before == blocks[channel - 1].id
        assert blocks[channel - 1].steps[step].op is Op.SEND
    assert all(len(block.steps) <= LIMITS[runtimes].steps for block in blocks.values())


def test_few_rounds_are_few_parts() -> None:
    program = program_of(ring_allreduce(4, pieces=10), runtimes="rccl")
    steps = max(sum(len(b.steps) for b in rank.thread_blocks) for rank in program.ranks)
    assert max(len(rank.thread_blocks) for rank in program.ranks) <= 2 * -(-steps // 64) + 2

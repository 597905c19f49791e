"""Every pattern is right on every number of ranks: verified for all runtimes, without hangs or races."""

import pytest

from taccl.backend.msccl_xml import to_xml
from taccl.backend.program import Op, Protocol
from taccl.backend.verify.msccl_xml import verify_text
from taccl.calibration.probe.patterns import PATTERNS, Pattern

BY_NAME = {pattern.name: pattern for pattern in PATTERNS}


@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("instances", [1, 3])
@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
def test_a_pattern_computes_its_collective_in_every_order(
    pattern: Pattern, instances: int, ranks: int
) -> None:
    order = list(range(0, ranks, 2)) + list(range(1, ranks, 2))
    program = pattern.build(order, Protocol.SIMPLE, instances)
    report = verify_text(to_xml(program))
    facts = report.facts
    assert report.ok, report.errors
    assert not report.warnings
    assert (facts.in_place, facts.races, facts.deadlock) == ("right", 0, False)
    assert facts.collective == pattern.collective
    assert set(facts.readers.values()) == {"yes"}


def test_a_ring_follows_its_order_with_one_thread_block_for_each_instance() -> None:
    program = BY_NAME["ring"].build([0, 2, 1, 3], Protocol.LL, 2)
    blocks = program.ranks[2].thread_blocks
    assert [(block.send, block.recv, block.channel) for block in blocks] == [(1, 0, 0), (1, 0, 1)]


def test_a_one_way_thread_block_only_sends_or_only_receives() -> None:
    for block in BY_NAME["one_way"].build(range(4), Protocol.SIMPLE, 2).ranks[1].thread_blocks:
        assert (block.send < 0) != (block.recv < 0)
        assert {step.op for step in block.steps} == {Op.SEND if block.recv < 0 else Op.RECV}


def test_in_pairs_a_thread_block_serves_one_peer_both_ways() -> None:
    for block in BY_NAME["pairs"].build(range(4), Protocol.SIMPLE, 2).ranks[1].thread_blocks:
        assert block.send == block.recv
        assert [step.op for step in block.steps] == [Op.SEND, Op.RECV]


def test_sums_are_made_by_a_thread_block_that_does_nothing_else() -> None:
    program = BY_NAME["sums"].build(range(4), Protocol.SIMPLE, 2)
    adding = [block for block in program.ranks[0].thread_blocks if block.send < 0]
    assert len(adding) == 2
    assert all(sum(step.op is Op.REDUCE for step in block.steps) == 3 for block in adding)

"""About how long textbook algorithms take: one batch tells of any number of equal ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_problems import problem, ring
from textbook_machines import railed_nodes, switch, torus

from taccl.encoding.engines.textbook.algorithm import InVariants
from taccl.encoding.engines.textbook.books import books_of
from taccl.encoding.engines.textbook.estimates import load_of
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology, Occupancy
from taccl.model.problem import Problem
from taccl.support.budget import Budget

MACHINES = {
    "switch": switch(4),
    "torus": torus(2, 4),
    "nodes": railed_nodes(3, 2),
    "pipelined": ring(4, both=True, occupancy="pipelined"),
}


@pytest.mark.parametrize("name", ["allgather", "reducescatter", "allreduce", "alltoall", "broadcast"])
@pytest.mark.parametrize("topology", MACHINES.values(), ids=MACHINES)
def test_one_batch_tells_how_long_several_take(topology: LogicalTopology, name: str) -> None:
    books = Instance(problem(topology, name, chunks_per_rank=4)).once(books_of)
    assert books is not None
    looked_at = 0
    for algorithm in books.algorithms:
        if not isinstance(algorithm, InVariants):
            continue
        one = load_of(books.requested, *algorithm.built(books.parts, 1)[::-1])
        for batches in algorithm.numbers_of_batches(books.parts):
            if books.parts.most_pieces % (batches * algorithm.shares * len(algorithm.routes)):
                continue  # then batches are not equal
            written = load_of(books.requested, *algorithm.built(books.parts, batches)[::-1])
            assert (one is None) == (written is None)
            if one is not None and written is not None:
                assert one.time_us(batches, batches) == pytest.approx(written.time_us(batches))
                looked_at += batches > 1
    assert looked_at


def test_a_step_takes_as_long_as_its_busiest_port() -> None:
    """Three sends of a megabyte, 1 us and 1 us per MB each, follow each other on a ring of four."""
    assert estimates(problem(ring(4), "allgather"))["ring"] == pytest.approx(6.0)


def test_batches_fill_each_others_gaps() -> None:
    """Along a chain of three hops two batches take four steps of 1.5 us, and each link is busy for two."""
    times = estimates(problem(ring(4), "broadcast", chunks_per_rank=2, chunk_mb=0.5))
    assert times["ring"] == pytest.approx(3 * 2.0)
    assert times["ring, 2 batches"] == pytest.approx(3 + (6 - 3) * 2 / 3)


@pytest.mark.parametrize(("occupancy", "all_pairs_us"), [("serial", 6.0), ("pipelined", 4.0)])
def test_a_rough_estimate_knows_whether_alphas_keep_ports_busy(
    occupancy: Occupancy, all_pairs_us: float
) -> None:
    """Three sends of a megabyte: an alpha each, or one for all where they do not wait for each other."""
    books = Instance(problem(replace(switch(4), occupancy=occupancy), "allgather")).once(books_of)
    assert books is not None
    roughly_us = {each.name: books.roughly_us(each) for each in books.algorithms}
    assert roughly_us["all-pairs"] == pytest.approx(all_pairs_us)
    assert roughly_us["ring"] == pytest.approx(6.0)


def estimates(stated: Problem) -> dict[str, float]:
    """About how long each algorithm takes, by its name."""
    books = Instance(stated).once(books_of)
    assert books is not None
    return {each.name: each.estimate_us for each in books.candidates(Budget(60.0))}

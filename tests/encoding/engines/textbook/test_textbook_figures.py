"""Published algorithms on machines of the catalogue and of files: none is faster than what a search finds."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from small_problems import problem as stated
from small_problems import ring
from textbook_machines import railed_nodes

from taccl.api import make_problem
from taccl.encoding.engines.textbook.books import books_of
from taccl.encoding.engines.textbook.engine import built, by_name
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.support.budget import Budget

MACHINES = Path(__file__).parents[3] / "data" / "machines"


def best_us(problem: Problem) -> float:
    """The fastest textbook algorithm, valid."""
    _, best = min(built(Instance(problem), Budget(60.0)), key=lambda named: named[1].makespan_us)
    best.check()
    return best.makespan_us


@pytest.mark.parametrize(
    ("machine", "nodes", "by_hand_us"),
    [
        ("switch:4", None, 1.041),  # recursive doubling: 2 * (0.5 + 20.97 / 1024)
        ("switch:8", None, 1.562),  # the same, 3 times
        ("full:8", None, 0.521),  # one-shot: 0.5 + 20.97 / 1024
        ("ndv2", 1, 0.990),  # recursive doubling: 3 * 0.3 + (23 + 23 + 46) / 1024
    ],
)
def test_an_allreduce_of_1_kb_is_at_most_as_slow_as_by_hand(
    machine: str, nodes: int | None, by_hand_us: float
) -> None:
    problem = make_problem("allreduce", topology=machine, nodes=nodes, size="1KB").problem
    assert best_us(problem) <= by_hand_us + 1e-3


@pytest.mark.parametrize(("size", "by_hand_us"), [("1KB", 5.128), ("16KB", 5.537), ("64KB", 6.848)])
def test_two_nodes_with_rails_double_three_times_inside_and_once_across(size: str, by_hand_us: float) -> None:
    """3 * (0.7 + size / 450 GB/s) + 3 + size / 50 GB/s."""
    problem = make_problem("allreduce", topology=MACHINES / "h100-rails.yaml", size=size).problem
    assert best_us(problem) <= by_hand_us + 1e-3


@pytest.mark.parametrize(
    ("collective", "steps", "mb_a_link"),
    [("allgather", 4, 15 / 64), ("alltoall", 4, 1 / 2), ("allreduce", 4, 1), ("allreduce", 6, 1 / 2)],
)
def test_on_a_torus_with_sides_of_four_each_step_uses_another_link_for_each_part(
    collective: str, steps: int, mb_a_link: float
) -> None:
    """Rings of four are squares, so each rank has four axes to exchange along: one for each part of 1 MB.

    Sums of whole parts take four steps; six where parts are halved along two axes first.
    """
    problem = make_problem(collective, topology="torus:4x4", size="1MB", chunks=4).problem
    found = [made.makespan_us for name, made in built(Instance(problem), Budget(60.0)) if "2x2x2x2" in name]
    assert any(us == pytest.approx(steps * 0.5 + mb_a_link * 20.97152, abs=2e-3) for us in found)


def test_between_two_tori_what_several_parts_send_across_is_one_send() -> None:
    """Four steps inside before it and after it, 15 of 64 MB a link each time; one sixteenth of 1 MB a NIC."""
    problem = make_problem(
        "allreduce", topology="trn2", nodes=2, size="1MB", chunks=4, executor=False
    ).problem
    inside_us = 4 * 0.7 + 15 / 64 * 8.192
    assert best_us(problem) == pytest.approx(2 * inside_us + 18 + 41.943 / 16, abs=1e-3)


@pytest.mark.parametrize("chunks", [1, 2, 8])
def test_a_ring_round_two_cpus_keeps_every_gpu_busy(chunks: int) -> None:
    """Seven eighths of 1 GB at 25 GB/s, and seven times the 1.5 us from CPU to CPU."""
    problem = make_problem(
        "allgather", topology=MACHINES / "two-cpus.yaml", size="1GB", chunks=chunks
    ).problem
    rings_us = [each.makespan_us for name, each in built(Instance(problem), Budget(60.0)) if name == "ring"]
    full_us = 7 / 8 * 2**30 / 25e3
    assert min(rings_us) == pytest.approx(full_us + 7 * 1.5)
    assert full_us < best_us(problem) <= full_us + 7 * 1.5 + 1e-6


def test_an_alltoall_on_rails_crosses_all_the_time_where_the_last_nodes_chunks_are_gathered_meanwhile() -> (
    None
):
    """Three sends of a quarter of 1 MB each, at 25 GB/s; four after each other inside and across: 44.4 us."""
    problem = make_problem("alltoall", topology="a100", nodes=4, size="1MB", chunks=1, executor=False).problem
    name = "8 of 8 gateways to a node, by source, then by end, all-pairs inside"
    schedule = by_name(Instance(problem), name)
    assert schedule is not None
    schedule.check()
    assert schedule.makespan_us == pytest.approx(3 * (2.6 + 0.25 * 41.943), abs=1e-3)


def test_a_small_alltoall_pays_one_alpha_across_where_each_gpu_is_the_gateway_to_a_node() -> None:
    """Three exchanges inside before and after it; on rails there are seven alphas of 2.7 us."""
    problem = make_problem(
        "alltoall", topology="dgx-h100", nodes=8, size="64KB", chunks=1, executor=False
    ).problem
    name = "1 of 8 gateways to a node, by end, recursive doubling inside"
    schedule = by_name(Instance(problem).members_instance or Instance(problem), name)
    assert schedule is not None
    schedule.check()
    assert schedule.makespan_us < 2.7 + 21.85 / 16 + 6 * (0.7 + 2.83 / 32) + 0.1


@pytest.mark.parametrize("collective", ["scatter", "gather"])
def test_a_small_scatter_pays_one_alpha_across_where_each_gpu_is_the_gateway_to_a_node(
    collective: str,
) -> None:
    """Three exchanges inside before and after it; with nodes one after another 10.2 us."""
    problem = make_problem(
        collective, topology="dgx-h100", nodes=8, size="4KB", chunks=1, executor=False
    ).problem
    name = "1 of 8 gateways to a node, by end, recursive doubling inside"
    schedule = by_name(Instance(problem).members_instance or Instance(problem), name)
    assert schedule is not None
    schedule.check()
    assert 2.7 + 6 * 0.7 < schedule.makespan_us < 2.7 + 6 * 0.7 + 0.05


@pytest.mark.parametrize(
    ("size", "name", "by_hand_us"),
    [
        # Four exchanges of all of it inside, one across, and a copy for the other GPU of the NIC.
        ("4KB", "whole buffers", 5 * (0.3 + 8 / 256) + 2.6 + 105 / 256),
        # Halving inside to eight GPUs, an eighth of it across, and doubling inside.
        ("64KB", "shares", 2 * (4 * 0.3 + 8 / 16) + 2.6 + 105 / 16 / 8),
    ],
)
def test_an_allreduce_crosses_once_through_each_nic_that_two_gpus_share(
    size: str, name: str, by_hand_us: float
) -> None:
    """Where both GPUs cross there is one alpha of 2.6 us more: 7.2 and 8.9 us."""
    stated = make_problem("allreduce", topology="dgx2", nodes=2, size=size, chunks=1, executor=False).problem
    schedule = by_name(Instance(stated), f"doors for {name}, recursive doubling inside, all-pairs across")
    assert schedule is not None
    schedule.check()
    assert schedule.makespan_us == pytest.approx(by_hand_us)


@pytest.mark.parametrize(("machine", "nodes"), [("ndv2", 2), ("ndv2", 3), ("dgx2", 3), ("l40s", 2)])
def test_doors_are_valid_whatever_shares_a_nic(machine: str, nodes: int) -> None:
    """Eight GPUs behind one NIC, pairs of GPUs, and numbers of nodes that are no powers of two."""
    stated = make_problem("allreduce", topology=machine, nodes=nodes, size="1MB", chunks=2, executor=False)
    books = Instance(stated.problem).once(books_of)
    assert books is not None
    made = [each for each in books.algorithms if each.name.startswith("doors")]
    assert made
    for algorithm in made:
        schedule = books.schedule(algorithm, 2, set())
        if schedule is not None:
            schedule.check()


def test_what_sends_least_often_comes_first_where_alphas_are_most_of_the_time() -> None:
    """4 KB a rank take no time next to an alpha, however many ranks there are to send to."""
    stated = make_problem(
        "alltoall", topology="dgx-h100", nodes=8, size="4KB", chunks=1, executor=False
    ).problem
    instance = Instance(stated).members_instance or Instance(stated)
    books = instance.once(books_of)
    assert books is not None
    first = [each.algorithm.moves for each in islice(books.candidates(Budget.of_work(1_000_000)), 20)]
    assert first == sorted(first)
    assert max(first) < max(each.moves for each in books.algorithms)


def test_an_allreduce_in_three_batches_hides_what_is_inside_and_pays_one_alpha_a_nic_and_batch() -> None:
    """A quarter of 1 MB inside before and after; three alphas and an eighth of it over each NIC."""
    problem = make_problem(
        "allreduce", topology="dgx2", nodes=2, size="1MB", chunks=1, executor=False
    ).problem
    name = "pipeline, recursive doubling inside, all-pairs across of whole shares, a GPU of each NIC in turn"
    schedule = by_name(Instance(problem), name, batches=3)
    assert schedule is not None
    schedule.check()
    assert schedule.makespan_us == pytest.approx(2 * (4 * 0.3 + 8 / 4) + 3 * 2.6 + 105 / 8)


def test_an_allreduce_over_eight_nodes_crosses_twice_where_each_node_sums_up_a_share() -> None:
    """Halving and doubling inside, two alphas across, three exchanges of an eighth; on rails 25.4 us."""
    problem = make_problem(
        "allreduce", topology="dgx-h100", nodes=8, size="1MB", chunks=1, executor=False
    ).problem
    name = "gateways for sums, recursive doubling inside, recursive doubling between them"
    schedule = by_name(Instance(problem).members_instance or Instance(problem), name)
    assert schedule is not None
    schedule.check()
    inside_us, across_us = 3 * 0.7 + 2.828 * 7 / 8, 2.7 + 21.845 / 8
    assert schedule.makespan_us == pytest.approx(
        2 * inside_us + 2 * across_us + 3 * (0.7 + 2.828 / 8), abs=0.01
    )


def test_the_first_of_two_batches_crosses_while_the_second_is_summed_inside() -> None:
    """NICs wait for half of the sums inside, and then exchange a quarter MB four times; 52.4 us otherwise."""
    problem = make_problem(
        "allreduce", topology="dgx-h100", nodes=4, size="4MB", chunks=2, executor=False, without=["nvswitch"]
    ).problem
    name = "recursive doubling along axis 1, then recursive doubling of whole shares along axis 0 of 4x8"
    schedule = by_name(Instance(problem), name, batches=2)
    assert schedule is not None
    schedule.check()
    inside_us, across_us = 3 * 0.7 + 2.828 * 2 * 7 / 8, 2.7 + 21.845 / 4
    assert schedule.makespan_us == pytest.approx(2 * inside_us + 4 * across_us, abs=0.01)


@pytest.mark.parametrize(("nodes", "gpus"), [(3, 3), (4, 2), (6, 3), (3, 6), (4, 4), (5, 3)])
@pytest.mark.parametrize("name", ["allreduce", "alltoall", "allgather", "scatter", "gather"])
def test_gateways_and_pipelines_are_valid_on_nodes_of_all_sizes(nodes: int, gpus: int, name: str) -> None:
    """Few nodes of many GPUs, and many of few."""
    books = Instance(stated(railed_nodes(nodes, gpus), name, 2, max_group=5)).once(books_of)
    assert books is not None
    made = [each for each in books.algorithms if "gateways" in each.name or "pipeline" in each.name]
    assert made
    for algorithm in made:
        for batches in algorithm.numbers_of_batches(books.parts):
            schedule = books.schedule(algorithm, batches, set())
            if schedule is not None:
                schedule.check()


@pytest.mark.parametrize(
    ("collective", "name", "by_hand_us"),
    [
        # All of the node's four chunks everywhere in it, four across, and those of three nodes in each.
        ("allgather", "1 of 4 gateways to a node, all-pairs inside", (1 + 1) + (5 + 40) + (1 + 4)),
        ("allgather", "1 of 4 gateways to a node, recursive doubling inside", (2 + 3) + (5 + 40) + (5 + 9)),
        ("reducescatter", "1 of 4 gateways to a node, all-pairs inside", (1 + 4) + (5 + 40) + (1 + 1)),
        # All of sixteen chunks, three times.
        (
            "allreduce",
            "4 gateways for node sums, all-pairs inside, all-pairs between them",
            (1 + 16) + (5 + 160) + (1 + 16),
        ),
    ],
)
def test_small_messages_cross_once_where_each_gpu_is_the_gateway_to_a_node(
    collective: str, name: str, by_hand_us: float
) -> None:
    """Four nodes of four GPUs; on rails a NIC sends two or three times, in rings and doublings."""
    schedule = by_name(Instance(stated(railed_nodes(4, 4), collective)), name)
    assert schedule is not None
    schedule.check()
    assert schedule.makespan_us == pytest.approx(by_hand_us)


def test_blocks_of_gateways_share_the_data() -> None:
    """Three nodes of six GPUs: each of two blocks has nine of eighteen chunks."""
    name = "6 gateways for node sums, all-pairs inside, all-pairs between them, all-pairs of shares"
    schedule = by_name(Instance(stated(railed_nodes(3, 6), "allreduce")), name)
    assert schedule is not None
    schedule.check()
    assert schedule.makespan_us == pytest.approx(4 * (1 + 9) + (5 + 90))


@pytest.mark.parametrize(("ranks", "steps"), [(4, 2), (5, 2), (6, 3), (8, 4)])
def test_small_buffers_go_round_a_ring_in_both_directions(ranks: int, steps: int) -> None:
    """Each step takes an alpha of 1 us and 0.01 us for a whole buffer; there and back takes twice as many."""
    small = stated(ring(ranks, both=True), "allreduce", chunk_mb=0.01 / ranks)
    whole = by_name(Instance(small), "ring both directions of whole buffers")
    assert whole is not None
    whole.check()
    assert whole.makespan_us == pytest.approx(steps * 1.01)


def test_on_a_torus_whole_buffers_go_round_along_both_axes_at_once() -> None:
    """Half of 1 KB along rows first, half along columns: 2 x 2 steps of 0.5 us and 10 ns."""
    assert best_us(make_problem("allreduce", topology="torus:5x5", size="1KB").problem) <= 4 * 0.5105


def test_buffers_of_more_chunks_than_a_send_takes_are_shared_by_two() -> None:
    """A send takes 71 of 72 chunks: two ranks halve them, sum up with 35 others in six steps, exchange."""
    many = make_problem("allreduce", topology="switch:72", size="1KB", chunks=1).problem
    name = "all-pairs along axis 0, then Bruck of whole shares along axis 1 of 2x36"
    halves = by_name(Instance(many), name)
    assert halves is not None
    halves.check()
    assert halves.makespan_us == pytest.approx(8 * (0.5 + 36 * many.chunk_mb * 20.97152))

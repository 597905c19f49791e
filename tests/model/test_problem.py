from dataclasses import replace

import numpy as np
import pytest

from taccl.errors import TopologyError
from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits


def triangle(**changes) -> LogicalTopology:
    """0 -> 1, 1 -> 2 and 2 -> 0; the first two share port `nic`."""
    fields = {
        "name": "triangle",
        "node_of": np.array([0, 0, 1]),
        "src": np.array([0, 1, 2]),
        "dst": np.array([1, 2, 0]),
        "alpha_us": np.array([1.0, 2.0, 3.0]),
        "beta_us_per_mb": np.array([10.0, 20.0, 30.0]),
        "ports": ((0, 1), (1,), (2,)),
        "port_names": ("0->1", "nic", "2->0"),
    }
    return LogicalTopology(**{**fields, **changes})


def fast_nic(**changes) -> LogicalTopology:
    """The triangle with ports of their own for its links, and a NIC that takes only 4 us for a MB."""
    fields = {"ports": ((0, 1), (1, 3), (2,)), "port_names": ("0->1", "nic", "2->0", "1->2")}
    return triangle(**{**fields, "port_betas": ((10.0, 4.0), (4.0, 20.0), (30.0,)), **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dst": np.array([1, 2])}, "link columns of 'triangle' differ in length"),
        ({"ports": ((0,), (1,))}, "link columns of 'triangle' differ in length"),
        ({"dst": np.array([1, 2, 3])}, "ends at a rank outside 0 .. 2"),
        ({"src": np.array([0, -1, 2])}, "ends at a rank outside 0 .. 2"),
        ({"dst": np.array([1, 1, 0])}, "from a rank to itself"),
        ({"src": np.array([0, 0, 2]), "dst": np.array([1, 1, 0])}, "two links between the same ranks"),
        ({"alpha_us": np.array([1.0, -1.0, 1.0])}, "negative or not finite"),
        ({"beta_us_per_mb": np.array([1.0, np.nan, 1.0])}, "negative or not finite"),
        ({"beta_us_per_mb": np.array([1.0, np.inf, 1.0])}, "negative or not finite"),
        ({"ports": ((0,), (), (2,))}, "no port, or one that does not exist"),
        ({"ports": ((0,), (3,), (2,))}, "no port, or one that does not exist"),
        ({"ports": ((0,), (1, 1), (2,))}, "uses a port twice"),
        ({"occupancy": "Serial"}, "occupancy must be serial or pipelined, not 'Serial'"),
    ],
)
def test_a_topology_that_cannot_be_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        triangle(**changes)


def test_a_topology_may_have_no_links() -> None:
    alone = LogicalTopology(
        "alone", np.zeros(1, int), *[np.zeros(0, int)] * 2, *[np.zeros(0)] * 2, ports=(), port_names=()
    )
    assert (alone.num_ranks, alone.num_links, alone.num_nodes) == (1, 0, 1)
    assert [len(column) for column in alone.incidence] == [0, 0]


def test_links_are_found_by_their_ends_and_their_ports() -> None:
    it = triangle()
    assert it.link_index == {(0, 1): 0, (1, 2): 1, (2, 0): 2}
    assert it.links_from == ((0,), (1,), (2,))
    assert it.links_into == ((2,), (0,), (1,))
    assert it.port_links == ((0,), (0, 1), (2,))
    assert [column.tolist() for column in it.incidence] == [[0, 0, 1, 2], [0, 1, 1, 2]]
    assert it.internode.tolist() == [False, True, True]
    assert (it.num_ranks, it.num_links, it.num_ports, it.num_nodes) == (3, 3, 3, 2)
    assert it.describe_link(1) == "1 -> 2"


@pytest.mark.parametrize(
    ("occupancy", "busy"), [("serial", [6.0, 6.0, 12.0]), ("pipelined", [5.0, 5.0, 10.0])]
)
def test_alpha_keeps_ports_busy_only_if_occupancy_is_serial(occupancy: str, busy: list[float]) -> None:
    it, links = triangle(occupancy=occupancy), np.array([0, 1])
    assert it.duration_us(links, 0.5).tolist() == [6.0, 12.0]
    assert it.port_busy_us(np.array([0, 1, 2]), 0.5).tolist() == busy
    assert it.slowest_busy_us(links, 0.5).tolist() == busy[1:]


@pytest.mark.parametrize(("occupancy", "busy"), [("serial", [6.0, 3.0, 4.0]), ("pipelined", [5.0, 2.0, 2.0])])
def test_a_port_that_is_faster_than_its_links_is_busy_for_less_than_they_last(
    occupancy: str, busy: list[float]
) -> None:
    it = fast_nic(occupancy=occupancy)
    assert it.duration_us(np.array([0, 1]), 0.5).tolist() == [6.0, 12.0]
    assert it.port_busy_us(np.array([0, 1, 2]), 0.5).tolist() == busy
    assert it.slowest_busy_us(np.array([0, 1]), 0.5).tolist() == (
        [6.0, 12.0] if it.is_serial else [5.0, 10.0]
    )


def test_pairs_of_links_and_ports_are_found_by_link() -> None:
    it = fast_nic()
    assert it.first_pair.tolist() == [0, 2, 4, 5]
    assert it.pair_betas.tolist() == [10.0, 4.0, 4.0, 20.0, 30.0]
    position, pair = it.pairs_of(np.array([2, 0, 0]))
    assert (position.tolist(), pair.tolist()) == ([0, 1, 1, 2, 2], [4, 0, 1, 0, 1])
    assert [len(column) for column in it.pairs_of(np.zeros(0, dtype=int))] == [0, 0]


def test_port_betas_that_are_those_of_the_links_are_none() -> None:
    assert triangle(port_betas=((10.0, 10.0), (20.0,), (30.0,))).port_betas is None


@pytest.mark.parametrize(
    ("port_betas", "message"),
    [
        (((10.0, 4.0), (20.0,)), "not one for each port of each link"),
        (((10.0,), (20.0,), (30.0,)), "not one for each port of each link"),
        (((10.0, -4.0), (20.0,), (30.0,)), "a port beta of 'triangle' is negative or not finite"),
        (((10.0, np.inf), (20.0,), (30.0,)), "a port beta of 'triangle' is negative or not finite"),
        (
            ((8.0, 4.0), (20.0,), (30.0,)),
            "0 -> 1 of 'triangle' has beta 10 us/MB, but its slowest port has 8",
        ),
        (((10.0, 12.0), (20.0,), (30.0,)), "has beta 10 us/MB, but its slowest port has 12"),
    ],
)
def test_port_betas_that_cannot_be_are_refused(port_betas: tuple, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        triangle(port_betas=port_betas)


def test_a_topology_reads_backwards_if_each_port_is_busy_for_the_same_part_of_its_transfers() -> None:
    assert triangle().reads_backwards
    assert not triangle(occupancy="pipelined").reads_backwards  # the NIC's links have alphas 1 and 2
    assert triangle(occupancy="pipelined", alpha_us=np.array([1.0, 1.0, 3.0])).reads_backwards
    assert not fast_nic().reads_backwards


def test_costs_follow_sizes_that_differ_by_link() -> None:
    assert triangle().duration_us(np.array([0, 2]), np.array([1.0, 2.0])).tolist() == [11.0, 63.0]


def test_a_reversed_topology_turns_links_and_keeps_their_costs_and_ports() -> None:
    it = triangle()
    turned = it.reversed()
    assert turned.link_index == {(1, 0): 0, (2, 1): 1, (0, 2): 2}
    assert turned.alpha_us is it.alpha_us
    assert turned.ports == it.ports
    assert fast_nic().reversed().port_betas == fast_nic().port_betas
    assert turned.reversed().link_index == it.link_index


def test_a_problem_knows_its_size_as_nccl_tests_prints_it() -> None:
    problem = Problem(triangle(), make_collective("allgather", 3, 2), chunk_mb=0.5)
    assert problem.size_bytes == 3 * 2**20
    assert (problem.size_and_chunks, problem.size_of_algbw) == (("3MB", "chunks of 512KB"), "")
    assert (problem.num_ranks, problem.num_chunks) == (3, 6)


def test_a_chunk_may_use_what_its_owner_may_use() -> None:
    may_use = np.array([[True, True, False], [False, True, True], [True, False, True]])
    problem = Problem(triangle(), make_collective("allgather", 3, 2), 0.5, limits=RoutingLimits(may_use))
    assert [problem.usable(chunk).tolist() for chunk in (1, 2, 5)] == may_use.tolist()
    assert replace(problem, limits=RoutingLimits()).usable(0).tolist() == [True, True, True]


def test_a_reversed_problem_sums_what_the_problem_copies_and_forgets_who_leaves_first() -> None:
    limits = RoutingLimits(np.ones((3, 3), dtype=bool), own_first=np.ones(3, dtype=bool), spread_load=True)
    turned = Problem(triangle(), make_collective("allgather", 3), 0.5, limits=limits, max_group=7).reversed()
    assert turned.collective.name == "reducescatter"
    assert turned.topology.link_index == {(1, 0): 0, (2, 1): 1, (0, 2): 2}
    assert turned.limits.own_first is None
    assert turned.limits.may_use is limits.may_use
    assert (turned.limits.spread_load, turned.max_group, turned.chunk_mb) == (True, 7, 0.5)


# -- sizes, ready times, tails and helpers -------------------------------------------------------


def gathered(**changes) -> Problem:
    """AllGather on the triangle: chunk r starts at rank r, and all ranks want it."""
    return Problem(triangle(), make_collective("allgather", 3), 2.0, **changes)


def with_hub(**changes) -> LogicalTopology:
    """The triangle, whose rank 2 is a helper."""
    return triangle(is_helper=np.array([False, False, True]), **changes)


def test_without_the_columns_a_problem_is_what_it_was() -> None:
    plain = gathered()
    assert plain.features == frozenset()
    assert (plain.units([0, 2]), plain.size_mb.tolist()) == (2, [2.0, 2.0, 2.0])
    said = gathered(sizes=np.ones(3), ready_us=[0, 0, 0], tail_us=np.zeros(9))
    assert (said.sizes, said.ready_us, said.tail_us) == (None, None, None)


def test_a_chunk_may_have_a_size_of_its_own() -> None:
    uneven = gathered(sizes=[0.5, 1.0, 3.0])
    assert uneven.features == {"sizes"}
    assert uneven.size_mb.tolist() == [1.0, 2.0, 6.0]
    assert uneven.units([0, 2]) == 3.5
    assert uneven.size_bytes == 9 * 2**20
    assert uneven.size_and_chunks == ("9MB", "3 chunks of 1MB to 6MB")
    assert "9MB" in uneven.size_of_algbw
    assert uneven.duration_us(np.array([0, 1]), np.array([0, 2])).tolist() == [11.0, 122.0]
    assert uneven.busy_us(np.array([0]), np.array([0])).tolist() == [11.0]


def test_moments_belong_to_inputs_and_outputs() -> None:
    late = gathered(ready_us=[0.0, 4.0, 0.0], tail_us=[1.0] + [0.0] * 8)
    assert late.features == {"ready_times", "tails"}
    assert late.ready_at == {(1, 1): 4.0}
    assert late.tail_at == {(0, 0): 1.0}


def test_backwards_what_was_ready_late_has_a_tail_and_who_may_sum_may_copy() -> None:
    topology = triangle(may_sum=np.array([True, False, True]))
    late = Problem(topology, make_collective("reduce", 3), 1.0, ready_us=[0.0, 4.0, 0.0])
    back = late.reversed()
    assert back.tail_at == {(0, 1): 4.0}
    assert back.ready_us is None
    assert back.topology.may_copy.tolist() == [True, False, True]
    assert back.topology.may_sum is None
    assert back.reversed().ready_at == late.ready_at


def test_helpers_hold_no_data_and_are_not_counted() -> None:
    alongside = Problem(with_hub(), make_collective("allreduce", 2).with_helpers(1), 1.0)
    assert alongside.features == {"helpers", "reductions"}
    assert (alongside.topology.num_members, alongside.topology.num_helpers, alongside.num_ranks) == (2, 1, 3)
    assert alongside.collective.busbw_factor == 1.0
    assert alongside.size_bytes == 2 * 2**20
    assert triangle(is_helper=np.zeros(3, bool), may_sum=np.ones(3, bool)).is_helper is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": [1.0, 2.0]}, "sizes must have a number for each chunk: 3, not 2"),
        ({"sizes": [1.0, 0.0, 2.0]}, "sizes must be from 9.31323e-10 to .*, and number 1 is 0"),
        ({"sizes": [1.0, np.nan, 2.0]}, "sizes must be from .* number 1 is nan"),
        ({"sizes": "abc"}, "sizes must be a column of numbers"),
        ({"ready_us": [0.0]}, "ready_us must have a number for each row of the inputs: 3, not 1"),
        ({"ready_us": [0.0, -1.0, 0.0]}, "ready_us must be from 0 to 1e\\+12, and number 1 is -1"),
        ({"tail_us": [np.inf] * 9}, "tail_us must be from 0 to 1e\\+12, and number 0 is inf"),
        ({"topology": with_hub()}, "'triangle' has 1 helpers, and allgather has 0"),
        (
            {"collective": make_collective("allgather", 2).with_helpers(1)},
            "has 0 helpers, and allgather has 1",
        ),
    ],
)
def test_a_problem_looks_at_its_columns(changes: dict, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        replace(gathered(), **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"is_helper": np.array([True, False, False])},
            "a helper of 'triangle' has a lower number than a rank",
        ),
        ({"is_helper": np.ones(3, bool)}, "all ranks of 'triangle' are helpers"),
        ({"is_helper": np.array([0, 0, 1])}, "is_helper of 'triangle' must be true or false for each rank"),
        ({"may_sum": np.ones(2, bool)}, "may_sum of 'triangle' must be true or false for each rank"),
    ],
)
def test_a_topology_looks_at_its_helpers(changes: dict, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        triangle(**changes)

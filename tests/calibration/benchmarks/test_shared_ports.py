"""Ports and PCIe switches from runs of several pairs at once."""

import pytest

from taccl.calibration.benchmarks.from_matrices import pcie_switches
from taccl.calibration.benchmarks.from_sweeps import ports_of


def test_a_port_that_all_share_moves_no_more_with_more_pairs() -> None:
    ports = ports_of({1: 10.0, 4: 10.1})
    assert ports is not None
    assert (ports.ports, ports.is_full) == (1, True)


def test_private_ports_move_as_much_more_as_there_are_pairs() -> None:
    ports = ports_of({1: 10.0, 4: 39.0})
    assert ports is not None
    assert (ports.ports, ports.is_full) == (4, False)
    assert ports.port_gbps == pytest.approx(9.75)


def test_4_pairs_over_2_nics() -> None:
    """ABCI V: one pair 10.2, four pairs 20.5."""
    ports = ports_of({1: 10.2, 4: 20.5})
    assert ports is not None
    assert ports.ports == 2
    assert ports.port_gbps == pytest.approx(10.25)


def test_one_pair_that_does_not_fill_a_port_tells_no_number_of_ports() -> None:
    """ABCI A: 15.3, 39.0 and 39.0 of one, four and eight pairs."""
    ports = ports_of({1: 15.3, 4: 39.0, 8: 39.0})
    assert ports is not None
    assert (ports.ports, ports.port_gbps, ports.is_full) == (None, None, True)
    assert ports.together_gbps == 39.0


@pytest.mark.parametrize("sums", [{}, {1: 10.0}, {4: 40.0, 8: 40.0}])
def test_without_one_pair_alone_or_with_nothing_else_there_is_nothing_to_tell(sums: dict[int, float]) -> None:
    assert ports_of(sums) is None


def test_gpus_whose_copies_through_the_host_halve_each_other_share_a_switch() -> None:
    gbps = {(a, b): 9.5 if a // 2 == b // 2 else 14.7 for a in range(6) for b in range(6) if a != b}
    assert pcie_switches(gbps) == [(0, 1), (2, 3), (4, 5)]


def test_more_than_two_gpus_may_share_one() -> None:
    gbps = {(a, b): 9.5 if a // 3 == b // 3 else 14.7 for a in range(9) for b in range(9) if a != b}
    assert pcie_switches(gbps) == [(0, 1, 2), (3, 4, 5), (6, 7, 8)]


def test_two_gpus_alone_tell_nothing() -> None:
    assert pcie_switches({(0, 1): 30.0, (1, 0): 31.0}) == []
    assert pcie_switches({}) == []

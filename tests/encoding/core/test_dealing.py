"""Chunks between nodes are dealt to rails, and rails pass them in matchings."""

import numpy as np
import pytest

from taccl.encoding.core.dealing import dealt
from taccl.encoding.core.matchings import starts


@pytest.mark.parametrize("seed", range(12))
def test_unit_items_share_no_port_and_end_when_the_busiest_port_does(seed: int) -> None:
    random = np.random.default_rng(seed)
    nodes = int(random.integers(2, 7))
    many = random.integers(0, 5, (nodes, nodes)) * random.integers(0, 2, (nodes, nodes))
    many[0, 1] += 1
    first = np.concatenate([[0], np.cumsum(many.ravel())])
    start = np.zeros(first[-1])
    whole, turns = starts(many.astype(np.float64), first, np.ones(first[-1]), start)
    passed = np.bincount(turns[:, 0].astype(int), turns[:, 2] - turns[:, 1], nodes * nodes)
    np.testing.assert_allclose(passed, many.ravel())
    assert whole == max(many.sum(0).max(), many.sum(1).max())
    assert start.max() <= whole - 1 + 1e-6
    moment = np.round(start).astype(int)
    np.testing.assert_allclose(moment, start, atol=1e-6)
    pair = np.repeat(np.arange(nodes * nodes), many.ravel())
    for node in (pair // nodes, pair % nodes):
        assert len(np.unique(moment * nodes + node)) == len(moment)


@pytest.mark.parametrize("seed", range(4))
def test_no_rail_has_more_than_a_chunk_above_its_share(seed: int) -> None:
    random = np.random.default_rng(seed)
    nodes, places = 4, 4
    source, target = np.divmod(np.arange((nodes * places) ** 2), nodes * places)
    crosses = source // places != target // places
    source, target = source[crosses], target[crosses]
    size = random.pareto(2.0, len(source)) + 0.1
    of = dealt(source, target, size, nodes, places)
    node_load = max(np.bincount(end // places, size).max() for end in (source, target))
    nic_load = max(np.bincount(end // places * places + of.rail, size).max() for end in (source, target))
    assert of.whole == pytest.approx(nic_load)
    assert nic_load <= node_load / places + size.max()

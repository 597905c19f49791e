from importlib import import_module

import numpy as np
import pytest

from taccl.api import make_problem
from taccl.encoding.engines.greedy.along_trees import at_once
from taccl.encoding.engines.greedy.grown import grown, routes_of
from taccl.encoding.instance import Instance

#: Links 0 .. 3 on a line of three ranks: 0 -> 1, 1 -> 0, 1 -> 2, 2 -> 1.
LINE = np.array([[-1, 0, -1], [1, -1, 2], [-1, 3, -1]])
ALL = np.ones((1, 4), dtype=np.bool_)
ALONE = np.full(3, -1)


def grown_on_the_line(usable: np.ndarray, source: int) -> list[int]:
    routes = routes_of(LINE, np.ones(4), np.ones(4), ALONE)
    holds = np.arange(3)[None] == source
    (via,) = grown(routes, usable, np.zeros(1, dtype=np.int64), holds, np.zeros((1, 3)), 0.25)
    return via.tolist()


def test_a_tree_reaches_every_rank_by_its_last_link() -> None:
    assert grown_on_the_line(ALL, 0) == [-1, 0, 2]
    assert grown_on_the_line(ALL, 1) == [1, -1, 2]


def test_what_no_link_may_reach_is_left_out() -> None:
    usable = np.array([[True, True, False, True]])
    assert grown_on_the_line(usable, 0) == [-1, 0, -1]


def test_a_sender_whose_links_share_a_port_leaves_some_of_its_work_to_others() -> None:
    """Of a star of four, each can send to each: rank 0 reaches one, and that helps it with the others."""
    link = np.where(np.eye(4, dtype=np.bool_), -1, np.arange(16).reshape(4, 4))
    usable, holds = np.ones((1, 16), dtype=np.bool_), np.arange(4)[None] == 0
    kinds, tie = np.zeros(1, dtype=np.int64), np.zeros((1, 4))
    busy = np.full(16, 10.0)
    (alone,) = grown(routes_of(link, np.ones(16), busy, np.full(4, -1)), usable, kinds, holds, tie, 0.25)
    assert (alone[1:] // 4).tolist() == [0, 0, 0]
    (shared,) = grown(routes_of(link, np.ones(16), busy, np.arange(4)), usable, kinds, holds, tie, 0.25)
    assert (shared[1:] // 4).tolist() == [0, 1, 2]


@pytest.mark.parametrize("collective", ["allgather", "allreduce"])
@pytest.mark.parametrize("machine", [{"topology": "mesh:3x3"}, {"topology": "ndv2", "nodes": 2}])
def test_trees_that_are_grown_so_make_a_valid_schedule(
    collective: str, machine: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("taccl.encoding.engines.greedy.along_trees")
    monkeypatch.setattr(module, "ALONG_TREES_MOST_OFFERS", 0)
    schedule = at_once(Instance(make_problem(collective, size="1MB", chunks=1, **machine).problem))
    assert schedule is not None
    schedule.check()

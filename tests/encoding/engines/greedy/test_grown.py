import numpy as np
from small_problems import machine

from taccl.encoding.engines.greedy.grown import grown, routes_of

#: Links 0 .. 3 on a line of three ranks: 0 -> 1, 1 -> 0, 1 -> 2, 2 -> 1.
LINE = machine(3, [(a, b, 1.0, 1.0) for a, b in ((0, 1), (1, 0), (1, 2), (2, 1))])
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


def test_with_offers_made_anew_those_who_were_reached_help_at_once() -> None:
    """Behind a switch of eight the ranks that have a chunk double with each step."""
    switch = machine(8, [(a, b, 1.0, 1.0) for a in range(8) for b in range(8) if a != b])
    holds, times = np.arange(8)[None] == 0, np.ones(56)
    (via,) = grown(
        routes_of(switch, times, times, np.arange(8)),
        np.ones((1, 56), dtype=np.bool_),
        np.zeros(1, dtype=np.int64),
        holds,
        np.zeros((1, 8)),
        0.25,
        anew=True,
    )
    assert sorted(np.bincount(switch.src[via[1:]], minlength=8).tolist()) == [0, 0, 0, 0, 1, 1, 2, 3]


def test_a_sender_whose_links_share_a_port_leaves_some_of_its_work_to_others() -> None:
    """Of a star of four, each can send to each: rank 0 reaches one, and that helps it with the others."""
    star = machine(4, [(a, b, 1.0, 1.0) for a in range(4) for b in range(4) if a != b])
    usable, holds = np.ones((1, 12), dtype=np.bool_), np.arange(4)[None] == 0
    kinds, tie = np.zeros(1, dtype=np.int64), np.zeros((1, 4))
    busy = np.full(12, 10.0)
    (alone,) = grown(routes_of(star, np.ones(12), busy, np.full(4, -1)), usable, kinds, holds, tie, 0.25)
    assert star.src[alone[1:]].tolist() == [0, 0, 0]
    (shared,) = grown(routes_of(star, np.ones(12), busy, np.arange(4)), usable, kinds, holds, tie, 0.25)
    assert star.src[shared[1:]].tolist() == [0, 1, 2]

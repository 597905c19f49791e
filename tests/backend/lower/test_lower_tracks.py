from hypothesis import given
from hypothesis import strategies as st

from taccl.backend.lower.tracks import Tracks


def order_of(tracks: Tracks, values: list[int]) -> list[int]:
    starts = tracks.offsets()
    return [starts[tracks.shared[value][0]] + tracks.shared[value][1] for value in values]


def test_sets_that_share_values_are_joined() -> None:
    tracks = Tracks()
    assert tracks.place([1, 2]) is None
    assert tracks.place([4, 5]) is None
    assert tracks.place([2, 3, 4]) is None
    assert order_of(tracks, [1, 2, 3, 4, 5]) == [0, 1, 2, 3, 4]


def test_a_set_inside_another_needs_nothing_new() -> None:
    tracks = Tracks()
    tracks.place([1, 2, 3, 4])
    assert tracks.place([2, 3]) is None
    assert tracks.offsets()[-1] == 4


def test_a_set_that_contradicts_another_gets_a_place_of_its_own() -> None:
    tracks = Tracks()
    tracks.place([1, 2, 3])
    private = tracks.place([1, 3])
    assert private is not None
    assert len(tracks.tracks[private]) == 2
    assert order_of(tracks, [1, 2, 3]) == [0, 1, 2]


def test_a_ring_of_sets_cannot_be_closed() -> None:
    tracks = Tracks()
    assert tracks.place([1, 2]) is None
    assert tracks.place([2, 3]) is None
    assert tracks.place([3, 1]) is not None


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True), max_size=12))
def test_whatever_is_asked_is_side_by_side_in_the_end(sets: list[list[int]]) -> None:
    tracks = Tracks()
    agreed = []
    for values in sets:
        private = tracks.place(values)
        if private is None:
            agreed.append(values)
        else:
            assert len(tracks.tracks[private]) == len(values)
    for values in agreed:
        places = order_of(tracks, values)
        assert places == list(range(places[0], places[0] + len(values)))
    shared = order_of(tracks, list(tracks.shared))
    assert len(set(shared)) == len(shared)
    assert all(place < tracks.offsets()[-1] for place in shared)

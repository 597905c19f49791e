"""Rounds in which ranks tell each other that all have come: whom each hears in the end, by few channels."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import examples

from taccl.backend.lower_plan.meetings import find_meeting, peers_of
from taccl.errors import ProgramLimitError


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(2, 130))
def test_all_have_heard_of_all_in_the_end(count: int) -> None:
    rounds = find_meeting(count, 16)
    knows = [{member} for member in range(count)]
    for each in rounds:
        for member, (told, heard) in enumerate(each):
            assert all(member in each[peer][1] for peer in told)
            assert all(member in each[peer][0] for peer in heard)
        knows = [knows[member].union(*(knows[peer] for peer in each[member][1])) for member in range(count)]
    assert all(len(known) == count for known in knows)
    assert peers_of(rounds) <= 16


@pytest.mark.parametrize(("count", "rounds", "peers"), [(2, 1, 1), (8, 1, 7), (17, 1, 16), (72, 2, 15)])
def test_there_are_few_rounds(count: int, rounds: int, peers: int) -> None:
    """All at once up to seventeen; 72 as eight rows of nine."""
    found = find_meeting(count, 16)
    assert (len(found), peers_of(found)) == (rounds, peers)


def test_what_no_rounds_do_is_refused_with_the_limit() -> None:
    with pytest.raises(ProgramLimitError) as error:
        find_meeting(8, 2)
    assert error.value.findings == ("each: 3 memory channels of a thread block; the limit is 2",)

"""The collector of cycles rests while objects are made by the million."""

from __future__ import annotations

import gc

import pytest

from taccl.support.gc_paused import gc_paused


def test_the_collector_rests_and_then_works_again() -> None:
    with gc_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_works_again_after_an_error() -> None:
    with pytest.raises(KeyError), gc_paused():
        raise KeyError
    assert gc.isenabled()


def test_of_two_rests_the_outer_one_ends_it() -> None:
    with gc_paused():
        with gc_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()

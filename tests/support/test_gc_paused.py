"""The collector of cycles rests while objects are made by the million."""

from __future__ import annotations

import gc

import pytest

from taccl.support.gc_paused import collector_at_rest


def test_the_collector_rests_and_then_works_again() -> None:
    with collector_at_rest():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_works_again_after_an_error() -> None:
    with pytest.raises(KeyError), collector_at_rest():
        raise KeyError
    assert gc.isenabled()


def test_of_two_rests_the_outer_one_ends_it() -> None:
    with collector_at_rest():
        with collector_at_rest():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()

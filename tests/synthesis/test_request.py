"""A request: one object that every function shares, and its keywords."""

import inspect
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

import taccl
from taccl.errors import SketchError, TacclError, TopologyError
from taccl.model.collectives import make_collective
from taccl.synthesis.inputs import inputs_of
from taccl.synthesis.request import MachineKeywords, Request, RequestKeywords, request_of

RING = Request("allgather", topology="ring:4", size="4MB")


def test_the_keywords_are_the_fields_but_for_the_collective() -> None:
    assert {"collective", *RequestKeywords.__annotations__} == {each.name for each in fields(Request)}
    assert set(MachineKeywords.__annotations__) < set(RequestKeywords.__annotations__)


@pytest.mark.parametrize("function", [taccl.make_problem, taccl.synthesize, taccl.bounds, taccl.explain])
def test_help_lists_every_keyword_with_its_default(function: Callable[..., Any]) -> None:
    shown = inspect.signature(function).parameters
    assert all(each.kind is not inspect.Parameter.VAR_KEYWORD for each in shown.values())
    for each in fields(Request):
        assert shown[each.name].default == each.default


def test_help_on_a_simulation_lists_the_machine() -> None:
    shown = inspect.signature(taccl.simulate_file).parameters
    assert set(MachineKeywords.__annotations__) <= set(shown)
    assert "symmetry" not in shown


def test_a_whole_request_may_stand_where_a_collective_is_expected_and_keywords_change_it() -> None:
    assert request_of(RING, {}) == RING
    assert request_of(RING, {"size": "8MB"}) == replace(RING, size="8MB")
    assert taccl.make_problem(RING).problem.size_bytes == 4 * 2**20
    assert taccl.bounds(RING, size="8MB").problem.size_bytes == 8 * 2**20
    assert taccl.explain(RING, time_limit=5).collective.name == "allgather"
    quick = taccl.synthesize(RING, chunks=2, engine="greedy", gap=0.9, file=False)
    assert quick.collective.chunks_per_rank == 2


@pytest.mark.parametrize(
    ("error", "wrong"),
    [
        (SketchError, {"symmetry": "none"}),
        (TopologyError, {"occupancy": "half"}),
        (SketchError, {"nic_sharing": "none"}),
        (TacclError, {"chunks": "many"}),
        (TacclError, {"chunks": 1.5}),
    ],
)
def test_a_word_that_is_none_is_refused_when_the_request_is_made(
    error: type[TacclError], wrong: dict[str, Any]
) -> None:
    with pytest.raises(error) as caught:
        Request(**wrong)
    assert caught.value.hint


def test_a_keyword_that_is_none_is_a_type_error_as_of_any_function() -> None:
    with pytest.raises(TypeError, match="topolgy"):
        taccl.make_problem(topolgy="ring:4")


@pytest.mark.parametrize(
    ("requested", "is_open"),
    [
        ({"topology": "ring:4"}, True),
        ({"topology": "ring:4", "chunks": 1}, False),
        ({"sketch": "ndv2-sk-1"}, False),
        ({"sketch": "ndv2-sk-1", "chunks": "auto"}, True),
        ({"collective": make_collective("allgather", 4, 2), "topology": "ring:4"}, False),
    ],
    ids=["nothing says", "a number", "the sketch's", "auto", "a collective that is made already"],
)
def test_the_number_of_chunks_is_open_where_nothing_says_it(requested: dict[str, Any], is_open: bool) -> None:
    assert Request(**requested).leaves_chunks_open is is_open


@pytest.mark.parametrize("function", [taccl.make_problem, taccl.bounds, taccl.explain])
def test_only_synthesize_searches_for_the_number_of_chunks(function: Callable[..., Any]) -> None:
    with pytest.raises(TacclError, match="only synthesize"):
        function(replace(RING, chunks="auto"))
    assert inputs_of(RING).collective.chunks_per_rank == 1

"""Files of templates, written rank by rank, are right for every order that their rules allow."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import examples

import taccl
from taccl.backend.flat_json.of_rank import text_of_ranks
from taccl.backend.flat_json.reader import parse_actions_document
from taccl.backend.flat_json.verify import verify_actions
from taccl.backend.flat_json.writer import actions_to_json
from taccl.backend.target import LoweringOptions
from taccl.model.collectives import EQUAL_PARTS
from taccl.model.template import Template


def planned(name: str, machine: str, nodes: int, chunks: int) -> Template:
    result = taccl.synthesize(
        name, topology=machine, nodes=nodes, size="48MB", chunks=chunks, file=False, template=True, effort=100
    )
    assert result.template is not None
    return result.template


@settings(max_examples=examples(10), deadline=None)
@given(
    st.sampled_from(EQUAL_PARTS),
    st.sampled_from(["a100", "dgx-h100", "ndv2", "gh200"]),
    st.integers(2, 4),
    st.integers(1, 2),
)
def test_the_file_of_all_ranks_verifies(name: str, machine: str, nodes: int, chunks: int) -> None:
    text = "".join(text_of_ranks(planned(name, machine, nodes, chunks), LoweringOptions()))
    document = parse_actions_document(text.encode(), None)
    verification = verify_actions(document)
    assert not verification.findings
    assert actions_to_json(document.whole()) == text


@pytest.mark.parametrize("name", EQUAL_PARTS)
def test_some_ranks_are_those_of_the_whole_file(name: str) -> None:
    template = planned(name, "a100", 3, 1)
    whole = json.loads("".join(text_of_ranks(template, LoweringOptions())))
    part = json.loads("".join(text_of_ranks(template, LoweringOptions(), range(9, 12))))
    assert part["ranks"] == whole["ranks"][9:12]
    assert (part["first_rank"], part["num_ranks"]) == (9, 24)
    assert part["format"] != whole["format"]

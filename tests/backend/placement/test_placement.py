"""Where sums are made: the file says what the schedule does, and every change of it is found."""

import json
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import taccl
from taccl.backend.placement.document import parse_placement
from taccl.backend.placement.lowering import _trees, meeting_places
from taccl.backend.placement.verify import verify_placement
from taccl.errors import FileError, ProgramLimitError, TacclError
from taccl.support.schemas import json_schema

NAMES = ("allreduce", "reducescatter", "reduce")
Content = dict[str, Any]


@cache
def made(name: str) -> taccl.Result:
    """On three GPUs and a server behind a switch."""
    root = 1 if name == "reduce" else None
    return taccl.synthesize(
        *(name,),
        topology="switch:3",
        helpers=1,
        size="3MB",
        root=root,
        chunks=2,
        engine="routes",
        effort=100,
        target="placement",
    )


def findings(content: Content) -> list[str]:
    return [each.message for each in verify_placement(parse_placement(json.dumps(content))).errors]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_says_where_the_schedule_makes_its_sums_and_is_read_back(name: str) -> None:
    result = made(name)
    (file,) = result.files
    document = parse_placement(file.text)
    assert document.places == file.program == meeting_places(result.schedule)
    assert verify_placement(document, collective=result.collective).findings == ()
    Draft202012Validator(json_schema("taccl.placement/1")).validate(json.loads(file.text))
    handed = [each for rank in document.places.ranks for each in (*rank.sums, *rank.copies)]
    assert sum(len(each.chunks) for each in handed) == len(result.schedule)


@pytest.mark.parametrize("name", NAMES)
def test_a_chunk_that_meets_elsewhere_is_left_out_or_goes_twice_is_found(name: str) -> None:
    content = json.loads(made(name).files[0].text)
    assert findings(content) == []
    for chunk in content["chunks"]:
        there, chunk["at"] = chunk["at"], (chunk["at"] + 1) % 4
        assert findings(content)
        chunk["at"] = there
    for rank in content["ranks"]:
        for each in (*rank["sums"], *rank["copies"]):
            to, each["to"] = each["to"], rank["rank"]
            to_itself, each["to"] = findings(content), to
            chunk = each["chunks"].pop()
            left_out = findings(content)
            each["chunks"] += [chunk, chunk]
            twice = findings(content)
            each["chunks"].pop()
            assert to_itself and left_out and twice, (rank["rank"], each)


def test_numbers_that_name_nothing_are_one_line_each() -> None:
    content = json.loads(made("allreduce").files[0].text)
    for change in (
        {"collective": "gossip"},
        {"chunks_per_rank": 3},
        {"chunks_per_rank": "2"},
        {"chunks": content["chunks"][1:]},
        {"ranks": content["ranks"][::-1]},
        {"ranks": [content["ranks"][0] | {"sums": [{"to": 9, "chunks": [0]}]}, *content["ranks"][1:]]},
    ):
        assert findings(content | change)
    with pytest.raises(FileError, match="no JSON object of schema"):
        parse_placement("{}")


@pytest.mark.parametrize("name", NAMES)
def test_sizes_that_do_not_make_the_call_are_found(name: str) -> None:
    content = json.loads(made(name).files[0].text)
    size, each = content["size_bytes"], content["chunks"][0]["bytes"]
    for wrong in (-1, 0, size + 1, 2 * size):
        assert findings(content | {"size_bytes": wrong})
    for wrong in (-each, 0, each + 1):
        assert findings(
            content | {"chunks": [content["chunks"][0] | {"bytes": wrong}, *content["chunks"][1:]]}
        )
        assert findings(content | {"chunks": [chunk | {"bytes": wrong} for chunk in content["chunks"]]})


def test_a_root_is_named_where_there_is_one() -> None:
    for name in NAMES:
        content = json.loads(made(name).files[0].text)
        assert findings({key: value for key, value in content.items() if key != "root"})
    content = json.loads(made("reduce").files[0].text.replace('"root": 1', '"root": null'))
    assert findings(content)


def test_what_sums_nothing_is_refused() -> None:
    with pytest.raises(TacclError, match="allgather makes none"):
        taccl.synthesize("allgather", topology="ring:3", size="3KB", target="placement")


def test_sums_that_several_ranks_make_are_made_by_one_of_them_over_the_same_links() -> None:
    """Few bytes: every rank sends its part to all others, and one of them would do with less."""
    result = taccl.synthesize("allreduce", topology="switch:3", size="3KB", effort=200, target="placement")
    assert result.schedule.sums is not None
    assert len(set(result.files[0].program.at)) == 1


def test_a_sum_that_does_not_lead_back_has_no_place() -> None:
    """Two ranks add what rank 0 sends to both, and nothing leads from one to the other."""
    with pytest.raises(ProgramLimitError, match="makes some sums at several ranks"):
        _trees({0: (0, 1), 1: (0, 2)}, {0, 1}, {0, 1}, {1, 2})

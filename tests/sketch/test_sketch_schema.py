import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from taccl.errors import SketchError
from taccl.sketch import parse_sketch, published_sketches, sketch_schema
from taccl.sketch.model import INTERNODE_STRATEGIES, INTRANODE_STRATEGIES, NIC_SHARINGS, SWITCH_POLICIES

VALIDATOR = jsonschema.Draft7Validator(sketch_schema())


def as_json(text: str) -> Any:
    """A YAML text as an editor's schema checker sees it: keys are strings."""
    return json.loads(json.dumps(yaml.safe_load(text)))


def test_the_schema_is_one_of_draft_7_and_is_json() -> None:
    schema = sketch_schema()
    jsonschema.Draft7Validator.check_schema(schema)
    assert schema["$schema"].startswith("http://json-schema.org/draft-07/")
    assert json.loads(json.dumps(schema)) == schema


def test_a_schema_may_be_changed_by_its_caller() -> None:
    sketch_schema()["properties"].clear()
    assert "intranode" in sketch_schema()["properties"]


def test_the_words_are_those_that_the_loader_takes() -> None:
    inside, between = (sketch_schema()["properties"][key]["properties"] for key in ("intranode", "internode"))
    switch = inside["switches"]["items"]["properties"]
    parts = (inside["strategy"], switch["policy"], between["strategy"], between["nic_sharing"])
    words = (INTRANODE_STRATEGIES, SWITCH_POLICIES, INTERNODE_STRATEGIES, NIC_SHARINGS)
    assert [tuple(part["enum"]) for part in parts] == list(words)


@pytest.mark.parametrize("sketch", published_sketches(), ids=lambda sketch: sketch.name)
def test_every_published_sketch_is_valid(sketch: Any) -> None:
    assert VALIDATOR.is_valid(as_json(Path(sketch.path).read_text(encoding="utf-8")))


def objects(schema: Any) -> list[dict[str, Any]]:
    """Every part of a schema that describes a mapping or a value with a key of its own."""
    if isinstance(schema, list):
        return [part for item in schema for part in objects(item)]
    if not isinstance(schema, dict):
        return []
    here = [schema] if schema.get("type") == "object" else []
    return here + [part for key, value in schema.items() if key != "examples" for part in objects(value)]


def test_every_key_is_described_and_no_mapping_is_open() -> None:
    mappings = objects(sketch_schema())
    assert len(mappings) >= 6
    for mapping in mappings:
        assert mapping["additionalProperties"] is not True
        assert mapping["description"]
        assert all(part["description"] for part in mapping.get("properties", {}).values())


def test_examples_are_valid_themselves() -> None:
    for name, part in sketch_schema()["properties"].items():
        for example in part.get("examples", []):
            document = {"intranode": {"strategy": "none"}, name: example}
            assert VALIDATOR.is_valid(document), (name, example)


NONE = "intranode: {strategy: none}\n"


@pytest.mark.parametrize(
    "text",
    [
        NONE,
        NONE + "internode: {strategy: none}",
        NONE + "internode: {strategy: relay, relay: {0: [1], 3: [2, 4]}, sender_for: {0: [0, 1]}}",
        NONE + "internode: {strategy: direct-map, own_first: true, nic_sharing: static}",
        NONE + "symmetry: []",
        NONE + "symmetry: [[2, 16], [node, machine], {rotate: 1, within: node}, {rotate: node, within: 16}]",
        NONE + "size: 1.5GiB\nnodes: 2\ntopology: a\ndescription: b\nchunks_per_rank: 3",
        NONE + "size: 4096",
        "intranode: {strategy: switch, switches: [{gpus: all}, {gpus: [0, 1], policy: uc-max}]}",
    ],
)
def test_what_the_schema_takes_the_loader_takes(text: str) -> None:
    assert VALIDATOR.is_valid(as_json(text))
    assert parse_sketch(text).intranode.strategy in ("none", "switch")


@pytest.mark.parametrize(
    "text",
    [
        "nodes: 2",
        NONE + "node: 2",
        NONE + "nodes: 0",
        NONE + "nodes: two",
        NONE + "nodes: true",
        NONE + "size: much",
        NONE + "size: 0",
        NONE + "size: [1]",
        NONE + "topology: 7",
        NONE + "topology: ''",
        NONE + "description: ''",
        NONE + "chunks_per_rank: 1.5",
        NONE + "symmetry: [[1]]",
        NONE + "symmetry: [[1, 2, 3]]",
        NONE + "symmetry: [[0, 2]]",
        NONE + "symmetry: [[machine, 2]]",
        NONE + "symmetry: [{rotate: 1}]",
        NONE + "symmetry: [{rotate: 1, within: node, by: 2}]",
        NONE + "symmetry: {rotate: 1, within: node}",
        NONE + "internode: {relay: {0: [1]}}",
        NONE + "internode: {strategy: relay}",
        NONE + "internode: {strategy: relay, relay: {}}",
        NONE + "internode: {strategy: relay, relay: {0: []}}",
        NONE + "internode: {strategy: relay, relay: {0: 1}}",
        NONE + "internode: {strategy: relay, relay: {a: [1]}}",
        NONE + "internode: {strategy: relay, relay: {0: [-1]}}",
        NONE + "internode: {strategy: relay, relay: {0: [1, 1]}}",
        NONE + "internode: {strategy: direct-map, relay: {0: [1]}}",
        NONE + "internode: {strategy: direct-map, sender_for: {}}",
        NONE + "internode: {strategy: direct-map, own_first: 1}",
        NONE + "internode: {strategy: direct-map, nic_sharing: fair}",
        NONE + "internode: {strategy: direct-map, nics: 1}",
        "intranode: {strategy: none, switches: [{gpus: all}]}",
        "intranode: {strategy: switch}",
        "intranode: {strategy: switch, switches: []}",
        "intranode: {strategy: switch, switches: [{policy: uc-min}]}",
        "intranode: {strategy: switch, switches: [{gpus: some}]}",
        "intranode: {strategy: switch, switches: [{gpus: all, police: uc-min}]}",
        "intranode: {strategy: ring}",
        "intranode: {}",
        "intranode: none",
    ],
)
def test_what_the_schema_refuses_the_loader_refuses(text: str) -> None:
    assert not VALIDATOR.is_valid(as_json(text))
    with pytest.raises(SketchError):
        parse_sketch(text)

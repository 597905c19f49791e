from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl.errors import FileError, SketchError, TacclError
from taccl.sketch import Intranode, Relay, Rotation, SenderFor, Switch, load_sketch, parse_sketch

FULL = """\
description: an example
topology: dgx2
nodes: 2
size: 64MB
chunks_per_rank: 2
intranode:
  strategy: switch
  switches:
    - gpus: all
      policy: uc-min
    - gpus: [0, 1]
internode:
  strategy: relay
  relay:
    1: [0]
    3: [2, 4]
  sender_for:
    1: [0, 1]
  own_first: true
  nic_sharing: static
symmetry:
  - {rotate: 2, within: node}
  - [node, machine]
  - [16, 32]
"""


def test_every_key_of_the_language_is_read_with_its_line() -> None:
    sketch = parse_sketch(FULL, "example")
    assert (sketch.name, sketch.description) == ("example", "an example")
    assert (sketch.topology, sketch.nodes, sketch.chunks_per_rank) == ("dgx2", 2, 2)
    assert sketch.size == 64 * 2**20
    assert sketch.intranode == Intranode(
        "switch", (Switch(None, "uc-min", line=9), Switch((0, 1), "none", line=11)), line=7
    )
    assert sketch.internode.relays == (Relay(1, (0,), line=15), Relay(3, (2, 4), line=16))
    assert sketch.internode.sender_for == (SenderFor(1, (0, 1), line=18),)
    assert sketch.internode.own_first
    assert sketch.internode.nic_sharing == "static"
    assert sketch.symmetry == (
        Rotation(2, "node", line=22),
        Rotation("node", "machine", line=23),
        Rotation(16, 32, line=24),
    )


def test_only_intranode_must_be_there() -> None:
    sketch = parse_sketch("intranode: {strategy: none}")
    assert (sketch.topology, sketch.nodes, sketch.size, sketch.chunks_per_rank) == (None, None, None, 1)
    assert sketch.internode.strategy == "none"
    assert sketch.symmetry == ()


def test_a_size_may_be_a_number_of_bytes() -> None:
    assert parse_sketch("size: 4096\nintranode: {strategy: none}").size == 4096


@pytest.mark.parametrize(
    ("change", "line", "message", "hint"),
    [
        (("nodes: 2", "nods: 2"), 3, "unknown key 'nods'", "nodes"),
        (("policy: uc-min", "polcy: uc-min"), 10, "unknown key 'polcy'", "policy"),
        (("own_first: true", "own_frist: true"), 19, "unknown key 'own_frist'", "own_first"),
        (("{rotate: 2,", "{rotat: 2,"), 22, "unknown key 'rotat'", "rotate"),
        (("strategy: switch", "strategy: swich"), 7, "'swich'", "switch"),
        (("strategy: relay", "strategy: relays"), 13, "'relays'", "relay"),
        (("policy: uc-min", "policy: uc-mun"), 10, "'uc-mun'", "uc-min"),
        (("nic_sharing: static", "nic_sharing: dynamic"), 20, "'dynamic'", "static"),
        (("nodes: 2", "nodes: two"), 3, "nodes must be a whole number", None),
        (("nodes: 2", "nodes: 0"), 3, "nodes must be 1 or more", None),
        (("chunks_per_rank: 2", "chunks_per_rank: 1.5"), 5, "chunks_per_rank must be a whole number", None),
        (("size: 64MB", "size: much"), 4, "'much' is not a size", "64KB"),
        (("size: 64MB", "size: -1"), 4, "is not a size", "64KB"),
        (("size: 64MB", "size: [64MB]"), 4, "size must be a size", "64KB"),
        (("topology: dgx2", "topology: [dgx2]"), 2, "topology must be a text", None),
        (("own_first: true", "own_first: maybe"), 19, "own_first must be true or false", None),
        (("1: [0]", "1: 0"), 15, "must be a list", None),
        (("1: [0]", "one: [0]"), 15, "must be the number of a GPU", None),
        (("1: [0]", "-1: [0]"), 15, "must be the number of a GPU", None),
        (("1: [0]", "1: [-1]"), 15, "0 or more", None),
        (("1: [0]", "1: []"), 15, "at least one GPU", None),
        (("[2, 4]", "[2, 2]"), 16, "names GPU 2 twice", None),
        (("3: [2, 4]", "01: [2, 4]"), 16, "two entries for GPU 1", None),
        (("3: [2, 4]", "1: [2, 4]"), 16, "already on line 15", None),
        (("gpus: all", "gpus: some"), 9, "must be a list", None),
        (("[16, 32]", "[16]"), 24, "must have 2 values", None),
        (("[16, 32]", "[0, 32]"), 24, "1 or more", None),
        (("[16, 32]", "[machine, 32]"), 24, "`node` or a number of ranks", None),
        (("[16, 32]", "[16, 2.5]"), 24, "or a number of ranks", None),
    ],
)
def test_a_fault_is_named_with_its_line_and_a_way_out(
    change: tuple[str, str], line: int, message: str, hint: str | None
) -> None:
    with pytest.raises(SketchError) as caught:
        parse_sketch(FULL.replace(*change, 1))
    assert caught.value.line == line
    assert message in caught.value.message
    if hint is not None:
        assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("nodes: 2", "intranode"),
        ("intranode: {switches: [{gpus: all}]}", "strategy"),
        ("intranode: {strategy: switch}", "switches"),
        ("intranode: {strategy: switch, switches: []}", "switches"),
        ("intranode: {strategy: switch, switches: [{policy: uc-min}]}", "gpus"),
        ("intranode: {strategy: none}\ninternode: {relay: {1: [0]}}", "strategy"),
        ("intranode: {strategy: none}\ninternode: {strategy: relay}", "relay"),
        ("intranode: {strategy: none}\nsymmetry: [{rotate: 2}]", "within"),
    ],
)
def test_a_missing_key_is_named(text: str, key: str) -> None:
    with pytest.raises(SketchError) as caught:
        parse_sketch(text)
    assert f"{key!r}" in caught.value.message
    assert caught.value.line is not None


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("intranode: {strategy: none, switches: [{gpus: all}]}", "switches"),
        ("intranode: {strategy: none}\ninternode: {strategy: direct-map, relay: {1: [0]}}", "relay"),
    ],
)
def test_a_key_that_its_strategy_ignores_is_an_error(text: str, key: str) -> None:
    with pytest.raises(SketchError, match=f"{key!r} means nothing with strategy"):
        parse_sketch(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment\n",
        "just words",
        "- a\n- list",
        "intranode: {strategy: none",
        "intranode:\n\tstrategy: none",
        "intranode: [1, 2]",
        "intranode: null",
        "symmetry: 3\nintranode: {strategy: none}",
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nintranode: {strategy: none}",
        "intranode: !!python/object/apply:os.system [ls]",
        "{" * 5000,
    ],
)
def test_what_is_no_sketch_is_refused_as_one(text: str) -> None:
    with pytest.raises(SketchError):
        parse_sketch(text)


@given(st.text(max_size=60))
@settings(max_examples=150, deadline=None)
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        sketch = parse_sketch(text)
    except TacclError as fault:
        assert str(fault)
    else:
        assert sketch.name == "sketch"


def test_an_error_of_a_file_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("nodes: 2\nintranodes: {}\n")
    with pytest.raises(SketchError) as caught:
        load_sketch(path)
    assert str(caught.value).startswith(f"{path}:2: ")


def test_an_empty_file_a_directory_a_binary_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("")
    (tmp_path / "binary.yaml").write_bytes(bytes(range(256)))
    for name in ("empty.yaml", "binary.yaml"):
        with pytest.raises(SketchError):
            load_sketch(tmp_path / name)
    for path in (tmp_path, tmp_path / "missing.yaml"):
        with pytest.raises(FileError):
            load_sketch(path)


def test_a_topology_file_is_found_beside_its_sketch(tmp_path: Path) -> None:
    (tmp_path / "machine.yaml").write_text("name: machine\n")
    (tmp_path / "sketch.yaml").write_text("topology: machine.yaml\nintranode: {strategy: none}\n")
    assert load_sketch(tmp_path / "sketch.yaml").topology == str(tmp_path / "machine.yaml")

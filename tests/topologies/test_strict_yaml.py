import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl.errors import FileError, SketchError, TacclError
from taccl.topologies.strict_yaml import MAX_BYTES, load_yaml, parse_yaml


def value_of(text):
    """The node of the key `v`."""
    return {key.raw: value for key, value in parse_yaml(text, "f.yaml", SketchError).items()}["v"]


def fault(call):
    with pytest.raises(TacclError) as caught:
        call()
    return caught.value


def test_every_value_knows_its_line_and_the_keys_that_lead_to_it():
    root = parse_yaml("a: 1\nv:\n  - b: [1,\n      2]\n")
    (entry,) = root.items()[1][1].elements()
    ((_, numbers),) = entry.items()
    assert [(node.line, node.name) for node in numbers.elements()] == [(3, "v[0].b[0]"), (4, "v[0].b[1]")]


def test_an_unknown_key_is_named_with_its_nearest_neighbour():
    error = fault(lambda: parse_yaml("gpus: 1\nlinsk: 2", "m.yaml", SketchError).mapping(["gpus", "links"]))
    assert isinstance(error, SketchError)
    assert str(error).startswith("m.yaml:2: unknown key 'linsk'")
    assert "'links'" in error.hint


def test_an_unknown_key_like_no_other_brings_the_list_of_keys():
    error = fault(lambda: parse_yaml("zzz: 1").mapping(["gpus", "links"]))
    assert error.hint == "gpus or links"


def test_a_missing_key_is_named():
    error = fault(lambda: parse_yaml("v:\n  a: 1").items()[0][1].mapping(["a"], required=["b"]))
    assert (error.line, error.message) == (2, "v lacks the key 'b'")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1e-6", 1e-6), ("3", 3.0), ("-0.5", -0.5), (".5", 0.5), ("1E3", 1000.0), ("0x10", 16.0)],
)
def test_numbers_are_read_as_people_write_them(text, expected):
    assert value_of(f"v: {text}").number() == expected


@pytest.mark.parametrize("text", ["no", "on", "1:30", "2001-01-01", "NaN", "0-1", '"5"', "1_000"])
def test_what_only_looks_like_a_value_of_another_type_is_text(text):
    assert value_of(f"v: {text}").string() == text.strip('"')


@pytest.mark.parametrize(
    ("text", "check", "message"),
    [
        ("2.5", lambda v: v.integer(), "v must be a whole number, not 2.5"),
        ("true", lambda v: v.integer(), "v must be a whole number, not true"),
        ("x", lambda v: v.number(), "v must be a number, not 'x'"),
        (".nan", lambda v: v.number(), "v must be finite, not .nan"),
        ("-.inf", lambda v: v.number(), "v must be finite, not -.inf"),
        ("1e999", lambda v: v.number(), "v must be finite, not 1e999"),
        ("0", lambda v: v.number(above=0), "v must be positive, not 0"),
        ("-1", lambda v: v.number(minimum=0), "v must be 0 or more, not -1"),
        ("9", lambda v: v.integer(maximum=8), "v must be 8 or less, not 9"),
        ("1", lambda v: v.boolean(), "v must be true or false, not 1"),
        ("4", lambda v: v.string(), "v must be a text, not 4"),
        ('" "', lambda v: v.string(), "v must not be empty"),
        ("", lambda v: v.string(), "v must be a text, not nothing"),
        ("[1]", lambda v: v.items(), "v must be a mapping (key: value), not a list"),
        ("{a: 1}", lambda v: v.elements(), "v must be a list, not a mapping"),
        ("[1, 2, 3]", lambda v: v.elements(length=2), "v must have 2 values, not 3"),
        ("swich", lambda v: v.choice(["none", "switch"]), "v must be none or switch, not 'swich'"),
        ("[a]", lambda v: v.choice(["a", "b"]), "v must be a or b, not a list"),
    ],
)
def test_a_wrong_value_is_named_with_what_it_should_be(text, check, message):
    error = fault(lambda: check(value_of(f"v: {text}")))
    assert (error.message, error.line, error.path) == (message, 1, "f.yaml")


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("", 1, "empty"),
        ("# nothing but this\n", 1, "empty"),
        ("a: [1, 2", 1, "not YAML"),
        ("a: 1\nb: 2\na: 3", 3, "already on line 1"),
        ("a: &x 1\nb: *x", 1, "anchors"),
        ("a: 1\nb: *x", 2, "aliases"),
        ("a: !!python/object:os.system x", 1, "tags"),
        ("[" * 1000, 1, "nested"),
        ("a: 1\n---\nb: 2", 2, "second document"),
        ("? [a]\n: 1", 1, "must be a word or a number"),
        ("a: 1\nb: \x00", 2, "not YAML"),
    ],
)
def test_what_is_not_strict_yaml_is_refused_with_its_line(text, line, part):
    error = fault(lambda: parse_yaml(text, "f.yaml", SketchError))
    assert isinstance(error, SketchError)
    assert error.line == line
    assert part in error.message


def test_a_tab_in_the_indentation_is_called_a_tab():
    assert fault(lambda: parse_yaml("a:\n\tb: 1")).hint == "indent with spaces, not tabs"


def test_json_is_read_with_tabs_and_numbers_as_keys():
    root = parse_yaml('{\n\t"a":1,\n\t"1": [true, null, "x\\/y"]\n}')
    keys = [key for key, _ in root.items()]
    assert [key.content for key in keys] == ["a", 1]
    assert [node.content for node in root.items()[1][1].elements()] == [True, None, "x/y"]


@pytest.mark.parametrize("name", ["profile.json", "costs", None])
def test_json_that_is_wrong_is_called_json(name):
    error = fault(lambda: parse_yaml('{"a": 1,\n "b": [}', name))
    assert (error.message, error.line) == ("this is not JSON: Expecting value", 2)


def test_yaml_that_begins_as_json_does_is_called_yaml():
    assert "this is not YAML: " in fault(lambda: parse_yaml("{a: 1", "f.yaml")).message


def test_a_yaml_bomb_is_refused_where_it_begins():
    bomb = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in pairwise("abcdefgh"))
    assert fault(lambda: parse_yaml(bomb)).line == 1


def test_a_file_that_cannot_be_read_says_why(tmp_path):
    assert isinstance(fault(lambda: load_yaml(tmp_path / "none.yaml", SketchError)), FileError)
    assert "directory" in fault(lambda: load_yaml(tmp_path, SketchError)).message


@pytest.mark.parametrize(
    ("data", "part"),
    [(b"", "empty"), (b"a: 1\nb: \xff\xfe", "UTF-8"), (b"#" * (MAX_BYTES + 1), "larger")],
)
def test_a_file_that_is_no_text_is_refused(tmp_path, data, part):
    path = tmp_path / "f.yaml"
    path.write_bytes(data)
    error = fault(lambda: load_yaml(path, SketchError))
    assert isinstance(error, SketchError)
    assert part in error.message
    assert error.path == str(path)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_either_read_or_refused_by_the_error_asked_for(text):
    try:
        assert parse_yaml(text, error=SketchError).line >= 1
    except SketchError as error:
        assert error.message


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_printed_by_python_is_read_back_exactly(number):
    read = value_of(f"v: {number!r}").number()
    assert read == number
    assert math.copysign(1, read) == math.copysign(1, number)

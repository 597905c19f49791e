"""Files that cannot be read, and texts of several formats: the same words wherever they are read."""

from collections.abc import Callable
from pathlib import Path

import pytest

from taccl.errors import FileError, TopologyError
from taccl.support.reading import Format, any_text, bytes_of, bytes_within, recognized, utf8_text


def test_a_file_is_read_whole_or_by_its_beginning(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"\xef\xbb\xbfabc")
    assert bytes_of(file) == b"\xef\xbb\xbfabc"
    assert bytes_of(file, 4) == b"\xef\xbb\xbfa"
    assert utf8_text(file, 6, TopologyError) == "abc"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("none", "there is no such file"),
        ("", "a directory"),
        ("a\0b", "null"),
        (3, "must be a text or a path"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, path: object, said: str) -> None:
    with pytest.raises(FileError, match=said):
        bytes_of(tmp_path / path if isinstance(path, str) else path)


def test_text_of_any_terminal_is_read_without_what_is_none(tmp_path: Path) -> None:
    file = tmp_path / "f"
    for data in ("ab".encode("utf-16"), b"\xef\xbb\xbfab", b"ab"):
        file.write_bytes(data)
        assert any_text(file, 10, TopologyError) == "ab"
    file.write_bytes(b"a\xffb")
    assert any_text(file, 10, TopologyError) == "a\ufffdb"


def test_a_file_that_is_too_large_or_no_text_is_an_error_of_the_kind_that_is_asked_for(
    tmp_path: Path,
) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"ab\n\xff")
    with pytest.raises(TopologyError, match="larger than 0 MB") as refused:
        bytes_within(file, 3, TopologyError, hint="cut it")
    assert refused.value.hint == "cut it"
    with pytest.raises(TopologyError, match="UTF-8") as refused:
        utf8_text(file, 4, TopologyError)
    assert refused.value.line == 2


def test_the_first_format_that_knows_a_text_is_taken() -> None:
    letters = Format("letters", "some letters", str.isalpha, str.upper)
    all_of_it = Format("words", "anything with a space", lambda text: " " in text, str.title)
    formats: tuple[Format[Callable[[str], str]], ...] = (letters, all_of_it)
    assert recognized("ab", None, formats, TopologyError, "no words").name == "letters"
    assert recognized("a b", None, formats, TopologyError, "no words").name == "words"
    with pytest.raises(TopologyError, match="no words") as refused:
        recognized("12", "x", formats, TopologyError, "no words")
    assert refused.value.hint == "one of: some letters; anything with a space"
    with pytest.raises(TopologyError, match="this is empty"):
        recognized("\n", "x", formats, TopologyError, "no words")

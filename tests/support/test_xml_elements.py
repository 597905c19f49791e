"""The one reader of XML: what it refuses of every file, and what a kind of file may have."""

from dataclasses import replace

import pytest

from taccl.errors import TopologyError, XmlError
from taccl.support.xml_elements import MAX_TEXT_LENGTH, Dialect, parse_elements

PLAIN = Dialect("test file", "write it again", max_bytes=2**22, max_depth=4)
NAMED = replace(PLAIN, may_name_type=True)
TEXTUAL = replace(PLAIN, may_hold_text=True)

DOCTYPE = b'<!DOCTYPE a SYSTEM "/etc/passwd">\n<a><b/></a>'


def test_a_type_may_be_named_where_the_kind_of_file_has_one_and_is_not_read():
    (root,) = parse_elements(DOCTYPE, None, NAMED)
    assert (root.tag, root.line, [child.tag for child in root.children]) == ("a", 2, ["b"])


@pytest.mark.parametrize(
    ("data", "dialect"),
    [
        (DOCTYPE, PLAIN),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><a/>', NAMED),
        (b'<!DOCTYPE a SYSTEM "x" [<!ELEMENT a ANY>]><a/>', NAMED),
        (b"<!DOCTYPE a []><a/>", NAMED),
    ],
)
def test_a_type_that_declares_anything_is_refused_in_every_kind(data, dialect):
    with pytest.raises(XmlError, match="document types and entities") as refused:
        parse_elements(data, "x.xml", dialect)
    assert (refused.value.path, refused.value.line) == ("x.xml", 1)


def test_text_is_kept_where_the_kind_of_file_has_it():
    data = b"<a>\n<b>1 2\n3 </b>\n<b/></a>"
    (root,) = parse_elements(data, None, TEXTUAL)
    assert [child.text for child in root.children] == ["1 2\n3 ", ""]
    with pytest.raises(XmlError, match="text stands between elements"):
        parse_elements(data, None, PLAIN)


def test_long_text_keeps_its_words_apart_and_longer_text_is_refused():
    words = [str(number) for number in range(50_000)]
    (root,) = parse_elements(f"<a>{' '.join(words)}</a>".encode(), None, TEXTUAL)
    assert root.text.split() == words
    with pytest.raises(XmlError, match="text of an element"):
        parse_elements(b"<a>" + b"x " * MAX_TEXT_LENGTH + b"</a>", None, TEXTUAL)


def test_the_error_is_that_of_the_kind_of_file():
    with pytest.raises(TopologyError):
        parse_elements(b"<a>", None, replace(PLAIN, error=TopologyError))

"""Any bytes to a tree of elements with line numbers, or an error with its line.

This is the only place that meets hostile XML. The parser is expat with everything that makes XML dangerous
refused: entities, document types with anything in them, deep nesting, huge files and attributes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from taccl.errors import TacclError, XmlError

MAX_ELEMENTS = 4_000_000
MAX_ATTRIBUTES = 256
MAX_VALUE_LENGTH = 4096
#: Of the text inside one element, in characters.
MAX_TEXT_LENGTH = 2**20
#: Elements one after the other at the top of a file; the runtimes take the first algo.
MAX_ROOTS = 64
#: Comments may stand before the first element, but no chapters.
_BEGINNING = 2**16
_JUNK_AFTER_ROOT = expat.errors.codes[expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT]


@dataclass(frozen=True)
class Dialect:
    """What a kind of XML file may be.

    Parameters
    ----------
    what : what it holds, for messages: `MSCCL program`.
    hint : what to do about a file that is not well formed.
    max_bytes, max_depth : larger and deeper ones are refused.
    error : the error that is raised.
    may_name_type : whether `<!DOCTYPE name SYSTEM "file">` may stand at the top. What it names is not read,
        and one that declares anything itself is refused all the same.
    may_hold_text : whether elements may have text inside, such as the numbers of a matrix.
    """

    what: str
    hint: str
    max_bytes: int
    max_depth: int
    error: type[TacclError] = XmlError
    may_name_type: bool = False
    may_hold_text: bool = False


def begins_with(root: re.Pattern[str], text: str) -> bool:
    """Whether an element that `root` matches begins near the start of a text, well formed or not."""
    return root.search(text, 0, _BEGINNING) is not None


@dataclass(slots=True, eq=False)
class Element:
    """One element as it was written: attributes in their order, nothing interpreted.

    `text` is all that stands between its tags and is not in a child; empty unless the dialect has text.
    """

    tag: str
    line: int
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    text: str = ""


def parse_elements(
    data: bytes, path: str | None, dialect: Dialect, encoding: str | None = None
) -> tuple[Element, ...]:
    """The element of an XML text, and further ones where several stand one after the other.

    Parameters
    ----------
    data : the text.
    path : for messages only.
    dialect : what kind of file it is.
    encoding : what `data` is known to be encoded in; None leaves it to the text itself.

    Raises
    ------
    TacclError : the dialect's; it is not well formed, has a document type or text, or is over a bound.
    """
    if len(data) > dialect.max_bytes:
        what = f"the file has more than {dialect.max_bytes} bytes, which no {dialect.what} needs"
        raise dialect.error(what, path=path)
    roots: list[Element] = []
    begin, line, seen = 0, 1, 0
    while True:
        builder = _Builder(path, dialect, encoding, line, seen)
        try:
            builder.parser.Parse(data[begin:] if begin else data, True)
        except expat.ExpatError as error:
            begin += builder.parser.ErrorByteIndex
            line += error.lineno - 1
            if error.code == _JUNK_AFTER_ROOT and _is_element(data, begin) and len(roots) < MAX_ROOTS:
                roots.append(builder.root)
                seen = builder.seen
                continue
            raise dialect.error(
                f"this is not well-formed XML: {expat.ErrorString(error.code)}",
                path=path,
                line=max(1, line),
                hint=dialect.hint,
            ) from None
        except (LookupError, ValueError) as error:
            raise dialect.error(f"the text encoding cannot be read: {error}", path=path, line=1) from None
        return (*roots, builder.root)


def _is_element(data: bytes, place: int) -> bool:
    return data[place : place + 1] == b"<" and data[place + 1 : place + 2].isalpha()


class _Builder:
    """Handlers of one parse. expat calls them; what they raise passes through expat."""

    def __init__(
        self, path: str | None, dialect: Dialect, encoding: str | None, line: int, seen: int
    ) -> None:
        self.path, self.dialect = path, dialect
        self.seen = seen
        self._line = line
        self.root = Element("", 0, {})
        self._open: list[Element] = []
        self.parser = expat.ParserCreate(encoding)
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.EntityDeclHandler = self._entity

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self.seen += 1
        if len(self._open) >= self.dialect.max_depth:
            self._refuse(f"elements are nested more than {self.dialect.max_depth} deep")
        if self.seen > MAX_ELEMENTS:
            self._refuse(f"the file has more than {MAX_ELEMENTS} elements")
        if len(attributes) > MAX_ATTRIBUTES:
            self._refuse(f"an element has more than {MAX_ATTRIBUTES} attributes")
        for name, value in attributes.items():
            if len(name) + len(value) > MAX_VALUE_LENGTH:
                self._refuse(f"attribute {name[:40]} has more than {MAX_VALUE_LENGTH} characters")
        element = Element(tag, self._current_line(), attributes)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def _end(self, tag: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        element = self._open[-1]
        if text.isspace() and not element.text:
            return
        if not self.dialect.may_hold_text:
            self._refuse(f"text stands between elements: {text.strip()[:40]!r}", hint="remove it")
        if len(element.text) + len(text) > MAX_TEXT_LENGTH:
            self._refuse(f"the text of an element has more than {MAX_TEXT_LENGTH} characters")
        element.text += text

    def _doctype(self, name: str, system: str | None, public: str | None, declares: int) -> None:
        if declares or not self.dialect.may_name_type:
            self._entity()

    def _entity(self, *_: object) -> None:
        self._refuse("document types and entities are not allowed", hint="remove the <!DOCTYPE ...> part")

    def _current_line(self) -> int:
        return self._line + self.parser.CurrentLineNumber - 1

    def _refuse(self, message: str, hint: str | None = None) -> NoReturn:
        raise self.dialect.error(message, path=self.path, line=self._current_line(), hint=hint)

"""YAML (and so JSON) read strictly: every value knows its line, and nothing is guessed.

Scalars follow the core schema of YAML 1.2: `no`, `on` and `1:30` are text, `1e-6` is a number. A
quoted key that reads as a number is one, since JSON has no other way to write it.
Refused, each with its line: anchors and aliases (nothing can expand), tags, duplicate keys, keys that
are not scalars, several documents, nesting deeper than MAX_DEPTH, files larger than MAX_BYTES.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import yaml

from taccl.errors import TacclError
from taccl.support.reading import utf8_text

MAX_BYTES = 2**20
MAX_DEPTH = 20

Scalar = str | int | float | bool | None
#: A word out of a fixed choice, such as a Literal.
Word = TypeVar("Word", bound=str)

_NULL = re.compile(r"|~|null|Null|NULL")
_TRUE, _FALSE = re.compile(r"true|True|TRUE"), re.compile(r"false|False|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]{1,40}")
_BASED = re.compile(r"0o[0-7]{1,40}|0x[0-9a-fA-F]{1,40}")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)


@dataclass(frozen=True)
class Source:
    """Where nodes come from, and the error that their faults raise."""

    path: str | None
    error: type[TacclError]


@dataclass(frozen=True)
class Node:
    """A value of a YAML file: `content` is a scalar, a tuple of nodes, or a tuple of (key, value) nodes.

    Parameters
    ----------
    content : the value; for a mapping, the pairs in the order of the file.
    kind : `mapping`, `list`, `text`, `integer`, `number`, `boolean` or `null`.
    line : where it starts, from 1.
    name : how messages call it: the keys that lead to it, such as `node.links[2].alpha_us`.
    raw : a scalar as it was written, without quotes.
    """

    content: Scalar | tuple[Node, ...] | tuple[tuple[Node, Node], ...]
    kind: str
    line: int
    name: str
    source: Source = field(repr=False)
    raw: str = ""

    def error(self, message: str, hint: str | None = None) -> TacclError:
        """The error to raise for a fault of this value: it has the file and the line."""
        return self.source.error(message, path=self.source.path, line=self.line, hint=hint)

    def mapping(self, allowed: Collection[str], required: Collection[str] = ()) -> dict[str, Node]:
        """Key -> value, where only keys in `allowed` (and `required`) may be, and `required` must be."""
        known = [*allowed, *(key for key in required if key not in allowed)]
        found = {}
        for key, value in self.items():
            if key.raw not in known:
                raise key.error(f"unknown key {key.raw!r} in {self.name}", hint=nearest(key.raw, known))
            found[key.raw] = value
        missing = [key for key in required if key not in found]
        if missing:
            raise self.error(f"{self.name} lacks the key {missing[0]!r}", hint=f"add '{missing[0]}: ...'")
        return found

    def keys(self, *required: str) -> dict[str, Node]:
        """Key -> value of a mapping whose keys are free, but for some that must be there."""
        found = {key.raw: value for key, value in self.items()}
        for key in required:
            if key not in found:
                raise self.error(f"{self.name} lacks the key {key!r}")
        return found

    def named(self, key: str) -> str:
        """The scalar under a key of a mapping, which must not be empty."""
        value = self.keys().get(key)
        if value is None or not value.raw:
            raise self.error(f"{self.name} lacks the key {key!r}")
        return value.raw

    def items(self) -> tuple[tuple[Node, Node], ...]:
        """The (key, value) pairs of a mapping whose keys are free."""
        self._expect("mapping", "a mapping (key: value)")
        parts = self.content if isinstance(self.content, tuple) else ()
        return tuple(part for part in parts if isinstance(part, tuple))

    def elements(self, length: int | None = None) -> tuple[Node, ...]:
        """The values of a list; there must be `length` of them, if that is given."""
        self._expect("list", "a list")
        parts = self.content if isinstance(self.content, tuple) else ()
        nodes = tuple(part for part in parts if isinstance(part, Node))
        if length is not None and len(nodes) != length:
            raise self.error(f"{self.name} must have {length} values, not {len(nodes)}")
        return nodes

    def string(self) -> str:
        """A text that is not empty. `raw` is there where a number will do as well."""
        self._expect("text", "a text")
        if not self.raw.strip():
            raise self.error(f"{self.name} must not be empty")
        return self.raw

    def boolean(self) -> bool:
        """True or false."""
        self._expect("boolean", "true or false")
        return bool(self.content)

    def integer(self, minimum: int | None = None, maximum: int | None = None) -> int:
        """A whole number, from `minimum` to `maximum`."""
        self._expect("integer", "a whole number")
        value = self.content
        assert isinstance(value, int)  # as its kind says
        self._check_range(value, minimum, maximum)
        return value

    def number(
        self, minimum: float | None = None, maximum: float | None = None, above: float | None = None
    ) -> float:
        """A finite number, from `minimum` to `maximum`, and larger than `above`."""
        if self.kind != "integer":
            self._expect("number", "a number")
        assert isinstance(self.content, int | float)  # as its kind says
        value = float(self.content)
        if not math.isfinite(value):
            raise self.error(f"{self.name} must be finite, not {self.raw}")
        if above is not None and not value > above:
            what = "positive" if above == 0 else f"more than {above:g}"
            raise self.error(f"{self.name} must be {what}, not {self.raw}")
        self._check_range(value, minimum, maximum)
        return value

    def choice(self, options: Sequence[Word]) -> Word:
        """One of the words in `options`."""
        for option in options:
            if option == self.raw and not isinstance(self.content, tuple):
                return option
        raise self.error(
            f"{self.name} must be {_listing(options)}, not {self.described}",
            hint=nearest(self.raw, options),
        )

    @property
    def described(self) -> str:
        """The value as messages show it."""
        shown = self.raw if len(self.raw) <= 40 else f"{self.raw[:37]}..."
        return {"mapping": "a mapping", "list": "a list", "null": "nothing", "text": repr(shown)}.get(
            self.kind, shown
        )

    def _expect(self, kind: str, what: str) -> None:
        if self.kind != kind:
            hint = "put it in quotes" if kind == "text" and self.raw else None
            raise self.error(f"{self.name} must be {what}, not {self.described}", hint=hint)

    def _check_range(self, value: float, minimum: float | None, maximum: float | None) -> None:
        if minimum is not None and value < minimum:
            raise self.error(f"{self.name} must be {minimum:g} or more, not {self.raw}")
        if maximum is not None and value > maximum:
            raise self.error(f"{self.name} must be {maximum:g} or less, not {self.raw}")


def nearest(word: str, options: Collection[str]) -> str:
    """A hint for a word that is none of `options`: the nearest of them, or all when none is near."""
    near = difflib.get_close_matches(word, list(options), n=1, cutoff=0.6)
    return f"{near[0]!r}" if near else _listing(list(options))


def _listing(options: Sequence[str]) -> str:
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"


def load_yaml(path: str | Path, error: type[TacclError] = TacclError) -> Node:
    """The contents of a YAML or JSON file.

    Raises
    ------
    FileError : the file is not there, is a directory, or cannot be read.
    error : the file is empty, too large, not text, or not what this module's head calls strict YAML.
    """
    return parse_yaml(utf8_text(path, MAX_BYTES, error), path, error)


def parse_yaml(text: str, path: str | Path | None = None, error: type[TacclError] = TacclError) -> Node:
    """The one document in `text`; `path` is for messages. Raises `error` as `load_yaml` does."""
    source = Source(None if path is None else str(path), error)
    if text.lstrip()[:1] in ("{", "["):
        text = text.replace("\t", " ")  # JSON may be indented with tabs, which YAML forbids
    try:
        events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return _Composer(source).document(events)
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        reason = " ".join(part for part in (fault.context, fault.problem) if part)
        if (no_json := _not_json(text, path)) is not None:
            raise error(f"this is not JSON: {no_json.msg}", path=path, line=no_json.lineno) from None
        lines = text.splitlines()
        line = None if mark is None else max(1, min(mark.line + 1, len(lines)))  # a fault may be at the end
        hint = "indent with spaces, not tabs" if line and "\t" in "".join(lines[line - 1 : line]) else None
        raise error(f"this is not YAML: {reason}", path=path, line=line, hint=hint) from None
    except UnicodeError:
        raise error("this is not YAML: it is not text in UTF-8", path=path) from None
    except yaml.reader.ReaderError as fault:
        line = text.count("\n", 0, fault.position) + 1
        raise error(f"this is not YAML: {fault.reason}", path=path, line=line) from None


def _not_json(text: str, path: str | Path | None) -> json.JSONDecodeError | None:
    """What is wrong with a file that is called JSON, or else looks like it; None: it is right, or is YAML."""
    suffix = "" if path is None else Path(path).suffix.lower()
    if suffix != ".json" and (suffix in (".yaml", ".yml") or text.lstrip()[:1] not in ("{", "[")):
        return None
    try:
        json.loads(text)
    except json.JSONDecodeError as fault:
        return fault
    except (RecursionError, ValueError):  # too deep, or a number of too many digits
        return None
    return None


class _Composer:
    """Builds nodes from the events of a YAML parser; its depth of recursion is bounded by MAX_DEPTH."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def document(self, events: Iterator[yaml.Event]) -> Node:
        root = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    raise self._error(event, "a second document starts here; only one is read")
                root = self._node(next(events), events, "the file", "", 0)
        if root is None or root.kind == "null":
            raise self.source.error("the file is empty", path=self.source.path, line=1)
        return root

    def _node(
        self, event: yaml.Event, events: Iterator[yaml.Event], name: str, prefix: str, depth: int
    ) -> Node:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise self._error(event, "anchors and aliases (& and *) are not read", "write the value out")
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!":
            raise self._error(event, f"tags are not read, such as {tag!r}", "leave it out")
        if depth > MAX_DEPTH:
            raise self._error(event, f"values are nested more than {MAX_DEPTH} deep")
        line = _line(event)
        if isinstance(event, yaml.MappingStartEvent):
            return Node(self._pairs(events, name, prefix, depth), "mapping", line, name, self.source)
        if isinstance(event, yaml.SequenceStartEvent):
            elements: list[Node] = []
            while not isinstance(event := next(events), yaml.SequenceEndEvent):
                place = f"{prefix or 'list'}[{len(elements)}]"
                elements.append(self._node(event, events, place, place, depth + 1))
            return Node(tuple(elements), "list", line, name, self.source)
        assert isinstance(event, yaml.ScalarEvent)
        content, kind = _scalar(event.value) if event.implicit[0] else (event.value, "text")
        return Node(content, kind, line, name, self.source, event.value)

    def _pairs(
        self, events: Iterator[yaml.Event], name: str, prefix: str, depth: int
    ) -> tuple[tuple[Node, Node], ...]:
        pairs: dict[str, tuple[Node, Node]] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                raise self._error(event, f"a key in {name} must be a word or a number")
            key = self._node(event, events, f"a key in {name}", "", depth + 1)
            content, kind = _scalar(key.raw)
            key = replace(key, content=content, kind=kind)
            if key.raw in pairs:
                first = pairs[key.raw][0].line
                raise key.error(f"the key {key.raw!r} of {name} is already on line {first}")
            place = f"{prefix}.{key.raw}" if prefix else key.raw
            pairs[key.raw] = (key, self._node(next(events), events, place, place, depth + 1))
        return tuple(pairs.values())

    def _error(self, event: yaml.Event, message: str, hint: str | None = None) -> TacclError:
        return self.source.error(message, path=self.source.path, line=_line(event), hint=hint)


def _line(event: yaml.Event) -> int:
    return 1 if event.start_mark is None else event.start_mark.line + 1


def _scalar(text: str) -> tuple[Scalar, str]:
    """The value and kind of a plain scalar."""
    if _NULL.fullmatch(text):
        return None, "null"
    if _TRUE.fullmatch(text) or _FALSE.fullmatch(text):
        return _TRUE.fullmatch(text) is not None, "boolean"
    if _INTEGER.fullmatch(text):
        return int(text), "integer"
    if _BASED.fullmatch(text):
        return int(text, 0), "integer"
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan")), "number"
    return text, "text"

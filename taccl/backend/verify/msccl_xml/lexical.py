"""How a file is written: what the runtimes' own scanner takes, which is far less than XML.

The scanner reads elements, comments and nothing else: no declaration, no tabs, one blank between
attributes, double quotes, no line break inside a tag. What expat has read without complaint may
still be thrown away by every runtime, so the raw text is looked at here once more.
"""

from __future__ import annotations

import re

from taccl.backend.machine.report import Collector, Finding
from taccl.backend.verify.msccl_xml.limits import (
    BLOCK_ATTRIBUTES,
    GPU_ATTRIBUTES,
    MAX_ATTRIBUTE_LENGTH,
    MAX_ATTRIBUTES,
    RUNTIMES,
    STEP_ATTRIBUTES,
)

ALL = tuple(runtime.name for runtime in RUNTIMES)

_BETWEEN = re.compile(rb"[ \n\r]*")
_OPENING = re.compile(rb'<[A-Za-z_][\w.:-]*(?: +[A-Za-z_][\w.:-]*="[^"]*")* */?>')
_CLOSING = re.compile(rb"</[A-Za-z_][\w.:-]*>")
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_ANY_TAG = re.compile(rb"<(?:[^>\"']|\"[^\"]*\"|'[^']*')*>")
_ATTRIBUTE = re.compile(rb' ([A-Za-z_][\w.:-]*)="([^"]*)"| ')
_VALUES = re.compile(rb"\"[^\"]*\"|'[^']*'")

_NEEDED = frozenset(GPU_ATTRIBUTES + BLOCK_ATTRIBUTES + STEP_ATTRIBUTES) | frozenset().union(
    *(runtime.algo_attributes for runtime in RUNTIMES)
)


def check_text(text: bytes, collector: Collector) -> None:
    """Findings for everything that the scanner refuses or loses; the text is known to be XML."""
    if b"\0" in text:
        collector.add(_refused(1, "the file is not plain ASCII", "save it as ASCII or UTF-8 without a BOM"))
        return
    place, line, counted = 0, 1, 0
    while True:
        between = _BETWEEN.match(text, place)
        place = place if between is None else between.end()
        if place >= len(text):
            return
        line += text.count(b"\n", counted, place)
        counted = place
        opening = _OPENING.match(text, place)
        if opening is not None:
            _check_tag(opening.group(), line, collector)
            place = opening.end()
            continue
        closing = _CLOSING.match(text, place)
        if closing is not None:
            place = closing.end()
            continue
        comment = _COMMENT.match(text, place)
        if comment is not None:
            _check_comment(comment.group(), line, collector)
            place = comment.end()
            continue
        finding, place = _diagnose(text, place, line)
        collector.add(finding)


def _refused(line: int, message: str, hint: str) -> Finding:
    return Finding(
        "structure", "error", "scanner", message, line=line, runtimes=ALL, hint=hint, refusal="load"
    )


def _diagnose(text: bytes, place: int, line: int) -> tuple[Finding, int]:
    """What is wrong at `place`, and where to go on."""
    if text.startswith(b"\xef\xbb\xbf", place):
        return _refused(line, "a byte order mark stands here", "save the file without it"), place + 3
    if text.startswith(b"<?", place):
        end = text.find(b"?>", place)
        message = "an XML declaration or processing instruction stands here, which the runtimes do not read"
        return _refused(line, message, "remove the <? ... ?> part"), len(text) if end < 0 else end + 2
    tag = _ANY_TAG.match(text, place)
    if tag is None:
        following = text.find(b"<", place + 1)
        what = "a tab stands" if text[place : place + 1] == b"\t" else "something other than blanks stands"
        finding = _refused(line, f"{what} between elements", "use blanks and line breaks only")
        return finding, len(text) if following < 0 else following
    return _refused(line, *_fault_of_tag(tag.group())), tag.end()


def _fault_of_tag(tag: bytes) -> tuple[str, str]:
    outside = _VALUES.sub(b"''", tag)
    if any(byte in outside for byte in (b"\n", b"\r")):
        return "there is a line break inside the tag", "write each tag on one line"
    if b"\t" in outside:
        return "there is a tab inside the tag", "separate attributes by one blank"
    if re.search(rb" =|= ", outside):
        return "there are blanks round =", 'write key="value"'
    if b"='" in tag:
        return "a value is in single quotes", "use double quotes"
    if tag.startswith(b"</"):
        return "there is a blank in the closing tag", "write </name>"
    return "this is no plain element or comment", 'write <name key="value">'


def _check_comment(comment: bytes, line: int, collector: Collector) -> None:
    if b"=" in re.split(rb"\s", comment[4:-3], maxsplit=1)[0]:
        message = "the word right after <!-- contains =, which the runtimes take for an attribute"
        collector.add(_refused(line, message, "put a blank after <!--"))


def _check_tag(tag: bytes, line: int, collector: Collector) -> None:
    if tag.count(b" ") > MAX_ATTRIBUTES:
        _check_slots(tag, line, collector)
    if len(tag) > MAX_ATTRIBUTE_LENGTH:
        _check_lengths(tag, line, collector)
    if b"&" in tag:
        _check_entities(tag, line, collector)
    if not tag.isascii():
        collector.add(
            Finding(
                "structure",
                "warning",
                "not-ascii",
                "there are characters beyond ASCII in the tag",
                line=line,
                hint="use plain ASCII",
            )
        )


def _check_slots(tag: bytes, line: int, collector: Collector) -> None:
    """Each blank takes one of 16 slots, and attributes beyond the last slot are lost."""
    slots = [match.group(1) for match in _ATTRIBUTE.finditer(tag)]
    lost = [name.decode("ascii", "replace") for name in slots[MAX_ATTRIBUTES:] if name]
    if lost:
        needed = [name for name in lost if name in _NEEDED]
        collector.add(
            Finding(
                "structure",
                "error" if needed else "warning",
                "too-many-attributes",
                f"only {MAX_ATTRIBUTES} attributes are kept; {', '.join(lost)} come after them and are lost",
                line=line,
                runtimes=ALL,
                hint="remove attributes that no runtime reads, and double blanks",
                refusal="load" if needed else None,
            )
        )


def _check_lengths(tag: bytes, line: int, collector: Collector) -> None:
    for match in _ATTRIBUTE.finditer(tag):
        if match.group(1) and max(map(len, match.groups())) > MAX_ATTRIBUTE_LENGTH:
            name = match.group(1)[:40].decode("ascii", "replace")
            collector.add(
                Finding(
                    "structure",
                    "error",
                    "long-attribute",
                    f"attribute {name} has more than {MAX_ATTRIBUTE_LENGTH} characters, which overwrites the "
                    "runtimes' memory",
                    line=line,
                    runtimes=ALL,
                    hint="shorten it",
                )
            )


def _check_entities(tag: bytes, line: int, collector: Collector) -> None:
    for match in _ATTRIBUTE.finditer(tag):
        name, value = match.groups()
        if value and b"&" in value and name != b"name":
            message = (
                f"attribute {name.decode('ascii', 'replace')} is written with &...;, which is not decoded"
            )
            collector.add(_refused(line, message, "write the character itself"))

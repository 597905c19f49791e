"""Numbers of a machine's YAML file put in place of others, with all else of the file as it was."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from taccl.errors import TopologyError

_COMMENT = re.compile(r"\s#\s?(.*)$")


@dataclass(frozen=True)
class Edit:
    """A number for the place that keys lead to.

    Parameters
    ----------
    keys : `("node", "links", 2, "alpha_us")`; a number counts the entries of a list.
    value : the number as it will be written.
    comment : how it is known; it stands at the end of the line.
    """

    keys: tuple[str | int, ...]
    value: str
    comment: str


def with_numbers(text: str, edits: Sequence[Edit]) -> str:
    """The text with these numbers, each with its comment; what a line's comment said before stands behind it.

    Raises
    ------
    TopologyError : the keys of an edit lead to no number.
    """
    # tabs are as `parse_yaml` takes them: JSON may be indented with them
    plain = text.replace("\t", " ") if text.lstrip()[:1] in ("{", "[") else text
    root = yaml.compose(plain, Loader=yaml.SafeLoader)
    found = sorted(
        ((_scalar(root, edit.keys), edit) for edit in edits), key=lambda each: -each[0].start_mark.index
    )
    comments: dict[int, list[str]] = {}
    after: dict[int, int] = {}  # line -> the column behind its last edited number
    for node, edit in found:
        line = node.end_mark.line
        before = text[node.start_mark.index : node.end_mark.index]
        comments.setdefault(line, []).insert(
            0, _one_line(f"{edit.keys[-1]}: {edit.comment}, before {before}")
        )
        grown = len(edit.value) - len(before)
        after[line] = after[line] + grown if line in after else node.end_mark.column + grown
        text = text[: node.start_mark.index] + edit.value + text[node.end_mark.index :]
    lines = text.split("\n")
    for line, said in comments.items():
        lines[line] = _commented(lines[line], after[line], said)
    return "\n".join(lines)


def _scalar(root: yaml.Node | None, keys: tuple[str | int, ...]) -> yaml.ScalarNode:
    node = root
    for key in keys:
        if isinstance(node, yaml.MappingNode):
            node = next((value for name, value in node.value if name.value == key), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            node = node.value[key]
        else:
            node = None
    if not isinstance(node, yaml.ScalarNode):
        raise TopologyError(f"the machine has no number at {'.'.join(map(str, keys))}")
    return node


def _commented(line: str, behind: int, said: list[str]) -> str:
    """The line with its comment; `behind` is a column left of which no comment begins."""
    ending = "\r" if line.endswith("\r") else ""
    line = line.removesuffix("\r")
    old = _COMMENT.search(line, behind)
    if old is not None:
        said = [*said, old[1]] if old[1].strip() else said
        line = line[: old.start()]
    return f"{line.rstrip()}  # {'; '.join(said)}{ending}"


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)

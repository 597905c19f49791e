"""What happens to a paste between a terminal and a file: hypothesis strategies that take a text apart."""

import re

from hypothesis import strategies as st
from verdicts import DUMPS

from taccl.errors import TacclError
from taccl.topologies.importers.nodes.facts import Dump


def dump_text(name: str) -> tuple[str, str]:
    """A real dump and its path."""
    file = DUMPS / name
    return file.read_text(encoding="utf-8"), str(file)


@st.composite
def mutilated(draw: st.DrawFn, text: str) -> str:
    """A text after up to four accidents; nothing is added that was not in it, but spaces."""
    for _ in range(draw(st.integers(1, 4))):
        lines = text.split("\n")
        what = draw(st.sampled_from(("cut", "delete", "repeat", "swap", "tabs", "character", "strip")))
        first, second = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        place = draw(st.integers(0, len(text)))
        if what == "cut":
            text = text[:place]
        elif what == "delete":
            text = "\n".join(lines[:first] + lines[first + 1 :])
        elif what == "repeat":
            text = "\n".join(lines[: first + 1] + lines[first:])
        elif what == "swap":
            lines[first], lines[second] = lines[second], lines[first]
            text = "\n".join(lines)
        elif what == "tabs":
            lines[first] = " ".join(lines[first].split())
            text = "\n".join(lines)
        elif what == "character":
            text = text[:place] + text[place + 1 :]
        else:
            text = "\n".join(line.strip() for line in lines)
        if not text:
            break
    return text


def reported(read, text: str) -> Dump | None:
    """The dump, or None where it is refused as a user's mistake is: with the file and the line."""
    try:
        return read(text, "x.txt")
    except TacclError as refused:
        assert refused.path == "x.txt"
        assert refused.line is not None
        assert 1 <= refused.line <= len(re.split("\r\n|\r|\n", text))
        return None


def linked(dump: Dump) -> set[frozenset[str | int | None]]:
    """The pairs of GPUs that have a link, by bus id, or else by the tool's index."""
    names = [gpu.busid or gpu.dev for gpu in dump.gpus]
    return {
        frozenset((names[link.a], "switch" if link.b is None else names[link.b])) for link in dump.links or ()
    }

"""The lines `RCCL_TREES=...` and `NCCL_RINGS=...`, read as RCCL does, by a grammar of our own.

Nothing here knows how such lines are written: it is a second opinion on them. RCCL skips a line that it does
not understand without a word, so whatever is doubtful is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from taccl.backend.graphs.document import ROOT
from taccl.backend.graphs.found import Fault, FoundChannel, FoundGraph, GraphsDocument
from taccl.errors import FileError

READERS = ("rccl",)
_LINE = re.compile(r"^\s*(?:export\s+)?(NCCL_RINGS|RCCL_TREES)\s*=")
_NUMBER = re.compile(r"[0-9]{1,6}")
_TOKEN = re.compile(r"[0-9]+|[()]|.", re.DOTALL)
#: Linux hands no longer string to a program.
_LONGEST = 131_071
#: GPUs that one may send to in a tree, besides the one above it.
_MOST_BELOW = 3
_SKIPS = "RCCL skips what it does not understand without a word; write it again"


def is_environment(content: bytes) -> bool:
    """Whether a text sets one of the variables in its first lines, well formed or not."""
    text = content[:4096].decode("utf-8", "replace").lstrip("\ufeff")
    return any(_LINE.match(line) for line in text.splitlines()[:20])


def read_environment(content: str | bytes, path: str | None = None) -> GraphsDocument:
    """All graphs that lines for a shell set, and what is wrong with them.

    Raises
    ------
    FileError : no line sets one of the two variables.
    """
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    graphs: list[FoundGraph] = []
    faults: list[Fault] = []
    for number, line in enumerate(text.lstrip("\ufeff").splitlines(), start=1):
        matched = _LINE.match(line)
        if matched:
            faults += _assigned(matched[1], line[matched.end() :], number, graphs)
        elif line.strip() and not line.lstrip().startswith("#"):
            hint = "keep one line for each variable, and comments behind #"
            faults.append(Fault("unknown-line", "this line sets neither variable", hint, number))
    if not graphs and not faults:
        hint = "--target rccl-trees and rccl-rings write such lines"
        raise FileError("no line sets RCCL_TREES or NCCL_RINGS", path=path, hint=hint)
    seen = [graph.name for graph in graphs]
    for name in sorted({name for name in seen if seen.count(name) > 1}):
        faults.append(Fault("set-twice", f"{name} is set twice; the last one holds", "remove the others"))
    return GraphsDocument(READERS, tuple(graphs), tuple(faults), path)


def line_of(assignment: str) -> str:
    """The line for a shell that sets what `NAME=value` says, as a user gives it on a command line.

    Raises
    ------
    FileError : it sets neither variable.
    """
    matched = _LINE.match(assignment)
    if matched is None:
        raise FileError(
            f"{assignment[:40]!r} sets neither RCCL_TREES nor NCCL_RINGS", hint="--env 'RCCL_TREES=(0(1(2)))'"
        )
    value = assignment[matched.end() :].strip()
    return f"{matched[1]}={value}" if value[:1] in ("'", '"') else f"{matched[1]}='{value}'"


def _assigned(variable: str, value: str, line: int, graphs: list[FoundGraph]) -> Iterator[Fault]:
    """The graph of one line, and its faults."""
    value = value.strip()
    quote = value[:1]
    if quote in ("'", '"'):
        if len(value) < 2 or value[-1] != quote or quote in value[1:-1]:
            yield Fault(
                "quotes", f"the quotes of {variable} do not close at the end of the line", _SKIPS, line
            )
        value = value.strip(quote)
    elif re.search(r"[()|\s]", value):
        yield Fault("quotes", f"a shell splits {variable} without quotes", f"{variable}='...'", line)
    if len(value) > _LONGEST:
        message = f"{variable} has {len(value)} characters; Linux takes {_LONGEST}"
        yield Fault("too-long", message, "fewer channels", line)
    graph = FoundGraph(variable, "tree" if variable == "RCCL_TREES" else "ring")
    graphs.append(graph)
    for number, part in enumerate(value.split("|")):
        channel = FoundChannel(f"{graph.shape} {number}", line)
        graph.channels.append(channel)
        read = _tree if graph.shape == "tree" else _ring
        yield from read(part, channel)


def _tree(text: str, channel: FoundChannel) -> Iterator[Fault]:
    """`(0(1)(2(3)))`: a GPU, then the trees below it."""
    above: list[int] = []
    opened = False  # a bracket that has no number yet
    closed = False  # the tree is over
    for token in _TOKEN.findall(text):
        wrong = None
        if closed:
            wrong = f"{token!r} stands behind its end"
        elif token == "(":
            wrong = "a bracket has no number" if opened else None
            opened = True
        elif token == ")":
            wrong = "a bracket has no number" if opened or not above else None
            if above:
                above.pop()
            closed, opened = not above, False
        elif _NUMBER.fullmatch(token) and opened:
            channel.ranks.append(int(token))
            channel.parents.append(above[-1] if above else ROOT)
            above.append(int(token))
            opened = False
        else:
            wrong = f"{token[:20]!r} stands where a bracket must be"
        if wrong is not None:
            yield Fault("grammar", f"{channel.name}: {wrong}", _SKIPS, channel.line)
            return
    if not closed:
        what = "its brackets do not close" if text else "is empty"
        yield Fault("grammar", f"{channel.name}: {what}", _SKIPS, channel.line)
    for rank in dict.fromkeys(channel.parents):
        below = channel.parents.count(rank)
        if rank != ROOT and below > _MOST_BELOW:
            message = (
                f"{channel.name}: GPU {rank} has {below} GPUs below it, and RCCL has room for {_MOST_BELOW}"
            )
            yield Fault("children", message, "move some further down", channel.line)


def _ring(text: str, channel: FoundChannel) -> Iterator[Fault]:
    """`N0 0 1 2 3 N1`: GPUs in order, network cards at both ends or at none."""
    words = text.split(" ")
    nets = [place for place, word in enumerate(words) if re.fullmatch(r"N[0-9]{1,3}", word)]
    channel.has_nets = bool(nets)
    if nets not in ([], [0, len(words) - 1]) or (len(words) == 1 and nets):
        message = f"{channel.name}: network cards (N0) stand at both ends of a ring or nowhere"
        yield Fault("nets", message, _SKIPS, channel.line)
    for place, word in enumerate(words):
        if place in nets:
            continue
        if _NUMBER.fullmatch(word):
            channel.ranks.append(int(word))
        else:
            what = f"{word[:20]!r} is no GPU" if word else "a number is missing at a space"
            yield Fault("grammar", f"{channel.name}: {what}", _SKIPS, channel.line)

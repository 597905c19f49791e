"""The XML of NCCL_GRAPH_FILE and of NCCL's own dumps, read as NCCL 2.30 does, by rules of our own.

Nothing here knows how such files are written: it is a second opinion on them. NCCL takes most mistakes as
they are and breaks down, or hangs, when it builds its rings.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from taccl.backend.graphs.document import ROOT
from taccl.backend.graphs.found import Fault, FoundChannel, FoundGraph, GraphsDocument
from taccl.errors import XmlError
from taccl.support.xml_elements import Dialect, Element, begins_with, parse_elements

READERS = ("nccl",)
_ROOT = re.compile(r"<graphs[\s/>]")
_DIALECT = Dialect(
    what="graph file of NCCL",
    hint="give the file of --target nccl-graph, or of NCCL_GRAPH_DUMP_FILE",
    max_bytes=64 * 2**20,
    max_depth=16,
)
#: NCCL has room for no more elements.
_MOST_ELEMENTS = 65_536
_NAMES = {0: "ring", 1: "tree", 2: "CollNet chain", 3: "NVLS", 4: "CollNet direct"}
#: The patterns that a graph of each id has: balanced tree 1, split tree 2, tree 3, ring 4, NVLS 5, CollNet
#: direct 6.
_PATTERNS = {0: (4,), 1: (1, 2, 3), 2: (1, 2, 3), 3: (5,), 4: (6,)}
_TYPES = ("LOC", "NVL", "NVB", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
_WANTED = ("id", "pattern", "crossnic", "nchannels", "speedintra", "speedinter", "typeintra", "typeinter")
_KNOWN = (*_WANTED, "samechannels", "latencyinter")
_REPAIR = "NCCL takes it as it is, or breaks down when it builds its channels"


def is_graph_file(content: bytes) -> bool:
    """Whether a text is XML that begins as a file of graphs, well formed or not."""
    text = content[:4096].decode("utf-8", "replace")
    return text.lstrip("\ufeff \t\r\n").startswith("<") and begins_with(_ROOT, text)


def read_graph_file(content: str | bytes, path: str | None = None) -> GraphsDocument:
    """All graphs of a file, and what is wrong with them.

    Raises
    ------
    XmlError : it is no XML, or no file of graphs.
    """
    data = content.encode() if isinstance(content, str) else content
    roots = parse_elements(data, path, _DIALECT)
    root = roots[0]
    if root.tag != "graphs":
        raise XmlError(f"the element {root.tag[:40]} is no list of graphs", path=path, hint=_DIALECT.hint)
    graphs: list[FoundGraph] = []
    faults = [*_top(roots), *_too_many(root)]
    seen: set[int] = set()
    for element in root.children:
        if element.tag != "graph":
            faults.append(_fault("element", f"<{element.tag[:40]}> is no graph", "remove it", element))
        else:
            faults += _graph(element, seen, graphs)
    return GraphsDocument(READERS, tuple(graphs), tuple(faults), path)


def _fault(rule: str, message: str, hint: str, element: Element) -> Fault:
    return Fault(rule, message, hint, element.line)


def _top(roots: tuple[Element, ...]) -> Iterator[Fault]:
    root = roots[0]
    if len(roots) > 1:
        yield _fault("element", "a second list of graphs follows, which NCCL does not read", "one", roots[1])
    if root.attributes.get("version") != "1":
        found = root.attributes.get("version", "none")[:20]
        yield _fault("version", f"NCCL reads version 1 of this format, not {found}", 'version="1"', root)
    if not root.children:
        yield _fault("no-graph", "it has no graph: NCCL searches all of them", "add a graph", root)


def _too_many(root: Element) -> Iterator[Fault]:
    waiting, count = [root], 0
    while waiting:
        element = waiting.pop()
        count += 1
        waiting += element.children
    if count > _MOST_ELEMENTS:
        message = f"the file has {count} elements, and NCCL has room for {_MOST_ELEMENTS}"
        yield _fault("too-large", message, "fewer channels", root)


def _graph(element: Element, seen: set[int], graphs: list[FoundGraph]) -> Iterator[Fault]:
    """One graph with its channels."""
    id_ = _whole(element.attributes.get("id"))
    name = _NAMES.get(-1 if id_ is None else id_, "graph")
    for wanted in _WANTED:
        if wanted not in element.attributes:
            yield _fault("attribute", f"the {name} graph has no {wanted}", _REPAIR, element)
    for known in element.attributes:
        if known not in _KNOWN:
            yield _fault(
                "attribute", f"the {name} graph has {known[:40]}, which NCCL lacks", "remove it", element
            )
    if id_ not in _NAMES:
        said = element.attributes.get("id", "")[:20]
        message = f"no graph of NCCL has the id {said!r}: it would be left out"
        yield _fault("id", message, "0 ring, 1 tree, 2 CollNet chain, 3 NVLS, 4 CollNet direct", element)
    elif id_ in seen:
        yield _fault("id", f"a second {name} graph follows, which NCCL does not read", "remove it", element)
    seen.add(-1 if id_ is None else id_)
    yield from _numbers(element, name, id_)
    found = FoundGraph(name, "ring" if id_ in (None, 0) else "tree", whole=id_ in (0, 1, 2))
    graphs.append(found)
    for child in element.children:
        if child.tag != "channel":
            yield _fault("element", f"<{child.tag[:40]}> is no channel", "remove it", child)
            continue
        channel = FoundChannel(f"channel {len(found.channels)}", child.line)
        found.channels.append(channel)
        yield from _channel(child, channel, f"{name} {channel.name}", found)
    many = _whole(element.attributes.get("nchannels"))
    if "nchannels" in element.attributes and many != len(found.channels):
        what = element.attributes["nchannels"][:20]
        message = f"nchannels of the {name} graph is {what}, and {len(found.channels)} channels follow"
        yield _fault("nchannels", message, _REPAIR, element)
    if not found.channels:
        yield _fault("nchannels", f"the {name} graph has no channel", "leave the graph out", element)


def _numbers(element: Element, name: str, id_: int | None) -> Iterator[Fault]:
    """Pattern, speeds and types of paths."""
    attributes = element.attributes
    pattern = _whole(attributes.get("pattern"))
    if "pattern" in attributes and id_ in _PATTERNS and pattern not in _PATTERNS[id_]:
        wanted = " or ".join(map(str, _PATTERNS[id_]))
        said = attributes["pattern"][:20]
        yield _fault("pattern", f"pattern {said} is none of the {name} graph", f'pattern="{wanted}"', element)
    for key in ("speedintra", "speedinter"):
        speed = _number(attributes.get(key))
        if key in attributes and not (speed > 0 and math.isfinite(speed)):
            message = f"{key} of the {name} graph is {attributes[key][:20]!r}, no speed in GB/s"
            yield _fault("speed", message, "NCCL chooses algorithms by it", element)
    if "latencyinter" in attributes and not _number(attributes["latencyinter"]) >= 0:
        yield _fault("speed", f"latencyinter of the {name} graph is no time", "0", element)
    for key in ("typeintra", "typeinter"):
        if key in attributes and attributes[key] not in _TYPES:
            message = f"{key} of the {name} graph is {attributes[key][:20]!r}, which NCCL does not know"
            yield _fault("type", message, f"one of {', '.join(_TYPES)}", element)
    for key in ("crossnic", "samechannels"):
        if key in attributes and _whole(attributes[key]) not in (0, 1, 2):
            yield _fault("flag", f"{key} of the {name} graph is {attributes[key][:20]!r}", "0 or 1", element)


def _channel(element: Element, channel: FoundChannel, name: str, graph: FoundGraph) -> Iterator[Fault]:
    """The GPUs in order, network cards at its ends."""
    tags = [child.tag for child in element.children]
    nets = [place for place, tag in enumerate(tags) if tag == "net"]
    channel.has_nets = bool(nets)
    if graph.whole and nets not in ([], [0], [len(tags) - 1], [0, len(tags) - 1]):
        yield _fault("nets", f"{name}: a net stands between GPUs", "nets stand at the ends", element)
    if graph.shape == "ring" and len(nets) == 1:
        yield _fault("nets", f"{name}: a ring that enters by a net leaves by one", "two nets", element)
    for child in element.children:
        if child.tag == "net":
            if not re.fullmatch(r"(0x)?[0-9a-fA-F]{1,16}", child.attributes.get("dev", "")):
                yield _fault("dev", f"{name}: a net has no dev, a hexadecimal number", _REPAIR, child)
        elif child.tag != "gpu":
            yield _fault("element", f"{name}: <{child.tag[:40]}> is neither gpu nor net", "remove it", child)
        else:
            rank = _whole(child.attributes.get("rank"))
            if rank is None:
                message = (
                    f"{name}: a gpu has no rank, a number from 0 on; dev alone is a number of the system"
                )
                yield _fault("rank", message, 'add rank="..."', child)
                continue
            channel.parents.append(channel.ranks[-1] if channel.ranks else ROOT)
            channel.ranks.append(rank)
    if "gpu" not in tags:
        yield _fault("gpu-missing", f"{name}: it has no GPU", "each GPU of the node", element)


def _whole(text: str | None) -> int | None:
    """The number that a text is, from 0 on; None: it is none."""
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,9}", text) else None


def _number(text: str | None) -> float:
    """The number that a text is; not a number where it is none."""
    try:
        return math.nan if text is None else float(text)
    except ValueError:
        return math.nan

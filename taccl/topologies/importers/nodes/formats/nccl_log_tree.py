"""The tree that NCCL prints between `=== System` and `====`, from a log in which ranks talk at once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from taccl.support.tables import FileLine, is_elided, plain_lines
from taccl.topologies.importers.nodes.facts import LinkKind

_MARK = "NCCL INFO"
_RANK = re.compile(r"([\w.-]+):(\d+):(\d+)\s*(?:\[[^\]]*\])?\s*$")
_BEGIN = re.compile(r"=== System : max")
_CPU = re.compile(r"CPU/([\w-]+)")
_BRANCH = re.compile(
    r"(\s*)\+ ([A-Z0-9]{2,6})\[\s*(\d{1,9}(?:\.\d{1,9})?)\s*\] - ([A-Z0-9]{2,5})/([\w-]+)(?:\s*\(([^)]*)\))?"
)
#: Routes from a GPU or a card, which NCCL prints below these and never below a CPU or a bridge.
_OWN = ("NVL", "XGMI", "LOC", "NET")
_LINKS: dict[str, LinkKind] = {"NVL": "nvlink", "XGMI": "xgmi"}
_WHOLE = "give the log as NCCL wrote it"
_HINT = "run the job with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH"


@dataclass(eq=False)
class Node:
    """A device of the tree.

    Parameters
    ----------
    kind : CPU, PCI, DEV (of which GPU is a part), GPU, NIC, NET.
    name : as NCCL numbers it: `81000`, `0-81000` with the system before it.
    gbps, link : of the way to what is above it, and its kind: PCI, LOC, NET.
    note : what stands in parentheses: of a GPU its rank.
    """

    kind: str
    name: str
    place: FileLine
    above: Node | None = None
    gbps: float = 0.0
    link: str = ""
    note: str = ""
    below: list[Node] = field(default_factory=list)

    @property
    def routes_up(self) -> list[Node]:
        """Itself and all above it, up to what is attached to the CPU."""
        node: Node | None = self
        found = []
        while node is not None and node.kind != "CPU":
            found.append(node)
            node = node.above
        return found

    @property
    def bridges(self) -> list[Node]:
        """Above it, the nearest first."""
        return [node for node in self.routes_up[1:] if node.kind == "PCI"]

    @property
    def cpu(self) -> Node | None:
        return self.routes_up[-1].above if self.kind != "CPU" else self

    @property
    def numa(self) -> int | None:
        digits = "" if self.cpu is None else self.cpu.name.rpartition("-")[2]
        return int(digits, 16) if re.fullmatch(r"[0-9a-fA-F]{1,4}", digits) else None

    @property
    def system(self) -> str:
        """The node of a cluster that it belongs to, where several are in one tree."""
        return self.name.rpartition("-")[0]


@dataclass(frozen=True)
class Stated:
    """Links as one end states them: of GPU (or DEV) `at` to `to`, GB/s together."""

    place: FileLine
    at: str
    to: str
    to_switch: bool
    kind: LinkKind
    gbps: float


@dataclass(frozen=True)
class LogBlock:
    """The first block of a log; `nodes` in the order of its lines.

    `is_flat`: its indentation is lost, so that which bridges are above a device is not stated.
    """

    place: FileLine
    host: str | None
    nodes: tuple[Node, ...]
    links: tuple[Stated, ...]
    warnings: tuple[str, ...]
    is_flat: bool = False


def has_block(text: str) -> bool:
    """Whether such a tree stands in the text."""
    return _BEGIN.search(text) is not None and "PCI[" in text


def message_of(line: str) -> str:
    """What NCCL said, without the prefixes of the launcher and of the rank; indentation is kept."""
    before, mark, after = line.partition(_MARK)
    return (after.removeprefix(" ") if mark else before).rstrip()


def host_of(line: str) -> str | None:
    """The host that a line is from; None where it has no prefix."""
    found = _RANK.search(line.partition(_MARK)[0])
    return None if found is None or _MARK not in line else found[1]


def find_block(text: str, path: str | None) -> LogBlock:
    """The first block of a log.

    Raises
    ------
    TopologyError : there is none, or a line of it cannot be read.
    """
    lines = plain_lines(text)
    begin = next((number for number, line in enumerate(lines) if _BEGIN.search(line)), None)
    if begin is None:
        raise FileLine(path, 1).error("this log of NCCL has no graph block (=== System : ...)", _HINT)
    mine = _speaker(lines[begin])
    said: list[tuple[re.Match[str], FileLine]] = []
    ended = False
    for number in range(begin + 1, len(lines)):
        if is_elided(message_of(lines[number])):
            raise FileLine(path, number + 1).error("lines of the graph block were left out here", _WHOLE)
        if _speaker(lines[number]) != mine:
            continue
        message, place = message_of(lines[number]), FileLine(path, number + 1)
        if message.lstrip().startswith("===="):
            ended = True
            break
        if _BEGIN.search(message):
            break
        cpu, branch = _CPU.match(message.lstrip()), _BRANCH.match(message)
        if cpu is not None or branch is not None:
            said += [(found, place) for found in (cpu, branch) if found is not None]
        elif message.lstrip().startswith("+"):
            raise FileLine(path, number + 1).error(
                f"this line of the graph block cannot be read: {message.strip()[:60]!r}", _WHOLE
            )
    here = FileLine(path, begin + 1)
    warnings = [] if ended else [f"{here}: the graph block has no end: devices may be missing"]
    is_flat = _is_flat([branch for branch, _ in said if branch.re is _BRANCH])
    if is_flat:
        warnings.append(
            f"{here}: the graph block has lost its indentation: the bridges above a device are not stated"
        )
    nodes, links = _tree(said, is_flat)
    return LogBlock(here, host_of(lines[begin]), tuple(nodes), tuple(links), tuple(warnings), is_flat)


def _is_flat(branches: list[re.Match[str]]) -> bool:
    """Whether routes from a GPU or a card stand no deeper than routes from a CPU."""
    depths = {len(branch[1]) for branch in branches}
    return len(depths) == 1 and any(branch[2] in _OWN for branch in branches)


def _tree(said: list[tuple[re.Match[str], FileLine]], is_flat: bool) -> tuple[list[Node], list[Stated]]:
    nodes: list[Node] = []
    links: list[Stated] = []
    stack: list[tuple[int, Node]] = []
    for found, place in said:
        if found.re is _CPU:
            stack = [(-1, Node("CPU", found[1], place))]
            nodes.append(stack[0][1])
            continue
        depth = int(found[2] in _OWN) if is_flat else len(found[1])
        _grow(found, depth, place, stack, nodes, links)
    return nodes, links


def _speaker(line: str) -> tuple[str, str, str] | None:
    """Host, process and thread of a line; None of one without a prefix."""
    if _MARK not in line:
        return None
    found = _RANK.search(line.partition(_MARK)[0])
    return ("", "", "") if found is None else (found[1], found[2], found[3])


def _grow(
    branch: re.Match[str],
    depth: int,
    place: FileLine,
    stack: list[tuple[int, Node]],
    nodes: list[Node],
    links: list[Stated],
) -> None:
    """One line of the tree: a device below one that stands above it, or a link of that."""
    _, link, gbps, kind, name, note = branch.groups()
    while len(stack) > 1 and stack[-1][0] >= depth:
        stack.pop()
    if not stack:
        stack.append((-1, Node("CPU", "", place)))
    above = stack[-1][1]
    if link in _LINKS:
        if kind in ("GPU", "DEV", "NVS"):
            at = above.name if above.kind in ("GPU", "DEV") else ""
            links.append(Stated(place, at, name, kind == "NVS", _LINKS[link], float(gbps)))
        return
    if link == "SYS" and above.kind == kind == "CPU":
        above.below.append(Node("way", name, place, above, float(gbps), link))
        return
    if kind not in ("PCI", "DEV", "GPU", "NIC", "NET") or (link == "LOC" and kind == "DEV"):
        return
    node = Node(kind, name, place, above, float(gbps), link, note or "")
    above.below.append(node)
    nodes.append(node)
    stack.append((depth, node))

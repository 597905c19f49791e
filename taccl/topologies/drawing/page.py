"""A machine as plain values for `machine.js`, and as a page for the browser."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import networkx as nx

from taccl.model.network import FloatArray
from taccl.model.units import MB, bandwidth_gbps
from taccl.support.pages.assemble import assemble, text_of
from taccl.topologies.helpers import words
from taccl.topologies.model import PhysicalTopology
from taccl.topologies.summary import headline

#: This many GPUs of a node that are linked to each other are placed by their links, not on an ellipse.
_PLACED = (9, 128)
_PAGES = "taccl.support.pages"

#: Two GPUs of a node by their places there, the first one first; and where one is drawn: x, y.
_Edge = tuple[int, int]
_Spot = list[float]


def machine_page(machine: PhysicalTopology, facts: Mapping[str, object]) -> str:
    """The whole page as text: the facts, a drawing, and a table of the links by their ends and costs."""
    data = {
        "facts": [[label, str(value)] for label, value in facts.items() if value is not None],
        "machine": drawing_of(machine),
        "header": ["from", "to", "count", "GB/s each", "alpha (us)", "beta (us/MB)"],
        "rows": [
            [each.src_kind, each.dst_kind, str(each.count)]
            + [f"{figure:.4g}" for figure in (each.gbps, each.alpha_us, each.beta_us_per_mb)]
            for each in machine.link_classes
        ],
    }
    scripts = (drawing_script(), _text("open.js"))
    return assemble(f"{machine.name}", _text("machine.html"), scripts, data, (_text("machine.css"),))


def drawing_script() -> str:
    """The function `drawMachine(host, machine, legend)` and what it needs."""
    return text_of((_PAGES, "svg.js")) + "\n" + _text("machine.js")


def drawing_style() -> str:
    """What drawings look like."""
    return _text("machine.css")


def drawing_of(machine: PhysicalTopology) -> dict[str, object]:
    """The devices and links in columns; devices by number."""
    number = {device.name: place for place, device in enumerate(machine.devices)}
    devices, links = machine.devices, machine.links
    return {
        "name": machine.name,
        "headline": headline(machine.name, devices, links, machine.occupancy),
        "devices": {
            "name": [device.name for device in devices],
            "kind": [device.kind for device in devices],
            "node": [device.node for device in devices],
            "rank": [machine.rank_of.get(device.name, -1) for device in devices],
            "at": [-1 if device.at is None else number[device.at] for device in devices],
            "can": [list(words(device)) if device.kind == "helper" else [] for device in devices],
        },
        "links": {
            "src": [number[link.src] for link in links],
            "dst": [number[link.dst] for link in links],
            "gbps": [_gbps(link.beta_us_per_mb) for link in links],
            "alpha": [link.alpha_us for link in links],
            "beta": [link.beta_us_per_mb for link in links],
        },
        "places": dict(_places(machine, number)),
    }


def _gbps(beta_us_per_mb: float) -> float | None:
    speed = bandwidth_gbps(MB, beta_us_per_mb) if beta_us_per_mb else math.inf
    return speed if math.isfinite(speed) else None


def _places(machine: PhysicalTopology, number: Mapping[str, int]) -> Iterable[tuple[int, _Spot]]:
    """Where GPUs of large meshes are drawn in their node, from 0 to 1 in both directions."""
    members: dict[int, list[str]] = {}
    for gpu in machine.gpus[: machine.num_members]:
        members.setdefault(gpu.node, []).append(gpu.name)
    local = {name: (node, place) for node, names in members.items() for place, name in enumerate(names)}
    edges: dict[int, set[_Edge]] = {node: set() for node in members}
    for link in machine.links:
        (node, src), (other, dst) = local.get(link.src, (None, 0)), local.get(link.dst, (None, 0))
        if node is not None and node == other:
            edges[node].add((min(src, dst), max(src, dst)))
    known: dict[tuple[int, frozenset[_Edge]], list[_Spot]] = {}
    for node, names in members.items():
        many, mesh = len(names), frozenset(edges[node])
        if not _PLACED[0] <= many <= _PLACED[1] or len(mesh) in (0, many * (many - 1) // 2):
            continue
        if (many, mesh) not in known:
            known[many, mesh] = _grid(many, mesh) or _by_distance(many, mesh)
        yield from zip((number[name] for name in names), known[many, mesh], strict=False)


def _grid(many: int, edges: Iterable[_Edge]) -> list[_Spot]:
    """Rows and columns, if all links join neighbours there or both ends of one; none otherwise."""
    for rows in range(math.isqrt(many), 1, -1):
        columns = many // rows
        if rows * columns == many and all(_are_near(a, b, rows, columns) for a, b in edges):
            return [[i % columns / (columns - 1), i // columns / (rows - 1)] for i in range(many)]
    return []


def _are_near(a: int, b: int, rows: int, columns: int) -> bool:
    down, right = abs(a // columns - b // columns), abs(a % columns - b % columns)
    return (down == 0 and right in (1, columns - 1)) or (right == 0 and down in (1, rows - 1))


def _by_distance(many: int, edges: Iterable[_Edge]) -> list[_Spot]:
    """As far from each other as there are links between them; none if they are not all connected."""
    graph = nx.Graph(sorted(edges))
    if len(graph) < many or not nx.is_connected(graph):
        return []
    spots: Mapping[int, FloatArray] = nx.kamada_kawai_layout(graph)
    least = [min(spot[axis] for spot in spots.values()) for axis in (0, 1)]
    most = [max(spot[axis] for spot in spots.values()) for axis in (0, 1)]
    spread = [high - low or 1.0 for low, high in zip(least, most, strict=True)]
    return [
        [round(float(spots[i][axis] - least[axis]) / spread[axis], 4) for axis in (0, 1)] for i in range(many)
    ]


def _text(name: str) -> str:
    return text_of((__package__, name))

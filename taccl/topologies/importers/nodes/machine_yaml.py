"""A layout as the text of a machine file, each number with a comment that says how it is known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from taccl.topologies.importers.nodes.figures import Figure
from taccl.topologies.importers.nodes.layout import Layout, Wire

#: Comments are cut where no one reads on.
_LONGEST_COMMENT = 240


def machine_yaml(
    layout: Layout, name: str, nodes: int, header: Iterable[str], gpu_comments: Sequence[str]
) -> str:
    """The text of the machine.

    Parameters
    ----------
    header : lines of comments to begin with.
    gpu_comments : for each GPU, what it is.
    """
    lines = [f"# {_plain(line)}" for line in header]
    lines += [f"name: {json.dumps(name)}", f"nodes: {nodes}", "node:"]
    lines.append(f"  gpus: {len(layout.gpus)}")
    lines += [f"  # {_plain(comment)}" for comment in gpu_comments]
    for key, names in (("switches", layout.switches), ("nics", layout.nics), ("pcie", layout.pcie)):
        if names:
            lines.append(f"  {key}: [{', '.join(names)}]")
    lines.append("  links:" if layout.wires else "  links: []")
    for wires in _equivalent(layout.wires):
        lines += _entry(wires, layout)
    if layout.fabric is not None:
        lines.append("fabric:")
        lines += [f"  {line}" for line in _costs(*layout.fabric)]
    return "\n".join(lines) + "\n"


def _equivalent(wires: Sequence[Wire]) -> list[list[Wire]]:
    """Wires that one entry can hold, in the order of the first of each."""
    groups: dict[tuple[object, ...], list[Wire]] = {}
    for wire in wires:
        key = (wire.what, wire.alpha_us.value, wire.gbps.value, wire.gbps.how, wire.one_way)
        groups.setdefault(key, []).append(wire)
    return list(groups.values())


def _entry(wires: Sequence[Wire], layout: Layout) -> list[str]:
    first = wires[0]
    lines = [f"    # {first.what}"]
    targets = {wire.b for wire in wires}
    if len(targets) == 1 and tuple(wire.a for wire in wires) == layout.gpus:
        ends = ["from: gpus", f"to: {first.b}"]
    else:
        numbers = {gpu: str(i) for i, gpu in enumerate(layout.gpus)}
        pairs = [f"{numbers.get(wire.a, wire.a)}-{numbers.get(wire.b, wire.b)}" for wire in wires]
        ends = _wrapped(pairs)
    lines += [f"    - {ends[0]}", *(f"      {end}" for end in ends[1:])]
    if first.one_way:
        lines.append("      one_way: true")
    more = len({wire.gbps.source for wire in wires}) - 1
    lines += [f"      {line}" for line in _costs(first.alpha_us, first.gbps, more)]
    return lines


def _wrapped(pairs: Sequence[str]) -> list[str]:
    """`pairs: [...]`, in lines that fit on a screen."""
    lines, line = [], "pairs: ["
    for i, pair in enumerate(pairs):
        word = pair + ("]" if i == len(pairs) - 1 else ",")
        if len(line) + len(word) > 90:
            lines.append(line.rstrip())
            line = "  "
        line += word + " "
    return [*lines, line.rstrip()]


def _costs(alpha_us: Figure, gbps: Figure, more: int = 0) -> list[str]:
    others = f" (and {more} more equivalent)" if more else ""
    return [
        f"alpha_us: {alpha_us.value:.6g}  # {_how(alpha_us)}",
        f"bandwidth_gbps: {gbps.value:.9g}  # {_how(gbps)}{others}",
    ]


def _how(figure: Figure) -> str:
    joint = " " if figure.how == "read" else ": "
    return _plain(f"{figure.how}{joint}{figure.source}")


def _plain(text: str) -> str:
    """One line of it that a comment can hold, whatever names of files and models have in them."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= _LONGEST_COMMENT else line[: _LONGEST_COMMENT - 3] + "..."

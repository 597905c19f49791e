"""Where NVLinks lead that no dump tells the other end of, as far as their number and the GPUs settle it.

Infers from facts alone, after all dumps are one, so that no dump contradicts what was only inferred. What
stays open stays open: no link is made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from taccl.topologies.importers.nodes.facts import Dump, GpuLink

#: Generations of which no board joins more than four GPUs directly, and cards of them that bridges join.
_SWITCHED_BEYOND_FOUR = ("A100", "A800", "H100", "H800", "H200", "H20", "B100", "B200", "B300")
_BRIDGED = ("PCIE", "NVL")


def settled(dump: Dump) -> Dump:
    """A dump whose open links lead somewhere, with a warning that says by which rule.

    Open links are those of a dump whose `has_switch` is None. Of two GPUs they lead to the other; of more
    than four of a new generation that are no cards, to NVSwitches; else they are left open.
    """
    links = dump.links or ()
    if dump.has_switch is not None or not links or any(link.b is not None for link in links):
        return dump
    mine = [[link for link in links if link.a == gpu] for gpu in range(len(dump.gpus))]
    totals = [sum(link.count or 1 for link in each) for each in mine]
    place = links[0].place
    if len(mine) == 1:
        return dump
    if len(mine) == 2:
        rule = f"{place}: two GPUs look equal with and without a switch: taken as linked directly"
        pair = (_direct(mine[0], mine[1]),) if all(mine) else ()
        return replace(dump, links=pair, has_switch=False, warnings=(*dump.warnings, rule))
    if must_be_switched([gpu.model for gpu in dump.gpus], totals):
        rule = (
            f"{place}: {len(mine)} GPUs with {max(totals)} NVLinks each are behind NVSwitches: no board joins"
        )
        return replace(dump, has_switch=True, warnings=(*dump.warnings, f"{rule} this many directly"))
    left = (
        f"{place}: no file tells where these NVLinks lead: not in the machine file; add `nvidia-smi topo -m`"
    )
    return replace(dump, warnings=(*dump.warnings, left))


def without_open_links(dump: Dump) -> Dump:
    """The dump with those links only of which both ends are known."""
    if dump.has_switch is not None or dump.links is None:
        return dump
    return replace(dump, links=tuple(link for link in dump.links if link.b is not None))


def must_be_switched(models: Sequence[str | None], links: Sequence[int]) -> bool:
    """Whether GPUs whose links lead nobody knows where are behind switches all the same.

    A board of four may be a mesh, and eight V100 or P100 are a cube mesh. Most have all their links; those
    that have fewer have links that are down.
    """
    known = all(
        any(name in (model or "") for name in _SWITCHED_BEYOND_FOUR)
        and not any(name in (model or "").upper() for name in _BRIDGED)
        for model in models
    )
    whole = sum(1 for count in links if count == max(links) > 0)
    return known and len(links) > 4 and 2 * whole > len(links)


def _direct(one: Sequence[GpuLink], other: Sequence[GpuLink]) -> GpuLink:
    """As many as the end with fewer has, at the speed of the slowest."""
    speeds = [link.gbps for link in (*one, *other) if link.gbps is not None]
    counts = [
        None if any(link.count is None for link in end) else sum(link.count or 0 for link in end)
        for end in (one, other)
    ]
    known = [count for count in counts if count is not None]
    return replace(one[0], a=0, b=1, count=min(known, default=None), gbps=min(speeds, default=None))

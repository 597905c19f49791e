"""Where NVLinks lead: what a table of their counts says, and what settles it where no dump tells other ends.

What is settled is inferred from facts alone, after all dumps are one, so that no dump contradicts what was
only inferred. What stays open stays open: no link is made of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from taccl.topologies.importers.nodes.facts import Dump, GpuLink
from taccl.topologies.importers.nodes.gpus import MOST_LINKS, is_switched_beyond_four


@dataclass(frozen=True)
class Wiring:
    """How NVLinks run.

    Parameters
    ----------
    has_switch : None where counts do not tell: two GPUs look the same with a switch between them and without.
    ports : of a machine with a switch, the links of each GPU to it.
    switch_of : which switch that is, from 0: GPUs of two groups without a link between them have two.
    apart : a pair that has no way to each other although both have links to a switch: then nothing fits.
    """

    has_switch: bool | None
    ports: tuple[int, ...] = ()
    switch_of: tuple[int, ...] = ()
    apart: tuple[int, int] | None = None


def _apart(counts: Sequence[Sequence[int]], linked: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pairs of GPUs that no link joins, and that share a neighbour: no switch has them both."""
    for a, b in itertools.combinations(linked, 2):
        if not counts[a][b] and any(counts[a][c] and counts[b][c] for c in linked):
            yield a, b


def wiring(counts: Sequence[Sequence[int]], most: int | Sequence[int] = MOST_LINKS) -> Wiring:
    """Whether these counts are links between GPUs or to a switch.

    A tool that names the links between two GPUs names, behind a switch, those that each has to the switch.
    Then a row adds up to more links than a GPU can have, which is how a switch is reported.

    Parameters
    ----------
    counts : shape (gpus, gpus), symmetric, with zeros on the diagonal.
    most : how many links a GPU has, or each of them.
    """
    gpus = range(len(counts))
    limits = [most] * len(counts) if isinstance(most, int) else list(most)
    linked = [gpu for gpu in gpus if any(counts[gpu])]
    if not linked:
        return Wiring(False)
    peers = {gpu: sum(1 for count in counts[gpu] if count) for gpu in gpus}
    if not any(peers[gpu] >= 2 and sum(counts[gpu]) > limits[gpu] for gpu in linked):
        return Wiring(None if len(counts) == 2 else False)
    apart = next(_apart(counts, linked), None)
    if apart is not None:
        return Wiring(True, apart=apart)
    first = [min((gpu, *(other for other in gpus if counts[gpu][other]))) for gpu in gpus]
    groups = sorted({first[gpu] for gpu in linked})
    switch_of = tuple(groups.index(each) if each in groups else 0 for each in first)
    return Wiring(True, ports=tuple(max(counts[gpu]) for gpu in gpus), switch_of=switch_of)


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
    known = all(map(is_switched_beyond_four, models))
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

"""The links that two dumps of one node tell of: counts must agree, whatever else one of them knows more of.

It knows facts of links only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from taccl.dumps.facts import Dump, GpuLink, Place
from taccl.dumps.nvlinks import wiring
from taccl.errors import TopologyError


def merged_links(
    whole: Dump, later: Dump, gpus_at: Sequence[int]
) -> tuple[tuple[GpuLink, ...] | None, bool | None]:
    """The links that both tell of, each told by the one that knows more of it, and whether there is a switch.

    Parameters
    ----------
    gpus_at : positions of the later dump's GPUs -> positions in the whole.

    Raises
    ------
    TopologyError : they say different things of one pair; the message names both lines.
    """
    if later.links is None:
        return whole.links, whole.has_switch if whole.has_switch is not None else later.has_switch
    theirs = tuple(_moved(link, gpus_at) for link in later.links)
    if whole.links is None:
        return theirs, later.has_switch
    seen = {*gpus_at}
    if whole.has_switch is None or later.has_switch is None:
        return _with_totals(whole, later, theirs, gpus_at)
    if whole.has_switch != later.has_switch and whole.links and theirs:
        raise contradiction(
            "links lead " + ("to a switch" if later.has_switch else "from GPU to GPU"),
            theirs[0].place,
            "they lead " + ("to a switch" if whole.has_switch else "from GPU to GPU"),
            whole.links[0].place,
        )
    mine, others = _by_ends(whole.links), _by_ends(theirs)
    found = []
    for ends in dict.fromkeys((*mine, *others)):
        one, other = mine.get(ends), others.get(ends)
        if one is not None and other is not None:
            found.append(_one_link(one, other))
        elif one is not None and ends[0] in seen and (ends[1] is None or ends[1] in seen):
            raise _no_such_link(one, later.gpus[gpus_at.index(ends[0])].place)
        elif other is not None:
            raise _no_such_link(other, whole.gpus[ends[0]].place)
        elif one is not None:
            found.append(one)
    return tuple(found), whole.has_switch


def _with_totals(
    whole: Dump, later: Dump, theirs: Sequence[GpuLink], gpus_at: Sequence[int]
) -> tuple[tuple[GpuLink, ...], bool | None]:
    """One says only how many links each GPU has, the other where they lead: they must add up."""
    mine = whole.links or ()
    switched = _behind_switch(mine, theirs, len(whole.gpus))
    if switched:
        return switched, True
    later_is_exact = whole.has_switch is None and (later.has_switch is not None or _is_exact(theirs))
    for there, here in enumerate(gpus_at):
        told = [[link for link in links if here in (link.a, link.b)] for links in (mine, theirs)]
        if any(link.count is None for links in told for link in links):
            continue
        one, other = (sum(link.count or 0 for link in links) for links in told)
        if one != other:
            first = told[0][0].place if told[0] else whole.gpus[here].place
            place = told[1][0].place if told[1] else later.gpus[there].place
            raise contradiction(f"GPU {here} has {other} links", place, f"it has {one}", first)
    exact, totals = (theirs, mine) if later_is_exact else (mine, theirs)
    speeds = {link.a: (link.gbps, link.is_raw) for link in totals if link.gbps is not None}
    links = tuple(
        replace(link, gbps=speeds[link.a][0], is_raw=speeds[link.a][1])
        if link.gbps is None and link.a in speeds
        else link
        for link in exact
    )
    return links, whole.has_switch if later.has_switch is None else later.has_switch


def _behind_switch(one: Sequence[GpuLink], other: Sequence[GpuLink], gpus: int) -> tuple[GpuLink, ...]:
    """The links to a switch, where those between GPUs are more than each of them has; else none.

    A part of a large machine shows so: four V100 of sixteen have six links to each other, and six in all.
    """
    direct = [link for link in (*one, *other) if link.b is not None and link.kind == "nvlink"]
    totals = [link for link in (*one, *other) if link.b is None]
    counts = [[0] * gpus for _ in range(gpus)]
    for link in direct:
        if link.b is not None:
            counts[link.a][link.b] = counts[link.b][link.a] = link.count or 0
    most = [sum(link.count or 0 for link in totals if link.a == gpu) for gpu in range(gpus)]
    found = wiring(counts, most)
    return tuple(totals) if found.has_switch and list(found.ports) == most else ()


def _is_exact(links: Iterable[GpuLink]) -> bool:
    """Whether they say where they lead."""
    return any(link.b is not None for link in links)


def _by_ends(links: Iterable[GpuLink]) -> dict[tuple[int, int | None], GpuLink]:
    return {(link.a, link.b): link for link in links}


def _moved(link: GpuLink, gpus: Sequence[int]) -> GpuLink:
    ends = [gpus[link.a], *([gpus[link.b]] if link.b is not None else [])]
    return replace(link, a=min(ends), b=max(ends) if link.b is not None else None)


def _one_link(one: GpuLink, other: GpuLink) -> GpuLink:
    where = f"GPU {one.a} " + ("and the switch" if one.b is None else f"and GPU {one.b}")
    if one.kind != other.kind:
        raise contradiction(
            f"between {where} is {other.kind}", other.place, f"between them is {one.kind}", one.place
        )
    if one.count is not None and other.count is not None and one.count != other.count:
        raise contradiction(
            f"between {where} are {other.count} links",
            other.place,
            f"there are {one.count}",
            one.place,
        )
    best = one if one.count is not None or other.count is None else other
    told = min(one, other, key=lambda link: (link.gbps is None, link.is_raw))  # of equals, the first
    return replace(best, gbps=told.gbps, is_raw=told.is_raw)


def _no_such_link(link: GpuLink, place: Place) -> TopologyError:
    ends = f"GPU {link.a} " + ("and the switch" if link.b is None else f"and GPU {link.b}")
    many = "links" if link.count is None else f"{link.count} links"
    return contradiction(f"between {ends} are {many}", link.place, "there are none", place)


def contradiction(says: str, place: Place, other: str, other_place: Place) -> TopologyError:
    """The error of two lines that cannot both be true."""
    return TopologyError(
        f"{says}, but {other_place} says: {other}",
        path=place.path,
        line=place.line,
        hint="files of one node only, taken at one time",
    )

"""The links that two dumps of one node tell of: counts must agree, whatever else one of them tells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from taccl.errors import TopologyError
from taccl.support.tables import FileLine
from taccl.topologies.importers.nodes.facts import Dump, GpuLink
from taccl.topologies.importers.nodes.gpus import links_of_model
from taccl.topologies.importers.nodes.nvlinks import wiring


def merged_links(
    whole: Dump, later: Dump, gpus_at: Sequence[int]
) -> tuple[tuple[GpuLink, ...] | None, bool | None, list[str]]:
    """The links that both tell of, each reported by the one that knows more of it, whether there is a switch,
    and warnings.

    Parameters
    ----------
    gpus_at : positions of the later dump's GPUs -> positions in the whole.

    Raises
    ------
    TopologyError : they say different things of one pair; the message names both lines.
    """
    if later.links is None:
        return whole.links, whole.has_switch if whole.has_switch is not None else later.has_switch, []
    theirs = tuple(_moved(link, gpus_at) for link in later.links)
    if whole.links is None:
        return theirs, later.has_switch, []
    if whole.has_switch is None or later.has_switch is None:
        return _with_totals(whole, later, theirs, gpus_at)
    if whole.has_switch != later.has_switch and whole.links and theirs:
        raise contradiction(
            "links lead " + ("to a switch" if later.has_switch else "from GPU to GPU"),
            theirs[0].place,
            "they lead " + ("to a switch" if whole.has_switch else "from GPU to GPU"),
            whole.links[0].place,
        )
    return _pair_by_pair(whole, later, theirs, gpus_at), whole.has_switch, []


def _pair_by_pair(
    whole: Dump, later: Dump, theirs: Sequence[GpuLink], gpus_at: Sequence[int]
) -> tuple[GpuLink, ...]:
    """The links of both, where both say which ends they have; of GPUs that only one has, its own.

    Raises
    ------
    TopologyError : one has a link that the other would have to have, too.
    """
    mine, others, seen = _by_ends(whole.links or ()), _by_ends(theirs), {*gpus_at}
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
    return tuple(found)


def _with_totals(
    whole: Dump, later: Dump, theirs: Sequence[GpuLink], gpus_at: Sequence[int]
) -> tuple[tuple[GpuLink, ...], bool | None, list[str]]:
    """One says only how many links each GPU has, the other where they lead: they must add up.

    Links from GPU to GPU may be fewer where a GPU has all that its model has: the rest leads to a CPU, or to
    GPUs that a job does not see.
    """
    mine = whole.links or ()
    switched = _behind_switch(mine, theirs, len(whole.gpus))
    if switched:
        return switched, True, []
    models = [gpu.model for gpu in (*whole.gpus, *later.gpus) if gpu.model is not None]
    pair = _part_of_them(mine, theirs, gpus_at, [links_of_model(model) for model in models])
    if pair is not None:
        link, listed = pair
        return (link,), False, [_elsewhere(link.place, "each GPU", link.count or 0, listed)]
    later_is_exact = whole.has_switch is None and (later.has_switch is not None or _is_exact(theirs))
    exact, totals = (theirs, mine) if later_is_exact else (mine, theirs)
    notes = [
        note
        for there, here in enumerate(gpus_at)
        if (note := _added_up(whole, later, theirs, here, there, later_is_exact))
    ]
    speeds = {link.a: (link.gbps, link.is_raw) for link in totals if link.gbps is not None}
    links = tuple(
        replace(link, gbps=speeds[link.a][0], is_raw=speeds[link.a][1])
        if link.gbps is None and link.a in speeds
        else link
        for link in exact
    )
    return links, whole.has_switch if later.has_switch is None else later.has_switch, notes


def _added_up(
    whole: Dump, later: Dump, theirs: Sequence[GpuLink], here: int, there: int, later_is_exact: bool
) -> str:
    """Check that both count as many links of a GPU; a note where some of them lead elsewhere, else empty.

    Parameters
    ----------
    here, there : the GPU in `whole` and in `later`.
    later_is_exact : whether `later` says where links lead, and `whole` how many there are.

    Raises
    ------
    TopologyError : they contradict each other.
    """
    mine = whole.links or ()
    one, other = _links_at(here, mine), _links_at(here, theirs)
    if any(link.count is None for link in (*one, *other)):
        return ""
    counts = [sum(link.count or 0 for link in links) for links in (one, other)]
    known, listed = reversed(counts) if later_is_exact else counts
    exact, totals = (theirs, mine) if later_is_exact else (mine, theirs)
    model = whole.gpus[here].model or later.gpus[there].model
    if _has_more_elsewhere(exact, known, listed, model):
        place = next(link.place for link in totals if link.a == here)
        return _elsewhere(place, f"GPU {here}", known, listed)
    if known != listed:
        first = one[0].place if one else whole.gpus[here].place
        place = other[0].place if other else later.gpus[there].place
        raise contradiction(f"GPU {here} has {counts[1]} links", place, f"it has {counts[0]}", first)
    return ""


def _links_at(gpu: int, links: Iterable[GpuLink]) -> list[GpuLink]:
    return [link for link in links if gpu in (link.a, link.b)]


def _has_more_elsewhere(exact: Iterable[GpuLink], known: int, listed: int, model: str | None) -> bool:
    """Whether a GPU has all the links of its model, and only some of them lead to GPUs of the dumps.

    Parameters
    ----------
    exact : links that say where they lead; `known` of them are the GPU's.
    listed : how many links it has in all.
    """
    is_full = model is not None and listed == links_of_model(model)
    return 0 < known < listed and is_full and all(link.b is not None for link in exact)


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
    if not found.has_switch or list(found.ports) != most:
        return ()
    return tuple(replace(link, switch=found.switch_of[link.a]) for link in totals)


def _part_of_them(
    one: Sequence[GpuLink], other: Sequence[GpuLink], gpus_at: Sequence[int], most: Sequence[int]
) -> tuple[GpuLink, int] | None:
    """The links from one of two GPUs to the other, and how many each has in all; None where all lead there.

    A tool that lists all links of a GPU names more than one that names those to the other: no switch is
    between them, for all of them would lead to it. `most`: how many links GPUs of their models have.
    """
    if sorted(gpus_at) != [0, 1] or any(link.b is not None for link in (*one, *other)):
        return None
    counts = [
        {sum(link.count or 0 for link in links if link.a == gpu) for gpu in (0, 1)} for links in (one, other)
    ]
    if any(len(count) != 1 for count in counts) or counts[0] == counts[1]:
        return None
    few, many = (one, other) if max(counts[0]) < max(counts[1]) else (other, one)
    listed = max(max(count) for count in counts)
    if not few or listed not in most or any(link.count is None for link in (*few, *many)):
        return None
    pair = replace(few[0], a=0, b=1, count=sum(link.count or 0 for link in few if link.a == 0))
    return (
        pair if pair.gbps is not None else replace(pair, gbps=many[0].gbps, is_raw=many[0].is_raw)
    ), listed


def _elsewhere(place: FileLine, whose: str, known: int, listed: int) -> str:
    return (
        f"{place}: {whose} has {listed} links, and {known} of them lead to these GPUs: the rest leads to a"
        " CPU, or to GPUs that are not stated"
    )


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
    reported = min(one, other, key=lambda link: (link.gbps is None, link.is_raw))  # of equals, the first
    return replace(best, gbps=reported.gbps, is_raw=reported.is_raw, switch=one.switch or other.switch)


def _no_such_link(link: GpuLink, place: FileLine) -> TopologyError:
    ends = f"GPU {link.a} " + ("and the switch" if link.b is None else f"and GPU {link.b}")
    many = "links" if link.count is None else f"{link.count} links"
    return contradiction(f"between {ends} are {many}", link.place, "there are none", place)


def contradiction(says: str, place: FileLine, other: str, other_place: FileLine) -> TopologyError:
    """The error of two lines that cannot both be true."""
    return place.error(
        f"{says}, but {other_place} says: {other}", "files of one node only, taken at one time"
    )

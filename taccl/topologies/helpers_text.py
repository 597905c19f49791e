"""The entries of `helpers:` in a machine file, which `helpers_yaml` reads back as the same helpers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taccl.topologies.devices import Device, Link
from taccl.topologies.helpers import COPY_FACE, ONE_FACE, SUM_FACE, words


def helper_entries(devices: Sequence[Device], links: Sequence[Link], are_servers: bool = False) -> list[str]:
    """One entry for each helper; of a host's servers, which share its memory, one for all.

    Parameters
    ----------
    devices, links : of a node, or those of no node, by their names in it.
    are_servers : whether entries say where a helper's link leads, which otherwise `links` says. Those of
        servers behind a host's memory always do.
    """
    helpers = [device for device in devices if device.kind == "helper"]
    return list(_entries(helpers, {(link.src, link.dst): link for link in links}, are_servers))


_Links = dict[tuple[str, str], Link]


def _entries(helpers: Sequence[Device], links: _Links, are_servers: bool) -> Iterator[str]:
    written: set[str] = set()
    for helper in helpers:
        if helper.name in written:
            continue
        written.add(helper.name)
        if helper.at is not None:
            other = next((each for each in helpers if _is_copy_face(each, helper)), None)
            if other is not None:
                written.add(other.name)
            yield _at_switch(helper, has_two_faces=other is not None)
            continue
        count = None
        name = helper.name
        if helper.behind is not None:
            served = [each for each in helpers if each.behind == helper.behind]
            written |= {each.name for each in served}
            count, name = len(served), helper.behind[0].removesuffix(".bus")
        keys = [f"name: {name}"]
        if count is not None:
            keys.append(f"count: {count}")
        if are_servers or count is not None:
            link = next(link for link in links.values() if link.src == helper.name)
            keys += [
                f"to: {link.dst}",
                f"alpha_us: {link.alpha_us!r}",
                f"beta_us_per_mb: {link.beta_us_per_mb!r}",
            ]
        keys += _what_it_is(helper, words(helper))
        if helper.behind is not None:
            keys.append(f"behind: {{beta_us_per_mb: {links[helper.behind].beta_us_per_mb!r}}}")
        yield f"{{{', '.join(keys)}}}"


def _is_copy_face(helper: Device, other: Device) -> bool:
    """Whether a helper is the copy face of the switch whose sum face is the other."""
    base = other.name.removesuffix(SUM_FACE)
    return base != other.name and helper.name == base + COPY_FACE and helper.at == other.at


def _at_switch(helper: Device, has_two_faces: bool) -> str:
    base = helper.name
    for suffix in (SUM_FACE if has_two_faces else "", ONE_FACE):
        base = base.removesuffix(suffix)
    keys = [] if base == helper.at else [f"name: {base}"]
    keys.append(f"at: {helper.at}")
    if helper.alpha_us is not None:
        keys.append(f"alpha_us: {helper.alpha_us!r}")
    if helper.beta_us_per_mb is not None:
        keys.append(f"beta_us_per_mb: {helper.beta_us_per_mb!r}")
    can = ("reduce-to-one", "copy") if has_two_faces else words(helper)
    return f"{{{', '.join([*keys, *_what_it_is(helper, can)])}}}"


def _what_it_is(helper: Device, can: Sequence[str]) -> list[str]:
    keys = [f"can: [{', '.join(can)}]"]
    return keys if helper.memory_mb is None else [*keys, f"memory_mb: {helper.memory_mb!r}"]

"""Several dumps of one node as one: later ones tell what earlier ones do not, and none may contradict.

What tools can rightly tell apart (how many bridges lie between two devices, speeds of idle PCIe links) is
taken from the first that tells it; what they cannot (how many links two GPUs have, on which CPU a NIC is)
must agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from taccl.topologies.importers.nodes.facts import (
    COUNTS_UNTOLD,
    Dump,
    Gpu,
    GpuLink,
    Nearness,
    Nic,
    SharedBridge,
)
from taccl.topologies.importers.nodes.figures import arch_of
from taccl.topologies.importers.nodes.formats.nccl_graph import disagreements
from taccl.topologies.importers.nodes.merged_links import contradiction, merged_links

_Row = TypeVar("_Row")
_Part = TypeVar("_Part", Gpu, Nic)
_Table = tuple[tuple[Nearness | None, ...], ...]
#: Ports that a tool counts and does not name.
_NUMBERED = re.compile(r"nic\d+", re.IGNORECASE)


def merge(dumps: Sequence[Dump]) -> Dump:
    """All of them as one, in the order of the GPUs of the first.

    GPUs are the same by bus id, else by the vendor's index, else by their place in the order. A later dump
    may tell of fewer GPUs than the first, but of none besides them.

    A plan is no description: what a machine lacks of it is a warning.

    Raises
    ------
    TopologyError : two say different things of one device or link; the message names both lines.
    """
    plans = [dump for dump in dumps if dump.plan is not None]
    machines = [dump for dump in dumps if dump.plan is None]
    if not machines:
        return dumps[0]
    whole = machines[0]
    for machine in machines[1:]:
        whole = _refined(whole, machine)
    unlike = tuple(words for plan in plans for words in disagreements(plan, whole))
    return replace(whole, warnings=(*whole.warnings, *unlike)) if unlike else whole


@dataclass(frozen=True)
class _Map:
    """Indices of a later dump's devices -> indices in the whole."""

    gpus: tuple[int, ...]
    nics: tuple[int, ...]


def _filled(one: _Part, other: _Part, **known: object) -> _Part:
    """A device as the first dump has it, what it lacks from the other, and what is `known` of both."""
    names = (each.name for each in fields(one) if getattr(one, each.name) is None)
    return replace(one, **({name: getattr(other, name) for name in names} | known))


def _refined(whole: Dump, later: Dump) -> Dump:
    whole, later = _without_unnamed(whole, later), _without_unnamed(later, whole)
    gpus_at = _same_gpus(whole, later)
    gpus = list(whole.gpus)
    for there, here in enumerate(gpus_at):
        gpus[here] = _one_gpu(gpus[here], later.gpus[there], here)
    nics, nics_at, notes = _nics(whole, later)
    at = _Map(gpus_at, nics_at)
    links, has_switch, link_notes = merged_links(whole, later, gpus_at)
    size = (len(gpus), len(gpus))
    return Dump(
        format=f"{whole.format}+{later.format}",
        gpus=tuple(gpus),
        nics=nics,
        links=links,
        has_switch=has_switch,
        gpu_nearness=_first_reported(whole.gpu_nearness, _moved(later.gpu_nearness, size, at.gpus, at.gpus)),
        nic_nearness=None if nics is None else _nic_nearness(whole, later, at, nics),
        nearest_nics=_nearest(whole, later, at, nics),
        bridges=whole.bridges if whole.bridges is not None else _bridges(later, at),
        peer_access=whole.peer_access or _moved(later.peer_access, size, at.gpus, at.gpus),
        cpus=whole.cpus or later.cpus,
        is_hint=whole.is_hint and later.is_hint,
        order=whole.order or later.order,
        warnings=_still_true((*whole.warnings, *later.warnings, *notes, *link_notes), links),
    )


def _still_true(warnings: Sequence[str], links: Sequence[GpuLink] | None) -> tuple[str, ...]:
    """Without what only one of the dumps did not tell."""
    reported = links is not None and all(link.count is not None for link in links)
    return tuple(warning for warning in warnings if warning != COUNTS_UNTOLD or not reported)


def _without_unnamed(dump: Dump, other: Dump) -> Dump:
    """Without ports that are only numbered, where the other has names: which is which is not stated."""
    named = other.nics and not all(_NUMBERED.fullmatch(nic.name) for nic in other.nics)
    if not dump.nics or not named or not all(_NUMBERED.fullmatch(nic.name) for nic in dump.nics):
        return dump
    bridges = dump.bridges and tuple(replace(bridge, nics=()) for bridge in dump.bridges)
    note = f"{dump.nics[0].place}: NICs without names are left out, since another file has names"
    return replace(
        dump,
        nics=None,
        nic_nearness=None,
        nearest_nics=None,
        bridges=bridges,
        warnings=(*dump.warnings, note),
    )


def _same_gpus(whole: Dump, later: Dump) -> tuple[int, ...]:
    """Where each GPU of the later dump is in the whole."""
    keys: tuple[Callable[[Gpu], object], ...] = (lambda gpu: gpu.busid, lambda gpu: gpu.dev)
    for key in keys:
        mine, theirs = [key(gpu) for gpu in whole.gpus], [key(gpu) for gpu in later.gpus]
        reported = None not in mine and None not in theirs and len({*mine}) == len(mine)
        if reported and len({*theirs}) == len(theirs) and {*mine} >= {*theirs}:
            return tuple(mine.index(their) for their in theirs)
    if len(whole.gpus) == len(later.gpus):
        busids = [(a.busid, b.busid) for a, b in zip(whole.gpus, later.gpus, strict=True)]
        if not any(a and b and a != b for a, b in busids):
            return tuple(range(len(later.gpus)))
    raise contradiction(
        f"{len(later.gpus)} GPUs",
        later.gpus[0].place,
        f"these are not among the {len(whole.gpus)} GPUs",
        whole.gpus[0].place,
    )


def _one_gpu(one: Gpu, other: Gpu, number: int) -> Gpu:
    """A GPU as two dumps know it."""
    for what, a, b in (("bus id", one.busid, other.busid), ("architecture", arch_of(one), arch_of(other))):
        if a is not None and b is not None and a != b:
            raise contradiction(f"GPU {number} has {what} {b}", other.place, f"it has {what} {a}", one.place)
    pcie = one if one.pcie_gbps is not None else other
    return _filled(one, other, pcie_place=pcie.pcie_place or pcie.place)


def _nics(whole: Dump, later: Dump) -> tuple[tuple[Nic, ...] | None, tuple[int, ...], list[str]]:
    """The ports of both, those of the first first, and where the later dump's are among them."""
    if later.nics is None:
        return whole.nics, (), []
    found, at, notes = list(whole.nics or ()), [], []
    for nic in later.nics:
        here = next((i for i, known in enumerate(found) if known.name == nic.name), None)
        if here is None:
            here = len(found)
            found.append(nic)
            if whole.nics:
                notes.append(f"{nic.place}: {nic.name} is in this file only")
        else:
            found[here] = _one_nic(found[here], nic)
        at.append(here)
    return tuple(found), tuple(at), notes


def _one_nic(one: Nic, other: Nic) -> Nic:
    if one.gbps is not None and other.gbps is not None and abs(one.gbps - other.gbps) > 0.02 * one.gbps:
        raise contradiction(
            f"{one.name} has {other.gbps:g} GB/s", other.place, f"it has {one.gbps:g} GB/s", one.place
        )
    return _filled(
        one,
        other,
        place=one.place if one.gbps is not None or other.gbps is None else other.place,
        card_place=one.card_place if one.card_gbps is not None else other.card_place or other.place,
    )


def _nic_nearness(whole: Dump, later: Dump, at: _Map, nics: Sequence[Nic]) -> _Table | None:
    """Of each GPU and port what the first tells; they must agree on whether a CPU away is between them."""
    size = (len(whole.gpus), len(nics))
    mine = _moved(whole.nic_nearness, size, range(len(whole.gpus)), range(len(whole.nics or ())))
    theirs = _moved(later.nic_nearness, size, at.gpus, at.nics)
    for gpu, (a, b) in enumerate(zip(mine or (), theirs or (), strict=False)):
        for nic, (near, other) in enumerate(zip(a, b, strict=True)):
            if near is None or other is None or (near == Nearness.SYS) == (other == Nearness.SYS):
                continue
            if min(near, other) <= Nearness.PXB:
                raise contradiction(
                    f"{nics[nic].name} is {other.name} from GPU {gpu}",
                    later.gpus[at.gpus.index(gpu)].place,
                    f"it is {near.name}",
                    whole.gpus[gpu].place,
                )
    return _first_reported(mine, theirs)


def _nearest(
    whole: Dump, later: Dump, at: _Map, nics: Sequence[Nic] | None
) -> tuple[tuple[int, ...], ...] | None:
    """What the first knows better than nearness tells, as long as no port has come next to it."""
    if whole.nearest_nics is not None and len(nics or ()) == len(whole.nics or ()):
        return whole.nearest_nics
    if later.nearest_nics is None or whole.nics or len(at.gpus) < len(whole.gpus):
        return None
    found: list[tuple[int, ...]] = [()] * len(whole.gpus)
    for there, here in enumerate(at.gpus):
        found[here] = tuple(at.nics[i] for i in later.nearest_nics[there])
    return tuple(found)


def _bridges(later: Dump, at: _Map) -> tuple[SharedBridge, ...] | None:
    if later.bridges is None:
        return None
    return tuple(
        replace(
            bridge,
            gpus=tuple(sorted(at.gpus[i] for i in bridge.gpus)),
            nics=tuple(sorted(at.nics[i] for i in bridge.nics)),
        )
        for bridge in later.bridges
    )


def _moved(
    rows: Sequence[Sequence[_Row | None]] | None,
    size: tuple[int, int],
    rows_at: Sequence[int],
    columns_at: Sequence[int],
) -> tuple[tuple[_Row | None, ...], ...] | None:
    """A table of one dump's devices with the whole's rows and columns."""
    if rows is None:
        return None
    table: list[list[_Row | None]] = [[None] * size[1] for _ in range(size[0])]
    for a, row in zip(rows_at, rows, strict=True):
        for b, value in zip(columns_at, row, strict=True):
            table[a][b] = value
    return tuple(map(tuple, table))


def _first_reported(
    one: Sequence[Sequence[_Row | None]] | None, other: Sequence[Sequence[_Row | None]] | None
) -> tuple[tuple[_Row | None, ...], ...] | None:
    if one is None or other is None:
        rows = one if other is None else other
        return None if rows is None else tuple(map(tuple, rows))
    return tuple(
        tuple(a if a is not None else b for a, b in zip(row, others, strict=True))
        for row, others in zip(one, other, strict=True)
    )

"""A machine without some of its helpers or links, by name: what each is worth."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from taccl.errors import TopologyError
from taccl.model.collective import Collective
from taccl.support.arguments import shown
from taccl.support.lists import few
from taccl.topologies.devices import Device, Link
from taccl.topologies.helpers import declared_name
from taccl.topologies.model import PhysicalTopology
from taccl.topologies.strict_yaml import nearest


def without(machine: PhysicalTopology, names: Iterable[str]) -> PhysicalTopology:
    """The machine without the helpers and links that these names stand for.

    Parameters
    ----------
    names : of a helper its name, with its node (`node0.nvswitch.sum`) or without, which stands for those of
        all nodes (`nvswitch.sum`); the switch that it is at (`nvswitch`); of counted servers one (`pbox3`)
        or all (`pbox`). Of a link its two ends, `gpu0-nic0` for both directions and `gpu0->nic0` for one,
        with their nodes or without.

    Raises
    ------
    TopologyError : a name that stands for nothing, with the names that exist.
    """
    helpers: set[str] = set()
    links: set[tuple[str, str]] = set()
    names = tuple(names)
    for name in names:
        if not isinstance(name, str):
            raise TopologyError(f"what a machine is without must be a name, not {shown(name)}")
        of_name = {device.name for device in machine.devices if name in _names_of(device)}
        between = {(link.src, link.dst) for link in machine.links if is_called(link, name)}
        if not of_name and not between:
            raise unknown_name(machine, name)
        helpers |= of_name
        links |= between
    if not names:
        return machine
    left = _without(machine, helpers, links)
    return replace(left, name=f"{machine.name} without {', '.join(names)}")


def without_helpers(machine: PhysicalTopology) -> PhysicalTopology:
    """The machine's GPUs, what passes data between them, and their links; its name stays."""
    helpers = {device.name for device in machine.devices if device.kind == "helper"}
    return _without(machine, helpers, ()) if helpers else machine


def as_used_by(machine: PhysicalTopology, collective: Collective) -> PhysicalTopology:
    """The machine without what its switches do more than pass on, where the collective has no use for that.

    A switch sums what comes from several ranks and copies what several want. Where no chunk is summed and
    each is wanted by one rank (AlltoAll, Gather, Scatter), it passes packets on, as it does between GPUs
    anyway. As a helper it could do more: gather the chunks of all, and send each rank what is for it in one
    group. A server can do that and stays.
    """
    at_switches = {device.name for device in machine.devices if device.at is not None}
    if not at_switches or (collective.num_wanted > 1).any():
        return machine
    is_summed = (collective.reduces & (collective.num_sources > 1)).any()
    return machine if is_summed else _without(machine, at_switches, ())


def _without(
    machine: PhysicalTopology, helpers: Collection[str], links: Collection[tuple[str, str]]
) -> PhysicalTopology:
    devices = [device for device in machine.devices if device.name not in helpers]
    used = {end for device in devices for end in device.behind or ()}
    gone = {end for device in machine.devices for end in device.behind or ()} - used | set(helpers)
    return replace(
        machine,
        devices=tuple(device for device in devices if device.name not in gone),
        links=tuple(
            link
            for link in machine.links
            if not {link.src, link.dst} & gone and (link.src, link.dst) not in links
        ),
    )


def _names_of(device: Device) -> set[str]:
    """What a helper can be called; empty for other devices."""
    if device.kind != "helper":
        return set()
    names = {device.name, device.name.removeprefix(f"node{device.node}."), declared_name(device)}
    names.add(declared_name(device).rstrip("0123456789"))
    if device.at is not None:
        names |= {device.at, device.at.removeprefix(f"node{device.node}.")}
        names.add(device.at.removeprefix(f"node{device.node}.").rstrip("0123456789"))
    return names


def is_called(link: Link, name: str) -> bool:
    """Whether a link goes by a name: `gpu0-nic0` in both directions, `gpu0->nic0` in one."""
    one_way = "->" in name
    ends = tuple(end.strip() for end in name.split("->" if one_way else "-"))
    if len(ends) != 2 or not all(ends):
        return False
    here = _matches(link.src, ends[0]) and _matches(link.dst, ends[1])
    return here or (not one_way and _matches(link.src, ends[1]) and _matches(link.dst, ends[0]))


def _matches(device: str, name: str) -> bool:
    """Whether a name is a device's, with its node or without."""
    return name in (device, device.partition(".")[2])


def unknown_name(machine: PhysicalTopology, name: str) -> TopologyError:
    """The error about a name that stands for nothing, with the names that exist."""
    helpers = _helper_names(machine.gpus[machine.num_members :])
    links = list(dict.fromkeys(f"{link.src}-{link.dst}" for link in machine.links))
    has = (
        f"it has {few(helpers, 8)}, and links such as" if helpers else "it has no helpers, but links such as"
    )
    near = nearest(name, [*helpers, *links[:1000]])
    hint = near if "," not in near else f"{has} {few(links, 2)}"
    return TopologyError(f"{machine.name} has no helper and no link called {shown(name)}", hint=hint)


def _helper_names(helpers: Sequence[Device]) -> list[str]:
    """The shortest names that helpers go by: of counted ones one for all."""
    return list(dict.fromkeys(_short_name(each, helpers) for each in helpers))


def _short_name(helper: Device, helpers: Sequence[Device]) -> str:
    name = declared_name(helper)
    if helper.at is not None:
        return name
    base = name.rstrip("0123456789")
    siblings = {declared_name(each) for each in helpers if declared_name(each).rstrip("0123456789") == base}
    return base if len(siblings) > 1 else name

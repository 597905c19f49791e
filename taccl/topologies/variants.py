"""A machine with another link, or with faster ones: what is worth building."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from taccl.errors import TopologyError
from taccl.model import units
from taccl.support.arguments import number, shown
from taccl.support.lists import few
from taccl.topologies.devices import DeviceKind, Link
from taccl.topologies.model import PhysicalTopology
from taccl.topologies.without import is_called, unknown_name

#: More would be a slip of the pen.
_MOST_TIMES = 1e6


def with_link(
    machine: PhysicalTopology,
    src: str,
    dst: str,
    *,
    alpha_us: float,
    bandwidth_gbps: float,
    both: bool = True,
) -> PhysicalTopology:
    """The machine with one more link. Next to one that is there with the same alpha, bandwidths add up.

    Parameters
    ----------
    src, dst : names of two devices, such as `gpu0`, with their node where there are several: `node1.nic0`.
    alpha_us, bandwidth_gbps : microseconds, and GB/s in each direction.
    both : whether there is one in the other direction, too.

    Raises
    ------
    TacclError : an end that the machine does not have, a cost that no link can have, or another alpha than
        that of a link that is there: a message is cut into parts for both, and waits for the slower one.
    """
    _check_machine(machine)
    ends = [(src, dst), (dst, src)] if both else [(src, dst)]
    beta = units.beta_from_bandwidth(bandwidth_gbps)
    for link in machine.links:
        if (link.src, link.dst) in ends and link.alpha_us != alpha_us:
            raise TopologyError(
                f"{link.src} and {link.dst} have a link with an alpha of {link.alpha_us:g} us already",
                hint=f"alpha_us={link.alpha_us:g}, or another pair of devices",
            )
    links = (*machine.links, *(Link(one, other, alpha_us, beta) for one, other in ends))
    return replace(machine, name=f"{machine.name} with {src}{'-' if both else '->'}{dst}", links=links)


def _check_machine(machine: object) -> None:
    """Raise TopologyError for what is no machine, such as the name of one."""
    if not isinstance(machine, PhysicalTopology):
        raise TopologyError(f"{shown(machine)} is no machine", hint='load_topology("ring:4")')


def scaled(machine: PhysicalTopology, what: str, times: float) -> PhysicalTopology:
    """The machine with some links this many times as fast; their alphas stay.

    A helper at a switch all of whose links get faster, gets faster with them.

    Parameters
    ----------
    what : links by their ends, as in `without`; or the kind of a device (gpu, switch, nic, pcie, fabric),
        which stands for all links with such an end.
    times : the bandwidth after over that before.

    Raises
    ------
    TopologyError : a name that stands for no link, or a factor that is not above 0.
    """
    _check_machine(machine)
    number(times, "the factor of a bandwidth", TopologyError, least=1 / _MOST_TIMES, most=_MOST_TIMES)
    if not isinstance(what, str):
        raise TopologyError(f"what is scaled must be a name, not {shown(what)}")
    kinds = {device.name: device.kind for device in machine.devices}
    chosen = {
        link for link in machine.links if what in (kinds[link.src], kinds[link.dst]) or is_called(link, what)
    }
    if not chosen and what in get_args(DeviceKind):
        has = few(sorted(set(kinds.values())))
        raise TopologyError(f"{machine.name} has no link at a {what}", hint=f"it has {has}")
    if not chosen:
        raise unknown_name(machine, what)
    kept = {end for link in machine.links if link not in chosen for end in (link.src, link.dst)}
    devices = tuple(
        replace(device, beta_us_per_mb=device.beta_us_per_mb / times)
        if device.beta_us_per_mb is not None and device.at is not None and device.at not in kept
        else device
        for device in machine.devices
    )
    links = tuple(
        replace(link, beta_us_per_mb=link.beta_us_per_mb / times) if link in chosen else link
        for link in machine.links
    )
    return replace(machine, name=f"{machine.name} with {what} x {times:g}", devices=devices, links=links)

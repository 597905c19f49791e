"""A machine with a number of aggregating servers: those of its file, or servers with a NIC like its GPUs'."""

from __future__ import annotations

from dataclasses import replace

from taccl.errors import TopologyError
from taccl.model.units import format_count
from taccl.support.arguments import whole_number
from taccl.topologies.devices import MAX_GPUS, NO_NODE, Device
from taccl.topologies.machines import both_directions
from taccl.topologies.model import PhysicalTopology

#: What servers are called where the machine has none.
_NAME = "server"


def with_servers(machine: PhysicalTopology, count: int) -> PhysicalTopology:
    """The machine with this many servers that aggregate; it is called after them.

    Servers that the machine has are kept, dropped from the last one on, or joined by more with the costs of
    the last one. Where it has none, each is linked to its fabric, or to its one switch, as a NIC or GPU is.

    Raises
    ------
    TopologyError : no number, or nothing that a server can be linked to.
    """
    whole_number(count, "helpers", TopologyError, least=0, most=MAX_GPUS)
    servers = [device for device in machine.devices if device.kind == "helper" and device.at is None]
    gone = {server.name for server in servers[count:]}
    devices = [device for device in machine.devices if device.name not in gone]
    links = [link for link in machine.links if not {link.src, link.dst} & gone]
    if count > len(servers):
        model, (switch, alpha_us, beta) = _next_to(machine, servers)
        base = model.name.rstrip("0123456789")
        taken = {device.name for device in machine.devices}
        names = [name for name in (f"{base}{i}" for i in range(count + len(taken))) if name not in taken]
        for number, name in enumerate(names[: count - len(servers)], start=len(servers)):
            devices.append(replace(model, name=name, local=number))
            links += both_directions(name, switch, alpha_us, beta)
    return replace(
        machine,
        name=f"{machine.name} with {format_count(count, 'server')}",
        devices=tuple(devices),
        links=tuple(links),
    )


def _next_to(machine: PhysicalTopology, servers: list[Device]) -> tuple[Device, tuple[str, float, float]]:
    """What one more server is like: the device, and its switch, alpha and beta."""
    if servers:
        out = [link for link in machine.links if link.src == servers[-1].name]
        if len(out) == 1:
            return servers[-1], (out[0].dst, out[0].alpha_us, out[0].beta_us_per_mb)
        raise TopologyError(
            f"{servers[-1].name} of {machine.name} has {len(out)} links: no pattern for more servers",
            hint=f"--helpers {len(servers)} or fewer",
        )
    for kind, ends in (("fabric", ("nic",)), ("switch", ("gpu",))):
        kind_of = {device.name: device.kind for device in machine.devices}
        switches = [device.name for device in machine.devices if device.kind == kind]
        if len(switches) == 1:
            costs = {
                (link.dst, link.alpha_us, link.beta_us_per_mb)
                for link in machine.links
                if link.dst == switches[0] and kind_of[link.src] in ends
            }
            if len(costs) == 1:
                return Device(f"{_NAME}0", "helper", NO_NODE, 0), costs.pop()
    raise TopologyError(
        f"{machine.name} has no one fabric or switch, with equal links, for servers to be linked to",
        hint="list them in the machine's file, under 'helpers'",
    )

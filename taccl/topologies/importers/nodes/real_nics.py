"""Which network interfaces are ports of a card that a job would use."""

from __future__ import annotations

import re
from collections.abc import Sequence

from taccl.topologies.importers.nodes.facts import Nic

#: Interfaces that are made by software: bridges, tunnels and the ends of containers.
_VIRTUAL = re.compile(
    r"(veth|br-|docker|cali|tunl|virbr|flannel|cni|cilium|lxc|lxdbr|podman|vnet|vxlan|vmnet|kube|nodelocaldns"
    r"|dummy|ifb|tap|tailscale|zt|wg|ovs|nerdctl|weave|sit|gre|ip6tnl|teql|erspan).*|lo|tun\d*|br\d*",
    re.IGNORECASE,
)
#: 10 Gb/s: no faster than this, a port is one for logins where there is a faster one.
_SLOW_GBPS = 1.25


def unreal(nics: Sequence[Nic]) -> dict[int, str]:
    """Positions of the ports to leave out, and why.

    Those with a virtual interface's name, and those of at most 10 Gb/s where a faster one exists.
    """
    dropped = {i: "a virtual interface" for i, nic in enumerate(nics) if _VIRTUAL.fullmatch(nic.name)}
    speeds = [nic.gbps for i, nic in enumerate(nics) if i not in dropped and nic.gbps is not None]
    fastest = max(speeds, default=0.0)
    for i, nic in enumerate(nics):
        if i not in dropped and nic.gbps is not None and nic.gbps <= _SLOW_GBPS and nic.gbps < fastest:
            dropped[i] = f"{nic.gbps * 8:g} Gb/s, where others have {fastest * 8:g}"
    return dropped

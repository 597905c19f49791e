"""A design built and run, inside namespaces that end with the process that made them.

Everything is made in a network, mount and process namespace of its own (`unshare`), in which nothing else is
reachable: when its first process ends, however it ends, the kernel takes all of it down.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from taccl.deployment.testbed.design import ME, Design, End, control_address, rank_address
from taccl.errors import TacclError

#: Set for the process that is inside.
INSIDE = "TACCL_TESTBED"
#: Packets are what token buckets count: one a segment, as large as they may be.
_MTU = 9000
#: A bucket holds what a link carries in 2 ms, but a packet at least: late timers lose what exceeds it.
_BURST_S, _LEAST_BURST = 0.002, 10_000
#: Nothing is dropped: whole messages may be queued, so that no sender waits for acknowledgements that wait
#: behind what goes the other way.
_LIMIT = 64 * 2**20
#: Queues that several senders fill hold what was sent for longer than TCP's least patience (200 ms), and then
#: it is sent twice; nothing is ever lost here.
_PATIENT = "rto_min 5s"
_SETTINGS = {
    "net.ipv4.ip_forward": "1",
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
    "net.ipv4.tcp_slow_start_after_idle": "0",
    "net.ipv4.tcp_no_metrics_save": "1",
    "net.ipv4.tcp_wmem": "4096 4194304 8388608",
    "net.ipv4.tcp_congestion_control": "reno",
    "net.ipv4.tcp_early_retrans": "0",
    "net.ipv4.tcp_rmem": "4096 1048576 8388608",
}


def enter(arguments: Sequence[str]) -> None:
    """Replace this process by the same command inside; returns at once where it is inside already.

    Raises
    ------
    TacclError : this computer has no namespaces, or this user may make none.
    """
    if os.environ.get(INSIDE) == "1":
        return
    for tool in ("unshare", "ip", "tc"):
        if shutil.which(tool) is None:
            raise TacclError(f"a testbed needs {tool}", hint="util-linux and iproute2 on Linux have it")
    own = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid():
        own[1:1] = ["--user", "--map-root-user"]
    tried = subprocess.run([*own, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        said = (tried.stderr.strip().splitlines() or ["no reason was given"])[-1]
        raise TacclError(
            f"a testbed needs namespaces, and this user may not make them: {said}",
            hint="run it as root, or where user namespaces are allowed",
        )
    os.environ[INSIDE] = "1"
    os.execvp(own[0], [*own, sys.executable, "-m", "taccl", *arguments])


def build(design: Design) -> None:
    """Make all namespaces, wires, queues and routes. Only inside.

    Raises
    ------
    TacclError : a tool refuses something.
    """
    run = Path("/run")
    _do(["mount", "-t", "tmpfs", "none", str(run)])
    (run / "netns").mkdir()
    everywhere = [space_of(number) for number in range(len(design.devices))]
    _batch(["ip"], [f"netns add {space}" for space in (*everywhere, "ctl")])
    number_of = {device: number for number, device in enumerate(design.devices)}
    _batch(["ip"], list(_wiring(design, number_of)))
    for space in everywhere:
        inside = ["ip", "netns", "exec", space]
        _do([*inside, "sysctl", "-qw", *(f"{key}={value}" for key, value in _SETTINGS.items())])
    _batch(["ip", "-n", "ctl"], ["link add name bridge0 type bridge", "link set bridge0 up"])
    _batch(
        ["ip", "-n", "ctl"],
        [
            line
            for rank in range(design.num_ranks)
            for line in (f"link set c{rank} master bridge0", f"link set c{rank} up")
        ],
    )
    for device, number in number_of.items():
        there = ["-n", space_of(number)]
        _batch(["ip", *there], list(_addresses(design, device, number)))
        _batch(["ip", *there], list(_leading(design, device)))
        _batch(["tc", *there], list(_shaping(design, device)))


def in_rank(rank: int, command: Sequence[str]) -> list[str]:
    """A command to be run where a rank is."""
    return ["ip", "netns", "exec", space_of(rank), *command]


def environment_of(rank: int, size: int, port: int) -> dict[str, str]:
    """What the ranks of a job get to know: by torch, gloo and others."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": "0",
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": control_address(0),
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": ME,
        "TP_SOCKET_IFNAME": ME,
    }


def space_of(number: int) -> str:
    """The namespace of a device, by its place in the design; a rank's is its number."""
    return f"d{number}"


def _wiring(design: Design, number_of: dict[str, int]) -> Iterator[str]:
    for wire in design.wires:
        a, b = (space_of(number_of[end.device]) for end in wire.ends)
        ends = f"mtu {_MTU} netns {a} type veth peer name {wire.name} mtu {_MTU} netns {b}"
        yield f"link add name {wire.name} {ends}"
    for rank in range(design.num_ranks):
        space = space_of(rank)
        yield f"link add name ctl netns {space} type veth peer name c{rank} netns ctl"
        ends = f"mtu {_MTU} netns {space} type veth peer name {ME}2 mtu {_MTU} netns {space}"
        yield f"link add name {ME} {ends}"


def _addresses(design: Design, device: str, number: int) -> Iterator[str]:
    yield "link set lo up"
    if number < design.num_ranks:
        yield f"addr add {rank_address(number)}/32 dev {ME}"
        yield f"addr add {control_address(number)}/16 dev ctl"
        yield from (f"link set {name} up" for name in (ME, f"{ME}2", "ctl"))
    for name, end, _ in _ends(design, device):
        yield f"addr add {end.address}/31 dev {name}"
        yield f"link set {name} gso_max_segs 1 up"


def _leading(design: Design, device: str) -> Iterator[str]:
    table = 100
    for route in design.routes:
        if route.device != device:
            continue
        to = f"{rank_address(route.target)}/32 via {route.via} dev {route.wire}"
        own = design.devices.index(device)
        source = f" src {rank_address(own)} {_PATIENT}" if own < design.num_ranks else ""
        if route.source is None:
            yield f"route add {to}{source}"
            continue
        yield f"rule add from {rank_address(route.source)} to {rank_address(route.target)} lookup {table}"
        yield f"route add {to} table {table}"
        table += 1


def _shaping(design: Design, device: str) -> Iterator[str]:
    for name, end, _ in _ends(design, device):
        if end.rate_bits:
            burst = max(_LEAST_BURST, round(end.rate_bits / 8 * _BURST_S))
            yield f"qdisc add dev {name} root tbf rate {end.rate_bits}bit burst {burst} limit {_LIMIT}"


def _ends(design: Design, device: str) -> Iterator[tuple[str, End, End]]:
    for wire in design.wires:
        for own, other in (wire.ends, wire.ends[::-1]):
            if own.device == device:
                yield wire.name, own, other


def _batch(command: list[str], lines: list[str]) -> None:
    """Lines of one tool, all at once."""
    if not lines:
        return
    with tempfile.NamedTemporaryFile("w", suffix=".batch") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        _do([*command, "-batch", file.name])


def _do(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[0]
        raise TacclError(
            f"the testbed cannot be built: {' '.join(command[:4])} ..: {said}",
            hint="the kernel needs veth, tbf and policy routing",
        )

"""What a machine becomes: namespaces, wires at its rates, and routes that its traffic takes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from taccl import load_topology
from taccl.cli.main import main
from taccl.deployment.testbed.design import design_of, rank_address
from taccl.errors import TopologyError

TWO_NODES = (
    "name: two\nnodes: 2\nnode:\n  gpus: 2\n  nics: 1\n  links:\n"
    "    - {pairs: [0-1, 0-nic0, 1-nic0], alpha_us: 0.5, bandwidth_gbps: 12.5}\n"
    "fabric: {alpha_us: 3, bandwidth_gbps: 2.5}\n"
)


@pytest.fixture
def two_nodes(tmp_path):
    (tmp_path / "two.yaml").write_text(TWO_NODES)
    return load_topology(tmp_path / "two.yaml")


def way(design, source, target):
    """The devices that a packet passes, by the routes alone."""
    device_of = {end.address: end.device for wire in design.wires for end in wire.ends}
    here, passed = design.devices[source], [design.devices[source]]
    while here != design.devices[target]:
        routes = [route for route in design.routes if route.device == here and route.target == target]
        exact = [route for route in routes if route.source == source]
        (route,) = exact or [each for each in routes if each.source is None]
        here = device_of[route.via]
        assert here not in passed
        passed.append(here)
    return passed


def test_a_wire_has_the_rates_of_its_links(two_nodes):
    design = design_of(two_nodes, 1 / 1000)
    rates = {
        frozenset(end.device for end in wire.ends): {end.rate_bits for end in wire.ends}
        for wire in design.wires
    }
    assert rates[frozenset(("node0.gpu0", "node0.gpu1"))] == {100_000_000}
    assert rates[frozenset(("node0.nic0", "fabric"))] == {20_000_000}
    assert design.num_ranks == 4
    assert set(design.devices[4:]) == {"node0.nic0", "node1.nic0", "fabric"}


def test_traffic_takes_the_path_of_the_machine(two_nodes):
    design = design_of(two_nodes, 1 / 1000)
    assert way(design, 0, 1) == ["node0.gpu0", "node0.gpu1"]
    assert way(design, 0, 3) == ["node0.gpu0", "node0.nic0", "fabric", "node1.nic0", "node1.gpu1"]


@pytest.mark.parametrize("name", ["ring:5", "torus:3x3", "ndv2", "dgx2", "mesh:2x3"])
def test_every_rank_reaches_every_other_one_by_its_paths(name):
    machine = load_topology(name, nodes=2) if name in ("ndv2", "dgx2") else load_topology(name)
    design = design_of(machine, 1 / 1000)
    for source in range(design.num_ranks):
        for target in set(range(design.num_ranks)) - {source}:
            passed = way(design, source, target)
            path = machine.path(source, target)
            if path is not None:
                ends = [machine.links[link] for link in path.links]
                assert passed == [ends[0].src, *(link.dst for link in ends)]


def test_ranks_without_a_path_meet_through_the_fewest_others():
    machine = load_topology("ring:6")
    assert len(way(design_of(machine, 1 / 1000), 0, 3)) == 4


def test_addresses_and_interfaces_are_unlike():
    design = design_of(load_topology("torus:4x4"), 1 / 1000)
    addresses = [end.address for wire in design.wires for end in wire.ends]
    assert len(set(addresses)) == len(addresses)
    assert len({rank_address(rank) for rank in range(300)}) == 300


def test_what_cannot_be_built_is_refused():
    with pytest.raises(TopologyError, match="larger --scale"):
        design_of(load_topology("ring:4"), 1e-9)
    with pytest.raises(TopologyError, match="200 at most"):
        design_of(load_topology("ring:300"), 1 / 1000)
    done = CliRunner().invoke(main, ["testbed", "ring:3", "--scale", "2", "--", "true"])
    assert done.exit_code == 2
    assert "at most 1" in done.stderr


def can_build():
    own = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc"]
    own += ["--user", "--map-root-user"] if os.geteuid() else []
    try:
        wire = "ip link add name v0 type veth peer name v1"
        script = f"{wire} && tc qdisc add dev v0 root tbf rate 1mbit burst 9000 limit 20000"
        return subprocess.run([*own, "sh", "-c", script], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(
    not can_build(), reason="no network namespaces here: root and the kernel's veth and tbf are needed"
)
def test_ranks_run_and_reach_each_other_and_nothing_is_left(tmp_path):
    """Each of three ranks sends its number to the next by TCP, over a wire of the ring."""
    (tmp_path / "hello.py").write_text(
        "import os, socket, time\n"
        "rank, size = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])\n"
        "own, following = (f'10.250.0.{each % size + 1}' for each in (rank, rank + 1))\n"
        "listening = socket.create_server((own, 7000))\n"
        "while True:\n"
        "    try:\n"
        "        sending = socket.create_connection((following, 7000), source_address=(own, 0))\n"
        "        break\n"
        "    except OSError:\n"
        "        time.sleep(0.05)\n"
        "sending.sendall(str(rank).encode())\n"
        "sending.shutdown(socket.SHUT_WR)\n"
        "taken, sender = listening.accept()\n"
        "open(f'{rank}.txt', 'w').write(f'{taken.recv(10).decode()} {sender[0]}')\n"
    )
    command = [sys.executable, "-m", "taccl", "testbed", "ring:3", "--", sys.executable, "hello.py"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert [(tmp_path / f"{rank}.txt").read_text() for rank in range(3)] == [
        f"{(rank - 1) % 3} 10.250.0.{(rank - 1) % 3 + 1}" for rank in range(3)
    ]
    assert (
        "10.250.0" not in subprocess.run(["ip", "addr"], capture_output=True, text=True, check=False).stdout
    )

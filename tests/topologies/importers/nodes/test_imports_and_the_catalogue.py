"""An imported machine and the one of the catalogue are the same where they are of one kind."""

from pathlib import Path

import pytest

from taccl.topologies import PhysicalTopology, build_topology, parse_topology
from taccl.topologies.importers.nodes.machine import make_machine
from taccl.topologies.importers.nodes.rates import link_rate
from taccl.topologies.importers.nodes.registry import read_dump
from taccl.topologies.machines import rates

DUMPS = Path(__file__).parents[3] / "data" / "dumps" / "nccl-topo"


@pytest.mark.parametrize(
    ("kind", "arch", "rate"),
    [
        ("nvlink", "sm80", rates.NVLINK3),
        ("nvlink", "sm90", rates.NVLINK4),
        ("nvlink", "sm100", rates.NVLINK5),
        ("xgmi", "gfx90a", rates.XGMI_MI250X),
        ("xgmi", "gfx942", rates.XGMI_MI300X),
        ("xgmi", "gfx950", rates.XGMI_MI350X),
    ],
)
def test_a_dump_takes_the_rates_that_the_catalogue_takes(kind: str, arch: str, rate: rates.Rate) -> None:
    assert link_rate(kind, arch) is rate


def fast_links(machine: PhysicalTopology) -> set[tuple[str, str, float, float]]:
    """Links between GPUs, and into the one switch of their node, with GB/s."""
    kind = {device.name: device.kind for device in machine.devices}
    names = {device.name: device.name.rpartition(".")[2] for device in machine.devices}
    return {
        (names[link.src], names[link.dst], round(1048.576 / link.beta_us_per_mb, 6), link.alpha_us)
        for link in machine.links
        if {kind[link.src], kind[link.dst]} <= {"gpu", "switch"}
    }


@pytest.mark.parametrize("bandwidth", ["nccl", "peak"])
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("mi250x", DUMPS / "amd-mi250x-16.xml"),
        ("mi300x", DUMPS / "amd-mi300x-8.xml"),
        ("hgx-h800", DUMPS / "h800-8.xml"),
        ("dgx-h100", DUMPS / "oci-h100-8x16.xml"),
    ],
)
def test_what_is_imported_has_the_links_of_the_catalogue(name: str, path: Path, bandwidth: str) -> None:
    imported = parse_topology(make_machine(read_dump(path), bandwidth=bandwidth).yaml)
    assert fast_links(imported) == fast_links(build_topology(name, nodes=1, bandwidth=bandwidth))


def helpers(machine: PhysicalTopology) -> set[tuple[str, str | None, bool, bool, float]]:
    """What switches do in sums, and microseconds per MB of a GPU."""
    return {
        (each.name, each.at, each.may_sum, each.may_copy, round(each.beta_us_per_mb or 0, 6))
        for each in machine.gpus[machine.num_members :]
    }


@pytest.mark.parametrize("bandwidth", ["nccl", "peak"])
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("mi300x", DUMPS / "amd-mi300x-8.xml"),
        ("hgx-h800", DUMPS / "h800-8.xml"),
        ("dgx-h100", DUMPS / "oci-h100-8x16.xml"),
    ],
)
def test_switches_of_what_is_imported_sum_as_those_of_the_catalogue(
    name: str, path: Path, bandwidth: str
) -> None:
    imported = parse_topology(make_machine(read_dump(path), bandwidth=bandwidth).yaml)
    machine = build_topology(name, nodes=1, bandwidth=bandwidth)
    assert helpers(imported) == helpers(machine)
    assert imported.gpu == machine.gpu


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("mi250x", DUMPS / "amd-mi250x-16.xml"),
        ("mi300x", DUMPS / "amd-mi300x-8.xml"),
        ("hgx-h800", DUMPS / "h800-8.xml"),
    ],
)
def test_what_is_imported_reaches_other_nodes_as_fast_as_the_catalogue(name: str, path: Path) -> None:
    machines = (
        parse_topology(make_machine(read_dump(path), nodes=2).yaml),
        build_topology(name, nodes=2),
    )
    routes = [[machine.path(gpu, machine.num_ranks // 2) for gpu in (0, 1, 5)] for machine in machines]
    imported, known = ([(way.alpha_us, round(way.beta_us_per_mb, 6)) for way in each] for each in routes)
    assert imported == known

"""PCIe between GPUs that have no other way: what CPUs and bridges let through."""

import pytest

from taccl.model.units import MB
from taccl.topologies.importers.nodes.machine import make_machine
from taccl.topologies.importers.nodes.registry import parse_dump

GPU = (
    '<pci busid="0000:{bus}:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">'
    '<gpu dev="{dev}" sm="89" rank="{dev}"/></pci>'
)


def box(vendor: str, below_bridge: bool = False) -> str:
    """Two GPUs at each of two CPUs, PCIe 4."""
    cpus = []
    for numa in (0, 1):
        gpus = "".join(GPU.format(bus=f"{2 * numa + k + 1:02x}", dev=2 * numa + k) for k in (0, 1))
        if below_bridge:
            gpus = (
                f'<pci busid="0000:{numa}f:00.0" class="0x060400" vendor="0x10b5" device="0x8796" '
                f'link_speed="16.0 GT/s PCIe" link_width="16">{gpus}</pci>'
            )
        cpus.append(
            f'<cpu numaid="{numa}" arch="x86_64" vendor="{vendor}" familyid="6" modelid="143">{gpus}</cpu>'
        )
    return f'<system version="1">{"".join(cpus)}</system>'


def gbps(text: str, src: int, dst: int, **options: str) -> float:
    path = make_machine(parse_dump(text, "x.xml"), **options).topology.path(src, dst)
    return MB / path.beta_us_per_mb / 1e3


@pytest.mark.parametrize(("vendor", "expected"), [("GenuineIntel", 20.0), ("AuthenticAMD", 24.0)])
def test_past_an_intel_cpu_gpus_get_five_sixths_of_their_pcie_link(vendor: str, expected: float) -> None:
    assert gbps(box(vendor), 0, 1) == pytest.approx(expected, rel=1e-4)


def test_the_vendors_figures_are_not_lowered() -> None:
    assert gbps(box("GenuineIntel"), 0, 1, bandwidth="peak") == pytest.approx(31.5, rel=1e-4)


def test_below_a_bridge_nothing_passes_the_cpu_and_the_way_up_is_lowered() -> None:
    text = box("GenuineIntel", below_bridge=True)
    assert gbps(text, 0, 1) == pytest.approx(24, rel=1e-4)
    machine = make_machine(parse_dump(text, "x.xml"))
    ups = {
        link.beta_us_per_mb for link in machine.topology.links if "bridge" in link.src and "cpu" in link.dst
    }
    assert [MB / beta / 1e3 for beta in ups] == pytest.approx([20], rel=1e-4)
    assert "5/6 of 24 GB/s (read: x.xml:1), as NCCL takes it past an Intel CPU" in machine.yaml


def test_between_sapphire_rapids_it_is_ncclss_constant() -> None:
    assert gbps(box("GenuineIntel"), 0, 2) == pytest.approx(20, rel=1e-4)
    old = box("GenuineIntel").replace('modelid="143"', 'modelid="85"')
    assert gbps(old, 0, 2) == pytest.approx(10, rel=1e-4)


def test_what_is_told_of_a_gpu_is_its_own_link() -> None:
    assert make_machine(parse_dump(box("GenuineIntel"), "x.xml")).gpu_gbps == (24.0,) * 4

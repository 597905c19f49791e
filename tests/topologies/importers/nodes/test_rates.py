"""Constants of links, processors and hops: as NCCL, RCCL and the vendors have them."""

import pytest

from taccl.support.tables import FileLine
from taccl.topologies.importers.nodes.facts import Cpu
from taccl.topologies.importers.nodes.gpus import arch_of_model
from taccl.topologies.importers.nodes.rates import alphas, cpu_gbps, link_rate, pcie_peak_gbps

HERE = FileLine("x", 1)


@pytest.mark.parametrize(
    ("model", "kind", "nccl", "peak"),
    [
        ("Tesla P100-SXM2-16GB", "nvlink", 18, 20),
        ("Tesla V100-SXM2-32GB", "nvlink", 20, 25),
        ("NVIDIA A100-SXM4-80GB", "nvlink", 20, 25),
        ("NVIDIA RTX A6000", "nvlink", 12, 14),
        ("NVIDIA GeForce RTX 3090", "nvlink", 12, 14),
        ("NVIDIA H100 80GB HBM3", "nvlink", 20.6, 25),
        ("NVIDIA H200", "nvlink", 20.6, 25),
        ("NVIDIA B200", "nvlink", 40.1, 50),
        ("NVIDIA GB200", "nvlink", 40.1, 50),
        ("AMD Instinct MI50", "xgmi", 24, 46),
        ("AMD Instinct MI100", "xgmi", 24, 46),
        ("AMD Instinct MI250X", "xgmi", 36, 50),
        ("AMD Instinct MI300X", "xgmi", 48, 64),
        ("AMD Instinct MI350X", "xgmi", 51.6, 77),
    ],
)
def test_a_link_of_a_product(model: str, kind: str, nccl: float, peak: float) -> None:
    rate = link_rate(kind, arch_of_model(model))
    assert rate is not None
    assert (rate.of("nccl"), rate.of("peak")) == (nccl, peak)


def test_a_product_without_a_name_here_has_no_rate() -> None:
    assert arch_of_model("GPU of tomorrow") is None
    assert link_rate("nvlink", None) is None


@pytest.mark.parametrize(
    ("cpu", "gbps"),
    [
        (Cpu(HERE, arch="x86_64", vendor="GenuineIntel", family=6, model=79), 6),
        (Cpu(HERE, arch="x86_64", vendor="GenuineIntel", family=6, model=85), 10),
        (Cpu(HERE, arch="x86_64", vendor="GenuineIntel", family=6, model=143), 22),
        (Cpu(HERE, arch="x86_64", vendor="GenuineIntel", family=6, model=207), 40),
        (Cpu(HERE, arch="x86_64", vendor="AuthenticAMD", family=143, model=49), 16),
        (Cpu(HERE, arch="x86_64", vendor="CentaurHauls"), 6),
        (Cpu(HERE, arch="x86_64", vendor="  Shanghai  "), 6),
        (Cpu(HERE, arch="arm64"), 6),
        (Cpu(HERE, arch="ppc64"), 32),
        (None, 10),
    ],
)
def test_what_passes_between_cpus(cpu: Cpu | None, gbps: float) -> None:
    assert cpu_gbps(cpu)[0] == gbps


@pytest.mark.parametrize(("nccl", "peak"), [(12, 15.75), (24, 31.5), (48, 63), (96, 121), (6, 8)])
def test_the_vendors_figure_of_a_pcie_link(nccl: float, peak: float) -> None:
    assert pcie_peak_gbps(nccl) == peak


@pytest.mark.parametrize(
    ("protocol", "link", "pcie", "network"),
    [(None, 0.7, 1, 2.7), ("LL", 0.6, 1, 2.7), ("LL128", 1.9, 2.5, 4), ("Simple", 3.4, 5.7, 14)],
)
def test_what_a_hop_takes(protocol: str | None, link: float, pcie: float, network: float) -> None:
    hop = alphas(protocol)
    assert (hop.link_us, hop.pcie_us, hop.network_us) == (link, pcie, network)

"""The catalogue against what machines say of themselves: GPUs, fast links, NICs and which are nearest.

The dumps are read here by other code than the program's, so that one mistake is not made twice.
"""

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from taccl.topologies import PhysicalTopology, build_topology, catalogue_entry

DATA = Path(__file__).parents[1] / "data"
TREES = DATA / "dumps" / "nccl-topo"
GPU_CLASS, NIC_CLASS = ("0x03", "0x12"), "0x02"

FileLine = tuple[str, ...]


class Tree:
    """An NCCL topology file: places of GPUs and NICs in the PCIe tree, and links by GPU."""

    def __init__(self, path: Path) -> None:
        self.gpus: list[FileLine] = []
        self.nics: list[FileLine] = []
        self.links: dict[str, Counter[str]] = {}
        self._walk(ElementTree.parse(path).getroot(), ())
        if not self.links:  # a hint, whose devices have no order but that of their bus
            self.gpus.sort(key=lambda place: place[-1])
            self.nics.sort(key=lambda place: place[-1])

    def _walk(self, element: ElementTree.Element, place: FileLine) -> None:
        for at, child in enumerate(element):
            here = (*place, child.get("busid") or f"{child.tag}{at}")
            if child.tag == "gpu":
                self.gpus.append(place)
                counts = Counter[str]()
                for link in child:
                    switched = (link.get("tclass") or "").startswith("0x068")
                    counts["switch" if switched else link.attrib["target"]] += int(link.attrib["count"])
                self.links[place[-1]] = counts
            elif child.tag == "net":
                self.nics.append(place)
            elif child.tag == "pci" and not len(child) and child.get("class", "").startswith(GPU_CLASS):
                self.gpus.append(here)
            elif child.tag == "pci" and not len(child) and child.get("class", "").startswith(NIC_CLASS):
                self.nics.append(here)
            else:
                self._walk(child, here)

    def nearest(self) -> list[set[int]]:
        """For each GPU, the NICs with which it has most of the way to the root in common."""
        near = []
        for gpu in self.gpus:
            shared = [sum(a == b for a, b in zip(gpu, nic, strict=False)) for nic in self.nics]
            near.append({nic for nic, each in enumerate(shared) if each == max(shared)})
        return near


def alongside(machine: PhysicalTopology) -> list[set[int]]:
    """For each GPU of the first node, the NICs that it has a link to."""
    nics = {device.name: device.local for device in machine.devices if device.kind == "nic"}
    return [
        {nics[link.dst] for link in machine.links if link.src == gpu.name and link.dst in nics}
        for gpu in machine.gpus[: machine.num_members]
    ]


def links_of(machine: PhysicalTopology, gbps: float) -> list[dict[str, float]]:
    """For each GPU, its links of `gbps` to each other GPU, by rank, and to the switch."""
    kind = {device.name: device.kind for device in machine.devices}
    found: list[dict[str, float]] = []
    for gpu in machine.gpus[: machine.num_members]:
        mine = [
            link for link in machine.links if link.src == gpu.name and kind[link.dst] in ("gpu", "switch")
        ]
        ends = ["switch" if kind[link.dst] == "switch" else str(machine.rank_of[link.dst]) for link in mine]
        counts = [1048.576 / link.beta_us_per_mb / gbps for link in mine]
        found.append(dict(zip(ends, (round(count, 6) for count in counts), strict=True)))
    return found


def machine_and_links(name: str) -> tuple[PhysicalTopology, float]:
    """The machine of one node, and what one of its links moves, by its figures."""
    entry = catalogue_entry(name)
    assert entry is not None
    (one,) = (figure.value for figure in entry.figures if figure.quantity.startswith("one "))
    return build_topology(name, nodes=1), one


@pytest.mark.parametrize(
    ("name", "path", "total"),
    [
        ("mi250x", TREES / "amd-mi250x-16.xml", 252),
        ("mi300x", TREES / "amd-mi300x-8.xml", 336),
        ("hgx-h800", TREES / "h800-8.xml", 164.8),
        ("dgx-h100", TREES / "oci-h100-8x16.xml", 370.8),
    ],
)
def test_the_links_of_each_gpu_are_those_of_the_dump(name: str, path: Path, total: float) -> None:
    tree = Tree(path)
    machine, gbps = machine_and_links(name)
    bus = [place[-1] for place in tree.gpus]
    rank = {busid: str(i) for i, busid in enumerate(bus)} | {"switch": "switch"}
    assert machine.num_members == len(tree.gpus)
    reported = [{rank[end]: count for end, count in tree.links[busid].items()} for busid in bus]
    assert links_of(machine, gbps) == reported
    assert {round(gbps * sum(counts.values()), 6) for counts in reported} == {total}


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("mi250x", TREES / "amd-mi250x-16.xml"),
        ("mi300x", TREES / "amd-mi300x-8.xml"),
        ("hgx-h800", TREES / "h800-8.xml"),
        ("p4d", TREES / "aws-p4d-hint.xml"),
        ("ndv4", TREES / "azure-ndv4-hint.xml"),
    ],
)
def test_each_gpu_is_beside_the_nics_that_the_dump_has_nearest(name: str, path: Path) -> None:
    tree = Tree(path)
    machine = build_topology(name, nodes=1)
    assert machine.num_members == len(tree.gpus)
    assert machine.nic_count(0) == len(tree.nics)
    assert alongside(machine) == tree.nearest()


def test_an_h100_of_a_dump_has_a_card_of_two_ports_where_the_machine_has_a_nic() -> None:
    tree = Tree(TREES / "oci-h100-8x16.xml")
    machine = build_topology("dgx-h100", nodes=1)
    assert len(tree.nics) == 2 * machine.nic_count(0)
    assert tree.nearest() == [{2 * nic, 2 * nic + 1} for (nic,) in alongside(machine)]


@pytest.mark.parametrize(
    ("name", "file", "links"),
    [("dgx-a100", "a100-8-nonic-nolegend.txt", 12), ("dgx-h200", "h200-8-10nic-ansi.txt", 18)],
)
def test_the_nvlinks_of_a_table_of_nvidia_smi_are_those_of_the_machine(
    name: str, file: str, links: int
) -> None:
    path = DATA / "dumps" / "smi-topo" / file
    rows = [
        line for line in path.read_text(errors="replace").splitlines() if re.match(r"\W*GPU\d+\s.*NV", line)
    ]
    machine, gbps = machine_and_links(name)
    assert [set(re.findall(r"NV(\d+)", row)) for row in rows] == [{str(links)}] * machine.num_members
    assert links_of(machine, gbps) == [{"switch": links}] * machine.num_members


def test_a_pair_of_gpus_at_a_pcie_switch_shares_a_nic_as_in_a_dump_of_16_l20() -> None:
    tree = Tree(TREES / "l20-16-pcie.xml")
    pairs = Counter(frozenset(near) for near in tree.nearest())
    assert set(pairs.values()) == {2}
    machine = build_topology("l40s", nodes=1)
    switch = {link.src: link.dst for link in machine.links if "gpu" in link.src and "pcie" in link.dst}
    assert set(Counter(switch.values()).values()) == {2}


def test_the_nics_of_a_tray_of_gb200_are_those_that_a_cluster_shows() -> None:
    path = DATA / "clusters" / "gb200-cluster.ibnetdiscover.txt"
    named = re.findall(r'^Ca\s.*# "(\S+) (mlx5_\d+|HCA-\d+)"', path.read_text(errors="replace"), re.MULTILINE)
    per_host = Counter(Counter(host for host, _ in named).values())
    machine = build_topology("gb200-nvl72")
    trays = 18
    assert per_host.most_common(1)[0][0] == machine.nic_count(0) / trays == machine.num_members / trays == 4

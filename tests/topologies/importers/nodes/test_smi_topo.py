"""`nvidia-smi topo -m`: links and nearness as the table has them, and never a link that it has not."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taccl.errors import TopologyError
from taccl.topologies.importers.nodes.facts import Nearness
from taccl.topologies.importers.nodes.formats import smi_p2p, smi_topo
from taccl.topologies.importers.nodes.machine import make_machine
from taccl.topologies.importers.nodes.nvlinks import settled
from taccl.topologies.importers.nodes.registry import format_of, read_text

DUMPS = Path(__file__).parents[3] / "data" / "dumps" / "smi-topo"

PAIR = """\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV4\tNODE\t0-23\t0\t\tN/A
GPU1\tNV4\t X \tSYS\t\t1\t\tN/A
NIC0\tNODE\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_bond_0
"""
MESH = """      GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7
GPU0   X   NV1  NV1  NV2  NV2  SYS  SYS  SYS
GPU1  NV1   X   NV2  NV1  SYS  NV2  SYS  SYS
GPU2  NV1  NV2   X   NV2  SYS  SYS  NV1  SYS
GPU3  NV2  NV1  NV2   X   SYS  SYS  SYS  NV1
GPU4  NV2  SYS  SYS  SYS   X   NV1  NV1  NV2
GPU5  SYS  NV2  SYS  SYS  NV1   X   NV2  NV1
GPU6  SYS  SYS  NV1  SYS  NV1  NV2   X   NV2
GPU7  SYS  SYS  SYS  NV1  NV2  NV1  NV2   X
"""


def read(text):
    return smi_topo.read(text, "topo.txt")


def table(cell, gpus):
    """A table whose cell (a, b) is `cell(a, b)`."""
    names = [f"GPU{gpu}" for gpu in range(gpus)]
    rows = [
        "\t".join([name, *("X" if a == b else cell(a, b) for b in range(gpus))])
        for a, name in enumerate(names)
    ]
    return "\n".join(["\t" + "\t".join(names), *rows])


def ports(dump):
    """Of each GPU, its links to the switch."""
    return [sum(link.count for link in dump.links if (link.a, link.b) == (gpu, None)) for gpu in range(8)]


def nearest(dump):
    """Of each GPU, how near its nearest NICs are, and their numbers."""
    numbers = [int(nic.name.rpartition("_")[2]) for nic in dump.nics]
    return [
        (min(row), [number for number, near in zip(numbers, row, strict=True) if near == min(row)])
        for row in dump.nic_nearness
    ]


def real(name):
    text = read_text(DUMPS / name)
    assert format_of(text).name == smi_topo.NAME
    return smi_topo.read(text, name)


def test_eight_a100_behind_switches_without_nics_and_legend():
    dump = real("a100-8-nonic-nolegend.txt")
    assert dump.has_switch
    assert ports(dump) == [12] * 8
    assert dump.nics == ()


def test_eight_a800_with_four_nics():
    dump = real("a800-8-4nic.txt")
    assert dump.has_switch
    assert ports(dump) == [8] * 8
    pix, node = Nearness.PIX, Nearness.NODE
    left, right = (node, [0, 1]), (node, [2, 3])
    assert nearest(dump) == [left, (pix, [0]), left, (pix, [1]), right, right, right, (pix, [2, 3])]


def test_eight_h200_with_ten_nics_in_colours_and_tabs():
    dump = real("h200-8-10nic-ansi.txt")
    assert dump.has_switch
    assert ports(dump) == [18] * 8
    assert nearest(dump) == [(Nearness.PIX, nics) for nics in ([3], [5], [4], [0, 1, 2], [7], [9], [8], [6])]
    assert [gpu.numa for gpu in dump.gpus] == [0] * 4 + [1] * 4


def test_four_gpus_without_nvlinks():
    dump = real("rtx6000ada-4-4nic.txt")
    assert not dump.has_switch
    assert dump.links == ()
    node, sys = Nearness.NODE, Nearness.SYS
    assert dump.gpu_nearness[0] == (Nearness.SELF, node, sys, sys)
    assert nearest(dump) == [(node, [0, 1])] * 2 + [(node, [2, 3])] * 2


def test_names_of_nics_come_from_the_legend_and_numbers_from_the_affinities():
    dump = read(PAIR)
    assert [nic.name for nic in dump.nics] == ["mlx5_bond_0"]
    assert [gpu.numa for gpu in dump.gpus] == [0, 1]
    assert dump.nic_nearness == ((Nearness.NODE,), (Nearness.SYS,))
    assert dump.gpu_nearness[0][1] is None


def test_old_headers_name_nics_themselves_and_say_soc():
    dump = read("\tGPU0\tmlx4_0\tCPU Affinity\nGPU0\t X \tSOC\t0-5\nmlx4_0\tSOC\t X \n")
    assert [nic.name for nic in dump.nics] == ["mlx4_0"]
    assert dump.nic_nearness == ((Nearness.SYS,),)


def test_a_grace_hopper_has_numa_nodes_of_its_own_memory():
    text = """        GPU0   GPU1    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV6     0-71           0,5-11          4
GPU1    NV6      X      72-143         1,13-19         12
"""
    assert [gpu.numa for gpu in read(text).gpus] == [0, 1]


def test_a_cube_mesh_is_linked_directly():
    dump = read(MESH)
    assert dump.has_switch is False
    counts = {(link.a, link.b): link.count for link in dump.links}
    assert len(counts) == 16
    assert counts[0, 3] == counts[0, 4] == 2
    assert (0, 5) not in counts


def test_two_gpus_do_not_tell_what_is_between_them():
    dump = read(PAIR)
    assert dump.has_switch is None
    assert [(link.a, link.b, link.count, link.place.line) for link in dump.links] == [
        (0, None, 4, 2),
        (1, None, 4, 3),
    ]
    assert [(link.a, link.b, link.count) for link in settled(dump).links] == [(0, 1, 4)]


def test_a_gpu_without_links_where_others_have_them_is_told():
    dump = read(table(lambda a, b: "SYS" if 3 in (a, b) else "NV18", 8))
    assert ports(dump) == [18, 18, 18, 0, 18, 18, 18, 18]
    assert dump.warnings == ("topo.txt:5: GPU3 has 0 NVLinks, others 18",)


@pytest.mark.parametrize(("here", "there", "count"), [("NV12", "NV1", [1]), ("NV12", "SYS", [])])
def test_of_a_pair_that_counts_differently_at_its_ends_the_smaller_count_holds(here, there, count):
    dump = read(f" GPU0 GPU1\nGPU0 X {here}\nGPU1 {there} X\n")
    assert [link.count for link in settled(dump).links] == count
    assert "topo.txt:2" in dump.warnings[0]
    assert "line 3" in dump.warnings[0]


def test_two_gpus_behind_a_switch_without_a_way_to_each_other_are_refused():
    with pytest.raises(TopologyError, match="GPU1 and GPU2 have NVLinks to a switch") as error:
        read(table(lambda a, b: "NODE" if {a, b} == {1, 2} else "NV18", 4))
    assert error.value.line == 3


def test_a_mask_of_access_above_it_is_another_table():
    mask = " GPU0 GPU1\nGPU0 X OK\nGPU1 OK X\n\n"
    assert format_of(mask + PAIR).name == smi_topo.NAME
    assert len(read(mask + PAIR).links) == 2
    assert format_of(mask).name == smi_p2p.NAME


@pytest.mark.parametrize("cut", ["  NV#  = Connection traversing a bonded set of # NVLinks\n", None])
def test_the_table_of_pcie_alone_says_nothing_of_nvlinks(cut):
    text = PAIR.replace("NV4", "SYS")
    text = text.replace(cut, "") if cut else "$ nvidia-smi topo -mp\n" + text
    dump = read(text)
    assert dump.links is None
    assert dump.has_switch is None
    assert "give `topo -m` too" in dump.warnings[0]


def test_cells_that_lost_their_space_are_taken_apart_when_the_other_end_says_the_same():
    dump = read(PAIR.replace("NV4\tNODE", "NV4NODE"))
    assert dump.nic_nearness == ((Nearness.NODE,), (Nearness.SYS,))
    assert "joined" in dump.warnings[0]
    with pytest.raises(TopologyError, match="NODE in line 2, and NIC0 to GPU0 is SYS in line 4"):
        read(PAIR.replace("NV4\tNODE", "NV4NODE").replace("NIC0\tNODE", "NIC0\tSYS"))
    with pytest.raises(TopologyError, match="is NV4 in line 3, and GPU0 to GPU1 is NV2 in line 2"):
        read(PAIR.replace("NV4\tNODE", "NV2NODE"))


def test_ways_by_pcie_that_differ_at_their_ends_are_a_damaged_paste():
    with pytest.raises(TopologyError, match="is NODE in line 2, and NIC0 to GPU0 is PIX") as error:
        read(PAIR.replace("NIC0\tNODE", "NIC0\tPIX"))
    assert error.value.line == 4


def test_nvlinks_to_a_nic_are_refused():
    with pytest.raises(TopologyError, match="row GPU0, column NIC0"):
        read(PAIR.replace("NV4\tNODE", "NV4\tNV4").replace("NIC0\tNODE", "NIC0\tNV4"))


def nvlinks(dump):
    return {link.a for link in dump.links or ()} | {link.b for link in dump.links or ()} - {None}


@given(st.data())
def test_no_damage_to_a_paste_makes_a_link_or_anything_but_an_error(data):
    text = data.draw(st.sampled_from([PAIR, MESH, MESH.replace("\n", "\r\n"), PAIR.replace("\t", "  ")]))
    for _ in range(data.draw(st.integers(1, 3))):
        begin = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(begin, min(len(text), begin + 40)))
        text = text[:begin] + data.draw(st.sampled_from(["", " ", "\n", "X", "\t", "SYS"])) + text[end:]
    linked = set(range(8)) if "NV" in text else set()
    try:
        dump = read(text)
    except TopologyError as error:
        assert error.line is not None
        return
    assert nvlinks(dump) <= linked
    assert sum(link.count for link in dump.links or ()) <= 2 * sum(
        int(part[:1]) for part in text.split("NV")[1:] if part[:1].isdigit()
    )


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text):
    try:
        smi_topo.read(text, None)
    except TopologyError:
        assert not smi_topo.looks_like(text) or "GPU" in text


#: The NVLinks of a DGX-1 with P100, after what driver 375 says of one: each GPU has one to four others.
DGX1_P100 = ("01234", "10235", "20136", "30127", "40567", "51467", "62457", "73456")


@pytest.mark.parametrize(
    ("cell", "gbps"),
    [
        (lambda a, b: "NV4" if a // 2 == b // 2 else "SYS", 48.0),
        (lambda a, b: "NV1" if str(b) in DGX1_P100[a] else "SOC", 72.0),
    ],
    ids=["bridges", "P100"],
)
def test_how_links_are_spread_tells_their_generation(cell, gbps):
    """Four links to one other GPU are a bridge between two cards; a P100's four lead to four."""
    assert make_machine(read(table(cell, 8))).gpu_gbps == (gbps,) * 8


def test_two_groups_behind_switches_are_not_joined_by_them():
    dump = read(table(lambda a, b: "NV18" if a // 4 == b // 4 else "SYS", 8))
    assert "topo.txt:6: GPU4 hangs at another NVSwitch than GPU0" in dump.warnings[0]
    machine = make_machine(dump)
    assert machine.gpu_gbps == (370.8,) * 8
    assert "switches: [nvswitch, nvswitch1]" in machine.yaml

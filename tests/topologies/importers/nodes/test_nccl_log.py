"""The graph block of an NCCL log: the tree as printed, whoever else talks at the same time."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutilations import linked
from studies import examples

from taccl.errors import TopologyError
from taccl.topologies.importers.nodes.facts import Nearness
from taccl.topologies.importers.nodes.formats import nccl_log
from taccl.topologies.importers.nodes.registry import format_of, read_text

DUMPS = Path(__file__).parents[3] / "data" / "dumps" / "nccl-log"

PAIR = """=== System : maxBw 123.6 totalBw 123.6 ===
CPU/0-1 (1/1/3)
+ PCI[48.0] - PCI/0-115000 (1000c0301000100b)
              + PCI[48.0] - GPU/0-118000 (1)
                            + NVL[123.6] - GPU/0-1b3000
              + PCI[48.0] - NIC/0-119000
                            + NET[50.0] - NET/0-b (0/d4f9fc0003ae6d94/1/50.000000)
+ PCI[24.0] - PCI/0-1b0000 (1000c0301000100b)
              + PCI[48.0] - GPU/0-1b3000 (0)
                            + NVL[123.6] - GPU/0-118000
+ SYS[22.0] - CPU/0-0
CPU/0-0 (1/1/3)
+ PCI[48.0] - NIC/0-1000
==========================================
"""
SWITCHED = """=== System : maxBw 164.8 totalBw 164.8 ===
CPU/0-0 (1/1/3)
+ PCI[48.0] - PCI/0-c000 (1000c0301000100b)
              + PCI[48.0] - DEV/0-f000 (10de232410de17a6)
                            + LOC[5000.0] - GPU/0-f000
                            + NVL[164.8] - NVS/0-0
              + PCI[48.0] - PCI/0-d000 (1000c0301000100b)
                            + PCI[48.0] - DEV/0-e000 (10de232410de17a6)
                                          + LOC[5000.0] - GPU/0-e000
                                          + NVL[164.8] - NVS/0-0
==========================================
"""


def spoken(block, host="n1", thread=1):
    return "".join(f"{host}:7:{thread} [0] NCCL INFO {line}\n" for line in block.splitlines())


def read(text):
    return nccl_log.read(text, "nccl.log")


def links(dump):
    return [(link.a, link.b, link.kind, link.count, link.gbps) for link in dump.links]


def real(name):
    text = read_text(DUMPS / name)
    assert format_of(text).name == nccl_log.NAME
    return nccl_log.read(text, name)


def test_two_a100_with_a_bridge_and_two_ports_in_one():
    dump = real("a100-2gpu-nvlink-graph.txt")
    assert [(gpu.busid, gpu.dev, gpu.model, gpu.pcie_gbps) for gpu in dump.gpus] == [
        ("0000:17:00.0", 0, "A100 80GB PCIe", 24.0),
        ("0000:65:00.0", 1, "A100 80GB PCIe", 24.0),
    ]
    assert links(dump) == [(0, 1, "nvlink", 12, 20.0)]
    assert dump.has_switch is False
    assert [(nic.name, nic.gbps, nic.card) for nic in dump.nics] == [("mlx5_0+mlx5_1", 25.0, "0000:4b:00")]
    assert dump.nic_nearness == ((Nearness.PHB,), (Nearness.PHB,))


def test_one_gpu_of_a_job_on_two_nodes_and_a_sweep_behind_it():
    dump = real("a100-pcie-2node-sendrecv-small.txt")
    assert [gpu.busid for gpu in dump.gpus] == ["0000:81:00.0"]
    assert [(nic.name, nic.gbps, nic.card_gbps) for nic in dump.nics] == [("mlx5_2", 25.0, 24.0)]
    assert dump.nic_nearness == ((Nearness.PHB,),)
    assert dump.links == ()


@pytest.mark.parametrize(
    "text",
    [
        PAIR,
        spoken(PAIR),
        "".join(
            f"[1,0]<stdout>:{mine}\nn2:9:4 [1] NCCL INFO + PCI[1.0] - GPU/99000 (7)\nnoise\n"
            for mine in spoken(PAIR).splitlines()
        ),
        spoken(PAIR) + spoken(PAIR.replace("123.6", "20.6"), thread=2),
        spoken(PAIR).replace("\n", "\r\n"),
        spoken(PAIR).replace("n1:7:1", "2026-01-02T03:04:05 n1:7:1"),
        spoken(PAIR).replace(".0]", ".000000]"),
    ],
    ids=["bare", "a log", "ranks at once", "a block of each rank", "DOS", "times", "long numbers"],
)
def test_the_first_block_is_read_as_its_rank_printed_it(text):
    dump = read(text)
    assert dump.order == "by rank"
    assert [(gpu.busid, gpu.numa, gpu.pcie_gbps) for gpu in dump.gpus] == [
        ("0001:b3:00.0", 1, 24.0),
        ("0001:18:00.0", 1, 48.0),
    ]
    assert links(dump) == [(0, 1, "nvlink", 6, 20.6)]
    assert [(nic.name, nic.gbps, nic.numa) for nic in dump.nics] == [
        ("net_b", 50.0, 1),
        ("nic_1000", None, 0),
    ]
    assert dump.gpu_nearness[0][1] == Nearness.PHB
    assert dump.nic_nearness == ((Nearness.PHB, Nearness.SYS), (Nearness.PIX, Nearness.SYS))
    assert [(each.name, each.gpus, each.nics, each.gbps) for each in dump.bridges] == [
        ("0001:15:00.0", (1,), (0,), 48.0)
    ]
    assert [(cpu.numa, cpu.gbps) for cpu in dump.cpus] == [(1, 22.0), (0, None)]
    assert dump.warnings == ()


def test_devices_of_which_the_gpu_is_a_part_and_switches():
    dump = read(spoken(SWITCHED))
    assert dump.order == "by bus id"
    assert dump.has_switch
    assert links(dump) == [(0, None, "nvlink", 8, 20.6), (1, None, "nvlink", 8, 20.6)]
    assert dump.gpu_nearness[0][1] == Nearness.PXB


def test_lines_of_the_start_name_ranks_devices_and_ports():
    start = (
        "NET/IB : Using [0]mlx5_0:1/IB [11]mlx5_9:1/RoCE [RO]; OOB eth0:1.2.3.4<0>\n"
        "ncclCommInitRank comm 0x55 rank 1 nranks 2 cudaDev 0 nvmlDev 5 busId e000 commId 0x1 - Init START\n"
        "ncclCommInitRank comm 0x55 rank 0 nranks 2 cudaDev 1 nvmlDev 2 busId f000 commId 0x1 - Init START\n"
    )
    dump = read(spoken(start, thread=3) + spoken(SWITCHED))
    assert [(gpu.busid, gpu.dev) for gpu in dump.gpus] == [("0000:0f:00.0", 2), ("0000:0e:00.0", 5)]
    assert [nic.name for nic in read(spoken(start, thread=3) + spoken(PAIR)).nics] == ["mlx5_9", "nic_1000"]
    assert [nic.name for nic in read(spoken(start, host="n2") + spoken(PAIR)).nics] == ["net_b", "nic_1000"]


def test_rccl_prints_xgmi():
    gpus = ["GPU/B000", "GPU/E000", "GPU/1B000"]
    lines = ["=== System : maxBw 48.0 totalBw 96.0 ===", "CPU/0 (1/2/-1)"]
    for rank, gpu in enumerate(gpus):
        lines.append(f"+ PCI[48.0] - {gpu} ({rank})")
        lines += [f"              + XGMI[48.0] - {other}" for other in gpus if other != gpu]
    dump = read("\n".join([*lines, "====="]))
    assert links(dump) == [(a, b, "xgmi", 1, 48.0) for a, b in [(0, 1), (0, 2), (1, 2)]]


def test_links_that_differ_at_their_ends_are_told_and_the_fewer_hold():
    dump = read(PAIR.replace("NVL[123.6] - GPU/0-118000", "NVL[20.6] - GPU/0-118000"))
    assert links(dump) == [(0, 1, "nvlink", 1, 20.6)]
    assert "nccl.log:10" in dump.warnings[0]
    assert "nccl.log:5" in dump.warnings[0]


def test_links_that_one_end_states_alone_are_none():
    dump = read(PAIR.replace("                            + NVL[123.6] - GPU/0-118000\n", ""))
    assert dump.links == ()
    assert "0 back: 0 are taken" in dump.warnings[0]


def test_links_to_what_is_no_gpu_of_the_block_are_left_out_and_told():
    dump = read(PAIR.replace("- GPU/0-1b3000\n", "- GPU/0-999000\n", 1))
    assert dump.links == ()
    assert "0-999000, which is no GPU" in dump.warnings[0]


def test_links_of_a_gpu_to_its_cpu_are_not_between_gpus():
    dump = read(PAIR.replace("NVL[123.6] - GPU/0-1b3000", "NVL[60.0] - CPU/0-1"))
    assert dump.links == ()


def test_a_bandwidth_of_no_whole_number_of_links_is_one():
    dump = read(PAIR.replace("123.6]", "17.3]"))
    assert links(dump) == [(0, 1, "nvlink", 1, 17.3)]
    assert "how many links" in dump.warnings[0]


def test_the_way_up_that_a_gpu_and_a_card_share_is_not_their_own():
    dump = read(PAIR.replace("PCI[48.0] - PCI/0-115000", "PCI[0.2] - PCI/0-115000"))
    assert (dump.gpus[1].pcie_gbps, dump.nics[0].card_gbps) == (48.0, 48.0)
    assert [bridge.gbps for bridge in dump.bridges] == [0.2]


def test_a_socket_has_no_card():
    dump = read(PAIR.replace("PCI[48.0] - NIC/0-1000", "PCI[5000.0] - NIC/0-0"))
    assert (dump.nics[1].card, dump.nics[1].card_gbps) == (None, None)


def test_a_block_that_is_cut_is_told():
    assert "has no end" in read(PAIR.partition("+ SYS")[0]).warnings[0]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (spoken("Bootstrap : Using eth0\nNCCL version 2.28"), 1, "no graph block"),
        ("\n" + spoken("=== System : maxBw 1.0 totalBw 1.0 ===\nCPU/0 (1/1/1)\n===="), 2, "no GPU"),
        (PAIR.replace("+ PCI[48.0] - NIC/0-1000", "+ PCI[48.0 - NIC/0-1000"), 13, "cannot be read"),
        (PAIR.replace("+ PCI[48.0] - NIC/0-1000", "..."), 13, "were left out here"),
        (spoken(PAIR).replace("\n", "\n[...]\n", 1), 2, "were left out here"),
    ],
)
def test_logs_without_a_machine_are_refused_with_what_to_do(text, line, says):
    assert nccl_log.looks_like(text)
    with pytest.raises(TopologyError) as error:
        read(text)
    assert (error.value.path, error.value.line) == ("nccl.log", line)
    assert says in error.value.message


@pytest.mark.parametrize(
    ("kind", "sums", "one"),
    [
        ("nvlink", [240.0], 20.0),
        ("nvlink", [264.0], 22.0),
        ("nvlink", [42.0, 21.0], 21.0),
        ("nvlink", [370.8, 350.2], 20.6),
        ("nvlink", [721.8], 40.1),
        ("nvlink", [18.0, 36.0], 18.0),
        ("xgmi", [36.0, 72.0, 144.0], 36.0),
        ("xgmi", [24.0], 24.0),
        ("nvlink", [17.3], None),
    ],
)
def test_one_link_is_the_fastest_known_of_which_all_sums_are_multiples(kind, sums, one):
    assert nccl_log.one_link(kind, sums) == one


@settings(max_examples=examples(67))
@given(st.data())
def test_no_damage_makes_a_link_or_anything_but_an_error(data):
    text = data.draw(st.sampled_from([PAIR, SWITCHED, spoken(PAIR)]))
    for _ in range(data.draw(st.integers(1, 3))):
        begin = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(begin, min(len(text), begin + 60)))
        text = text[:begin] + data.draw(st.sampled_from(["", " ", "\n", "0", "GPU/"])) + text[end:]
    try:
        dump = read(text)
    except TopologyError as error:
        assert error.line is not None
        return
    assert bool(dump.links) <= ("NVL[" in text)
    told = linked(read(PAIR)) | linked(read(SWITCHED))
    known = {"switch", *(gpu.busid for each in (PAIR, SWITCHED) for gpu in read(each).gpus)}
    assert all(pair in told for pair in linked(dump) if pair <= known)


@given(st.text("=SytemPCGU/[]01.0-+ ()\nNL", max_size=200))
def test_any_text_is_read_or_refused(text):
    try:
        read("=== System : max\n" + text)
    except TopologyError as error:
        assert error.line is not None


@pytest.mark.parametrize("block", [PAIR, SWITCHED], ids=["direct", "switch"])
def test_a_block_that_lost_its_indentation_tells_links_and_no_bridges(block):
    """As a page that joins blanks shows it: what is below a GPU or a card is known by its kind alone."""
    flat = read("\n".join(" ".join(line.split()) for line in block.splitlines()))
    whole = read(block)
    assert links(flat) == links(whole)
    assert [gpu.busid for gpu in flat.gpus] == [gpu.busid for gpu in whole.gpus]
    assert [(nic.name, nic.gbps) for nic in flat.nics] == [(nic.name, nic.gbps) for nic in whole.nics]
    assert flat.gpu_nearness[0][1] is None
    assert all(near in (None, Nearness.SYS) for row in flat.nic_nearness for near in row)
    assert "lost its indentation" in flat.warnings[-1]

"""A dump's format is found by what it holds."""

import pytest

from taccl.errors import FileError, TopologyError
from taccl.topologies.importers.nodes.machine import make_machine
from taccl.topologies.importers.nodes.merge import merge
from taccl.topologies.importers.nodes.registry import FORMATS, parse_dump, read_dump

PAIR = """<system version="1"><cpu numaid="0">
  <pci busid="0000:17:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
    <gpu dev="0" sm="80" rank="0"><nvlink target="0000:65:00.0" count="12" tclass="0x030200"/></gpu></pci>
  <pci busid="0000:65:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
    <gpu dev="1" sm="80" rank="1"><nvlink target="0000:17:00.0" count="12" tclass="0x030200"/></gpu></pci>
</cpu></system>
"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_name_of_a_file_and_its_encoding_do_not_matter(tmp_path, encoding):
    file = tmp_path / "notes.csv"
    file.write_bytes(PAIR.encode(encoding))
    dump = read_dump(file)
    assert dump.format == "nccl-topology"
    assert [(link.a, link.b, link.count) for link in dump.links] == [(0, 1, 12)]


@pytest.mark.parametrize("text", ["", " \n", "hello", "<html></html>", "\x00" * 9])
def test_what_is_no_dump_is_refused_with_what_would_be_one(text):
    with pytest.raises(TopologyError) as refused:
        parse_dump(text, "x.txt")
    assert (refused.value.path, refused.value.line) == ("x.txt", 1)
    assert "NCCL_TOPO_DUMP_FILE" in refused.value.hint


def test_a_folder_and_no_file_are_told(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(FileError):
            read_dump(path)


TOPO = """$ nvidia-smi topo -m
\tGPU0\tGPU1\tmlx5_0\tCPU Affinity
GPU0\t X \tNV12\tPIX\t0-23
GPU1\tNV12\t X \tSYS\t24-47
mlx5_0\tPIX\tSYS\t X

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks
"""
LINKS = "GPU {}: NVIDIA A100-SXM4-80GB (UUID: GPU-{})\n" + "".join(
    f"\t Link {k}: 25 GB/s\n" for k in range(12)
)
NVLINK = "$ nvidia-smi nvlink -s\n" + LINKS.format(0, "a") + LINKS.format(1, "b")
P2P = "$ nvidia-smi topo -p2p r\n \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n\nLegend:\n\n  OK   = Status Ok\n"
LOG = "".join(
    f"n1:7:9 [0] NCCL INFO {line}\n"
    for line in (
        "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:10.0.0.1<0>",
        "=== System : maxBw 240.0 totalBw 240.0 ===",
        "CPU/0 (1/1/2)",
        "+ PCI[24.0] - GPU/17000 (0)",
        "              + NVL[240.0] - GPU/65000",
        "+ PCI[24.0] - GPU/65000 (1)",
        "              + NVL[240.0] - GPU/17000",
        "==========================================",
    )
)
OUTPUTS = {
    "nccl-topology": PAIR,
    "nccl-log": LOG,
    "nvidia-smi-topo": TOPO,
    "nvidia-smi-p2p": P2P,
    "nvidia-smi-nvlink": NVLINK,
}


@pytest.mark.parametrize("between", ["", "\n", "$ date\nSun Nov 22 13:27:00 UTC 2026\n"])
@pytest.mark.parametrize("second", OUTPUTS)
@pytest.mark.parametrize("first", OUTPUTS)
def test_outputs_of_two_tools_in_one_file_tell_what_two_files_tell(first, second, between):
    if first == second:
        return
    dump = parse_dump(OUTPUTS[first] + between + OUTPUTS[second], "x.txt")
    apart = sorted((OUTPUTS[first], OUTPUTS[second]), key=lambda text: list(OUTPUTS.values()).index(text))
    alone = merge([parse_dump(text, "x.txt") for text in apart])
    assert dump.format == alone.format
    assert [(gpu.busid, gpu.model) for gpu in dump.gpus] == [(gpu.busid, gpu.model) for gpu in alone.gpus]
    assert [(link.a, link.b, link.count) for link in dump.links or ()] == [
        (link.a, link.b, link.count) for link in alone.links or ()
    ]
    assert dump.peer_access == alone.peer_access


def test_lines_keep_their_numbers_in_a_file_of_several_outputs():
    dump = parse_dump(TOPO + NVLINK, "x.txt")
    assert [gpu.place.line for gpu in parse_dump(NVLINK + TOPO, "x.txt").gpus] == [30, 31]
    assert [gpu.place.line for gpu in dump.gpus] == [3, 4]
    with pytest.raises(TopologyError) as refused:
        parse_dump(TOPO + NVLINK.replace("\t Link 11: 25 GB/s\n", "", 1), "x.txt")
    assert refused.value.line == 13
    assert "x.txt:3" in refused.value.message
    assert "`nvidia-smi topo -m` from line 1, `nvidia-smi nvlink -s` from line 11" in refused.value.hint


def test_an_output_that_is_damaged_beside_one_that_is_not_is_left_out_and_told():
    dump = parse_dump(TOPO + NVLINK.replace("Link 3: 25 GB/s", "Link 3: odd", 1), "x.txt")
    assert dump.format == "nvidia-smi-topo"
    assert "x.txt:16: `nvidia-smi nvlink -s` is left out: the state of link 3" in dump.warnings[-1]


def test_outputs_of_machines_that_differ_are_refused_with_both_formats_and_lines():
    three = TOPO + LINKS.format(0, "a")  # another machine has one GPU
    more = three + "".join(LINKS.format(gpu, gpu) for gpu in (1, 2))
    with pytest.raises(TopologyError) as refused:
        parse_dump(more, "x.txt")
    assert "x.txt:" in refused.value.message
    assert "from line 1," in refused.value.hint
    assert "from line 11;" in refused.value.hint


def test_every_format_is_told_from_every_other():
    """Otherwise a file of one output would be taken apart."""
    for name, text in OUTPUTS.items():
        assert [each.name for each in FORMATS if each.looks_like(text)] == [name]


#: After pages of people with two RTX 3090 and a bridge: both outputs of `nvidia-smi` below each other.
BRIDGED = """$ nvidia-smi nvlink -s
GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-a)
\t Link 0: 14.062 GB/s
\t Link 1: 14.062 GB/s
GPU 1: NVIDIA GeForce RTX 3090 (UUID: GPU-b)
\t Link 0: 14.062 GB/s
\t Link 1: 14.062 GB/s
$ nvidia-smi topo -m
\tGPU0\tGPU1\tCPU Affinity
GPU0\t X \tNV2\t0-23
GPU1\tNV2\t X \t0-23
"""


def test_outputs_of_one_tool_in_one_file_refine_each_other():
    dump = parse_dump(BRIDGED, "x.txt")
    assert dump.format == "nvidia-smi-topo+nvidia-smi-nvlink"
    assert [gpu.model for gpu in dump.gpus] == ["GeForce RTX 3090"] * 2
    assert make_machine(dump).gpu_gbps == (24.0, 24.0)


def test_an_output_below_another_that_is_not_understood_is_left_out_and_told():
    dump = parse_dump(BRIDGED.replace("Link 1: 14.062 GB/s", "Link 1: odd", 1), "x.txt")
    assert dump.format == "nvidia-smi-topo"
    assert "x.txt:4: `nvidia-smi nvlink -s` is left out: the state of link 1" in dump.warnings[-1]


def test_outputs_in_one_file_that_contradict_each_other_are_an_error_with_both_lines():
    with pytest.raises(TopologyError, match=r"GPU 0 has 1 links, but x\.txt:9 says: it has 2") as refused:
        parse_dump(BRIDGED.replace("\t Link 1: 14.062 GB/s\nGPU 1", "GPU 1"), "x.txt")
    assert refused.value.line == 3

"""A dump's format is found by what it holds."""

import pytest

from taccl.dumps.machine import make_machine
from taccl.dumps.registry import parse_dump, read_dump
from taccl.errors import FileError, TopologyError

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

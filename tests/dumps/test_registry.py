"""A dump's format is found by what it holds."""

import pytest

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

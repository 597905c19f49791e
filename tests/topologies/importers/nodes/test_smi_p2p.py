"""`nvidia-smi topo -p2p`: a mask of who may reach whom, and never a link."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taccl.errors import TopologyError
from taccl.topologies.importers.nodes.formats import smi_p2p
from taccl.topologies.importers.nodes.registry import format_of, read_text

DUMPS = Path(__file__).parents[3] / "data" / "dumps" / "smi-p2p"
PAIR = """ \tGPU0\tGPU1\t
 GPU0\tX\tOK\t
 GPU1\tOK\tX\t

Legend:

  X    = Self
  OK   = Status Ok
"""


def read(text):
    return smi_p2p.read(text, "p2p.txt")


def real(name):
    text = read_text(DUMPS / name)
    assert format_of(text).name == smi_p2p.NAME
    return smi_p2p.read(text, name)


def test_two_pairs_reach_each_other_within_and_not_across():
    dump = real("2pairs-topo-p2p.txt")
    yes, no = (True, True, False, False), (False, False, True, True)
    assert dump.peer_access == (yes, yes, no, no)
    assert (dump.links, dump.has_switch, dump.nics) == (None, None, None)
    assert "4 pairs of GPUs may not reach each other, GPU0 and GPU2 (NS) among them" in dump.warnings[0]


def test_eight_gpus_all_reach_each_other():
    dump = real("8gpu-topo-p2p-r.txt")
    assert dump.peer_access == ((True,) * 8,) * 8


@pytest.mark.parametrize("word", ["NS", "CNS", "GNS", "TNS", "DR"])
def test_whatever_stands_against_it_there_is_no_access(word):
    assert read(PAIR.replace("OK\t", f"{word}\t")).peer_access == ((True, False), (False, True))


def test_unknown_is_unknown():
    assert read(PAIR.replace("OK\t", "U\t")).peer_access[0] == (True, None)


def test_two_ends_that_differ_are_told():
    dump = read(PAIR.replace("OK\t", "NS\t", 1))
    assert dump.peer_access == ((True, False), (True, True))
    assert dump.warnings[0] == "p2p.txt:3: GPU1 to GPU0 is OK, and GPU0 to GPU1 is NS (line 2)"


@pytest.mark.parametrize(("cell", "links"), [("OK", None), ("NS", ())])
def test_the_mask_of_nvlinks_can_only_say_that_there_are_none(cell, links):
    dump = read("$ nvidia-smi topo -p2p n\n" + PAIR.replace("OK\t", f"{cell}\t"))
    assert dump.links == links
    assert dump.peer_access is None


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (PAIR.replace("OK\t\n GPU1", "OKAY\t\n GPU1"), 2, "row GPU0, column GPU1: 'OKAY'"),
        (PAIR.replace(" GPU1\tOK\tX\t\n", ""), 2, "a column for GPU1 and no row"),
        (" \tGPU0\tmlx5_0\n GPU0\tX\tOK\n mlx5_0\tOK\tX\n", 1, "mlx5_0 is no GPU"),
    ],
)
def test_damage_is_refused_with_its_line(text, line, says):
    with pytest.raises(TopologyError) as error:
        read(text)
    assert (error.value.path, error.value.line) == ("p2p.txt", line)
    assert says in error.value.message


@given(st.text("GPU01 XOKNS\t\n", max_size=200))
def test_any_text_is_read_without_a_link_or_refused(text):
    try:
        dump = read(PAIR + text)
    except TopologyError:
        return
    assert not dump.links

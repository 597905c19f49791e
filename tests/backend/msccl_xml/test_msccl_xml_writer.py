import re
from dataclasses import replace

import pytest
from small_schedules import direct_allgather, program_of, ring_allreduce

from taccl.backend.msccl_xml import parse_xml
from taccl.backend.msccl_xml.writer import to_xml
from taccl.backend.program import (
    Buffer,
    Op,
    Program,
    Protocol,
    RankProgram,
    Step,
    ThreadBlock,
)
from taccl.errors import XmlError

TINY = Program(
    name="tiny",
    collective="broadcast",
    num_ranks=1,
    num_channels=1,
    chunks_per_loop=1,
    protocol=Protocol.LL128,
    in_place=False,
    out_of_place=True,
    min_bytes=1,
    max_bytes=2,
    ranks=(
        RankProgram(
            0,
            1,
            1,
            0,
            (
                ThreadBlock(
                    0,
                    -1,
                    -1,
                    0,
                    (
                        Step(Op.NOP, Buffer.INPUT, -1, Buffer.OUTPUT, -1, 0, depends=(1, 0)),
                        Step(Op.COPY, Buffer.INPUT, 0, Buffer.OUTPUT, 0, 1, depends=(1, 2)),
                    ),
                ),
            ),
        ),
    ),
)


def test_the_text_is_exactly_what_the_runtimes_scanner_reads() -> None:
    assert to_xml(TINY) == (
        '<algo name="tiny" proto="LL128" nchannels="1" nchunksperloop="1" ngpus="1" coll="broadcast" '
        'inplace="0" outofplace="1" minBytes="1" maxBytes="2">\n'
        '  <gpu id="0" i_chunks="1" o_chunks="1" s_chunks="0">\n'
        '    <tb id="0" send="-1" recv="-1" chan="0">\n'
        '      <step s="0" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0" '
        'depid="1" deps="0" hasdep="0"/>\n'
        '      <step s="1" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" '
        'depid="1" deps="2" hasdep="0"/>\n'
        "    </tb>\n"
        "  </gpu>\n"
        "</algo>\n"
    )


def test_every_element_carries_every_attribute_once_and_nothing_strange() -> None:
    text = to_xml(program_of(ring_allreduce(3)))
    assert text.isascii() and "\t" not in text and "<?" not in text and "'" not in text
    number = {"algo": 10, "gpu": 4, "tb": 4, "step": 10}
    for tag, attributes in re.findall(r"<(\w+)((?: \w+=\"[^\"]*\")*)/?>", text):
        names = re.findall(r" (\w+)=", attributes)
        assert len(names) == len(set(names)) == number[tag]


def test_what_is_written_is_read_back() -> None:
    program = program_of(direct_allgather(3))
    read = parse_xml(to_xml(program))
    assert to_xml(read) == to_xml(program)
    assert read.num_ranks == 3


@pytest.mark.parametrize("name", ["", "a" * 64, 'a"b', "a<b", "a>b", "a&b", "a=b", "tab\t", "ä"])
def test_a_name_that_the_scanner_would_trip_over_is_refused(name: str) -> None:
    with pytest.raises(XmlError, match="cannot be the name"):
        to_xml(replace(TINY, name=name))


def test_the_name_that_selects_a_built_in_alltoall_is_refused_for_alltoall_only() -> None:
    with pytest.raises(XmlError, match="its own algorithm"):
        to_xml(replace(TINY, name="2D", collective="alltoall"))
    assert 'name="2D"' in to_xml(replace(TINY, name="2D"))

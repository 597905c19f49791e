from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import (
    REAL_FILES,
    direct_alltoall,
    program,
    ring_allgather,
    ring_allreduce,
    scratch_allreduce,
    step,
)
from studies import examples

from taccl.backend.msccl_xml import parse_document, parse_xml, read_xml, to_xml
from taccl.backend.msccl_xml import reader as reader_module
from taccl.backend.program import Buffer, Op, Protocol
from taccl.errors import FileError, TacclError, XmlError

MINIMAL = """<algo name="a" proto="LL" nchannels="1" nchunksperloop="2" ngpus="2"{coll}>
  <gpu id="0" i_chunks="2" o_chunks="0" s_chunks="2">
    <tb id="0" send="1" recv="-1" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="2"{none} hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="2" o_chunks="0" s_chunks="2">
    <tb id="0" send="-1" recv="0" chan="0">
      <step s="0" type="r" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="2"{none} hasdep="1"/>
      <step s="1" type="re" srcbuf="s" srcoff="1" dstbuf="i" dstoff="0" cnt="1"{wait} hasdep="0"/>
    </tb>
  </gpu>
</algo>
"""
MINIMAL = (
    MINIMAL.replace("{wait}", ' depid="0" deps="0"')
    .replace("{none}", ' depid="-1" deps="-1"')
    .replace("{coll}", ' coll="allreduce" inplace="1"')
)


def error_of(text):
    with pytest.raises(XmlError) as caught:
        parse_xml(text, "f.xml")
    return caught.value


def test_a_step_is_read_with_its_buffers_wait_and_line():
    read = parse_xml(MINIMAL).ranks[1].thread_blocks[0].steps[1]
    assert (read.op, read.src, read.src_offset) == (Op.REDUCE, Buffer.SCRATCH, 1)
    assert (read.dst, read.dst_offset, read.count) == (Buffer.INPUT, 0, 1)
    assert (read.depends, read.has_dependent, read.line) == ((0, 0), False, 10)


def test_attributes_that_old_writers_leave_out_get_their_defaults():
    read = parse_xml(MINIMAL)
    assert (read.in_place, read.out_of_place) == (True, False)
    assert (read.min_bytes, read.max_bytes) == (0, 2**27)


def test_the_document_still_knows_what_was_missing():
    assert "maxBytes" not in parse_document(MINIMAL).algo.attributes


def test_channels_and_ranks_are_counted_where_the_file_does_not_say():
    text = MINIMAL.replace(' nchannels="1"', "").replace(' ngpus="2"', "").replace('chan="0"', 'chan="3"')
    assert (parse_xml(text).num_channels, parse_xml(text).num_ranks) == (4, 2)


def test_operands_that_a_step_does_not_use_may_be_missing():
    text = MINIMAL.replace(
        ' srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="1"',
        ' dstbuf="s" dstoff="0" cnt="2" hasdep="1"',
    )
    assert parse_xml(text).ranks[1].thread_blocks[0].steps[0].dst is Buffer.SCRATCH


def test_blocks_and_ranks_may_come_in_any_order():
    first, rest = MINIMAL.split("  <gpu", 1)
    one, two = rest.split("  <gpu", 1)
    swapped = first + "  <gpu" + two.replace("</algo>\n", "") + "  <gpu" + one + "</algo>\n"
    assert parse_xml(swapped) == parse_xml(MINIMAL)


def test_a_rank_without_element_has_no_blocks():
    assert parse_xml(MINIMAL.replace('ngpus="2"', 'ngpus="3"')).ranks[2].thread_blocks == ()


def test_numbers_are_read_as_the_runtimes_read_them():
    read = parse_xml(
        MINIMAL.replace('nchunksperloop="2"', 'nchunksperloop="0x10"').replace('ngpus="2"', 'ngpus="02"')
    )
    assert (read.chunks_per_loop, read.num_ranks) == (16, 2)


def test_legacy_copy_elements_are_skipped():
    text = MINIMAL.replace('s_chunks="2">', 's_chunks="2"><copy i_off="0" o_off="0"/>')
    assert parse_xml(text) == parse_xml(MINIMAL)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('cnt="1"', 'cnt="one"', 10, "not a whole number"),
        ('cnt="1"', 'cnt="1.5"', 10, "not a whole number"),
        ('cnt="1"', 'cnt="99999999999"', 10, "32 bits"),
        ('cnt="1"', "", 10, "no attribute cnt"),
        ('type="re"', 'type="ra"', 10, "type is 'ra'"),
        ('srcbuf="s"', 'srcbuf="x"', 10, "srcbuf is 'x'"),
        ('depid="0" deps="0"', 'depid="0"', 10, "no attribute deps"),
        ('hasdep="1"', 'hasdep="2"', 9, "hasdep is 2"),
        ('id="1" i', 'id="0" i', 7, "given twice"),
        ('proto="LL"', 'proto="ll"', 1, "proto is 'll'"),
        ('ngpus="2"', 'ngpus="0"', 1, "ngpus is 0"),
        ('ngpus="2"', 'ngpus="1000000000"', 1, "ngpus"),
        (' nchunksperloop="2"', "", 1, "no attribute nchunksperloop"),
        ("<tb id", "text<tb id", 3, "text stands between"),
        ('<tb id="0" send="-1"', '<gpu id="9"/><tb id="0" send="-1"', 8, "cannot stand inside <gpu>"),
        ("</algo>", "</alga>", 13, "mismatched tag"),
        ('s_chunks="2"', 's_chunks="2" s_chunks="2"', 2, "duplicate attribute"),
    ],
)
def test_what_cannot_be_understood_is_named_with_its_line(old, new, line, words):
    error = error_of(MINIMAL.replace(old, new))
    assert (error.path, error.line) == ("f.xml", line)
    assert words in str(error)


def test_a_rank_beyond_the_last_is_skipped_as_the_runtimes_do():
    read = parse_xml(MINIMAL.replace('ngpus="2"', 'ngpus="1"'))
    assert (read.num_ranks, read.ranks[0]) == (1, parse_xml(MINIMAL).ranks[0])


def test_of_several_algos_the_first_counts():
    other = MINIMAL.replace('ngpus="2"', 'ngpus="3"')
    document = parse_document(MINIMAL + "<!-- next -->\n" + other)
    assert document.program == parse_xml(MINIMAL)
    (ignored,) = document.ignored
    assert (ignored.tag, ignored.line) == ("algo", 15)


def test_a_fault_in_a_further_algo_has_its_line():
    error = error_of(MINIMAL + MINIMAL.replace("</algo>", "</alga>"))
    assert error.line == 26
    assert "mismatched tag" in str(error)


def test_hosts_of_further_elements_are_refused():
    assert error_of(MINIMAL + "<x/>" * 1000).line == 14


def test_a_document_has_all_faults_and_the_best_guess():
    text = MINIMAL.replace('cnt="1"', 'cnt="1.5"').replace('hasdep="1"', 'hasdep="3"')
    document = parse_document(text)
    assert [(fault.line, fault.rank, fault.thread_block) for fault in document.faults] == [
        (9, 1, 0),
        (10, 1, 0),
    ]
    assert [fault.guessed for fault in document.faults] == [True, False]
    assert document.program.ranks[1].thread_blocks[0].steps[1].count == 1


def test_a_thread_block_given_twice_is_refused():
    block = '<tb id="0" send="-1" recv="-1" chan="0"/>'
    error = error_of(MINIMAL.replace("  </gpu>\n</algo>", f"  {block}</gpu>\n</algo>"))
    assert "thread block 0 is given twice, first on line 8" in str(error)


def test_another_root_element_is_refused():
    assert "<html>" in str(error_of("<html></html>"))


@pytest.mark.parametrize("text", ["", "  \n", "not xml", "<algo", "<algo>", "\0"])
def test_what_is_not_xml_is_refused(text):
    assert error_of(text).exit_code == 2


def test_entities_are_refused_before_they_can_grow():
    bomb = '<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>' + MINIMAL.replace(
        'name="a"', 'name="&b;"'
    )
    assert "document types" in str(error_of(bomb))


def test_external_documents_are_refused():
    assert "document types" in str(error_of('<!DOCTYPE a SYSTEM "file:///etc/passwd">' + MINIMAL))


def test_deep_nesting_is_refused():
    assert "deep" in str(error_of("<algo>" + "<x>" * 100000 + "</x>" * 100000 + "</algo>"))


def test_a_long_attribute_is_refused():
    assert "characters" in str(error_of(MINIMAL.replace('name="a"', f'name="{"a" * 100000}"')))


def test_a_huge_file_is_refused(monkeypatch):
    monkeypatch.setattr(reader_module, "_DIALECT", replace(reader_module._DIALECT, max_bytes=100))
    assert "bytes" in str(error_of(MINIMAL))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "latin-1"])
def test_other_encodings_are_xml_too(encoding):
    assert parse_document(MINIMAL.encode(encoding)).program == parse_xml(MINIMAL)


@pytest.mark.parametrize("encoding", ["nonsense", "rot13", "utf-7", "gb2312", "idna", "undefined"])
def test_encodings_that_cannot_be_read_are_refused(encoding):
    data = f'<?xml version="1.0" encoding="{encoding}"?>'.encode() + MINIMAL.encode()
    with pytest.raises(XmlError):
        parse_document(data)


def test_a_missing_file_and_a_directory_are_file_errors(tmp_path):
    for path in (tmp_path, tmp_path / "none.xml", "a\0b"):
        with pytest.raises(FileError):
            read_xml(path)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_give_a_program_or_a_clean_error(data):
    try:
        parse_document(data)
    except TacclError as error:
        assert str(error)


@settings(max_examples=examples(67), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(MINIMAL)), st.integers(0, 12), st.text(max_size=4)),
        min_size=1,
        max_size=4,
    )
)
def test_any_damage_to_a_file_gives_a_program_or_a_clean_error(damage):
    text = MINIMAL
    for place, length, new in damage:
        text = text[:place] + new + text[place + length :]
    try:
        parse_xml(text)
    except XmlError as error:
        assert error.line is not None or "empty" in str(error)


@pytest.mark.parametrize("path", sorted(REAL_FILES.glob("*.xml")), ids=lambda path: path.stem)
def test_real_files_survive_writing_and_reading(path):
    read = read_xml(path)
    assert parse_xml(to_xml(read)) == read


@pytest.mark.parametrize(
    "made",
    [
        ring_allreduce(4),
        ring_allgather(4, protocol=Protocol.LL128),
        direct_alltoall(3),
        scratch_allreduce(4, min_bytes=2**40, max_bytes=2**41),
        program("reduce_scatter", 2, (), (), name="empty"),
    ],
    ids=lambda made: made.collective,
)
def test_programs_survive_writing_and_reading(made):
    assert parse_xml(to_xml(made)) == made


def test_equal_programs_may_stand_on_different_lines():
    assert step("s") == replace(step("s"), line=7)

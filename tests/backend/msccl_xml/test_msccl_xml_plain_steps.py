"""A long file is read in two parts; whatever is in it, the outcome is that of reading it in one."""

import pickle
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import REAL_FILES, ring_allgather, ring_allreduce, scratch_allreduce
from studies import examples

from taccl.backend.msccl_xml import parse_document, parse_xml, plain_steps, to_xml
from taccl.backend.msccl_xml import reader as reader_module
from taccl.backend.step_rows import StepRows
from taccl.backend.verify.msccl_xml import verify_document
from taccl.errors import XmlError

FILES = sorted(REAL_FILES.glob("*.xml"))
TEXT = to_xml(ring_allreduce(2))
STEP = TEXT[TEXT.index("<step") : TEXT.index("/>") + 2]


@pytest.fixture(autouse=True)
def every_file_is_long(monkeypatch):
    monkeypatch.setattr(plain_steps, "runs_compiled", lambda rows: True)


def outcome(text, whole):
    """All that can be seen of a text, read in two parts or as a whole."""
    with pytest.MonkeyPatch.context() as patch:
        if whole:
            patch.setattr(reader_module, "take_plain_steps", lambda text: None)
        try:
            document = parse_document(text)
        except XmlError as error:
            return str(error), error.line
        try:
            parse_xml(text)
            refused = None
        except XmlError as error:
            refused = str(error), error.line
        return repr(document.program), document.faults, refused, verify_document(document, targets=None)


def taken(text):
    """Thread blocks whose steps are taken out of a text."""
    found = plain_steps.take_plain_steps(text.encode())
    return 0 if found is None else sum(each is not None for each in found[1])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_are_read_in_two_parts_as_in_one(path):
    data = path.read_bytes()
    assert outcome(data, whole=False) == outcome(data, whole=True)


@pytest.mark.parametrize("made", [ring_allgather(3), ring_allreduce(3), scratch_allreduce(3)])
def test_a_written_program_is_read_again_from_columns(made):
    read = parse_xml(to_xml(made))
    assert read == made
    blocks = [block for rank in read.ranks for block in rank.thread_blocks]
    assert all(isinstance(block.steps, StepRows) for block in blocks)


PIECES = [
    *('"', "'", "<", ">", "/", " ", "\n", "\t", "\r\n", "=", "0", "9", "-", "é", "\0", "&lt;", "x"),
    *("<!-- -->", "<![CDATA[", "<?x?>", "<!DOCTYPE a>", "<tb>", "</tb>", "<tb/>", "<step", "<step/>"),
    *(STEP, STEP.replace("/>", " />"), STEP.replace("/>", "></step>"), STEP.replace(' s="0"', "")),
    *(' s="0"', ' hasdep="1"', ' cnt="00"', ' cnt="9999999999"', ' type="nop"', ' a="/>"', "</algo><algo>"),
]


@settings(max_examples=examples(50), deadline=None)
@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(TEXT)), st.integers(0, 8), st.sampled_from(PIECES)),
        min_size=1,
        max_size=3,
    )
)
def test_damage_is_told_alike(edits):
    text = TEXT
    for place, cut, piece in edits:
        text = text[:place] + piece + text[place + cut :]
    assert outcome(text, whole=False) == outcome(text, whole=True)


@pytest.mark.parametrize(
    "old, new",
    [
        ('cnt="1"', 'cnt="01"'),
        ('cnt="1"', 'cnt="2147483648"'),
        ('cnt="1"', 'cnt="1" cnt="1"'),
        ('cnt="1"', 'cnt="1" note="/>"'),
        ('cnt="1" ', ""),
        ('cnt="1"', "cnt='1'"),
        ('hasdep="0"', 'hasdep="2"'),
        ('type="s"', 'type="S"'),
        ('srcbuf="i"', 'srcbuf="io"'),
        ("<step ", "<step\t"),
        ("<step ", "text <step "),
        ("/>", "><x/></step>"),
    ],
)
def test_a_block_with_any_other_step_stays_whole(old, new):
    assert old in TEXT
    assert taken(TEXT) - taken(TEXT.replace(old, new, 1)) == 1


@pytest.mark.parametrize("what", ["<!-- <tb> -->", "<!DOCTYPE algo>", "\r", "<?pi?>"])
def test_a_text_in_which_tags_may_be_none_stays_whole(what):
    assert taken(what + TEXT) == 0


def test_steps_deeper_than_elements_may_be_are_refused(monkeypatch):
    deep = replace(reader_module._DIALECT, max_depth=3)
    monkeypatch.setattr(reader_module, "_DIALECT", deep)
    assert outcome(TEXT, whole=False) == outcome(TEXT, whole=True)
    assert "nested more than 3 deep" in outcome(TEXT, whole=False)[0]


def test_more_elements_than_may_be_are_refused(monkeypatch):
    monkeypatch.setattr(plain_steps, "MAX_ELEMENTS", 10)
    assert taken(TEXT) == 0


def test_steps_of_columns_are_a_sequence_equal_to_a_tuple():
    rows = parse_xml(TEXT).ranks[0].thread_blocks[-1].steps
    steps = tuple(rows)
    assert (rows[0], rows[-1], rows[1:]) == (steps[0], steps[-1], steps[1:])
    assert rows == steps and steps == rows and hash(rows) == hash(steps) and rows != steps[1:]
    assert [each.line for each in rows] == [each.line for each in pickle.loads(pickle.dumps(rows))]
    with pytest.raises(IndexError):
        rows[len(rows)]

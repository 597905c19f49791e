"""What a file says in the wrong words: attributes, elements and numbers, as each runtime reads them."""

import re

import pytest
from findings import finding
from programs import (
    ring_allgather,
)

from taccl.backend.msccl_xml import to_xml
from taccl.backend.verify.msccl_xml import verify_text

GOOD = to_xml(ring_allgather(3, max_bytes=2**20))


@pytest.mark.parametrize("attribute", ["outofplace", "minBytes", "maxBytes"])
def test_what_old_writers_leave_out_is_refused_by_the_later_runtimes(attribute):
    old = re.sub(f' {attribute}="[0-9]*"', "", GOOD)
    report = verify_text(old)
    found = finding(report, "missing-attribute")
    assert attribute in found.message
    assert found.runtimes == ("executor", "rccl")
    assert report.facts.readers["msccl"] == "yes"


@pytest.mark.parametrize("attribute", ["depid", "deps", "hasdep", "s"])
def test_every_attribute_of_a_step_is_wanted(attribute):
    line = next(line for line in GOOD.split("\n") if 'type="cpy"' in line)
    without = re.sub(f' {attribute}="[-0-9]*"', "", line)
    report = verify_text(GOOD.replace(line, without))
    found = finding(report, "missing-attribute")
    assert f"<step> has no {attribute}" in found.message
    assert set(report.facts.readers.values()) == {"no"}


def test_a_misspelled_attribute_is_recognised():
    assert "maxBytes" in finding(verify_text(GOOD.replace("maxBytes", "maxbytes")), "missing-attribute").hint


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("<algo", '<?xml version="1.0"?>\n<algo', "XML declaration"),
        ("<algo", "\ufeff<algo", "byte order mark"),
        ("  <gpu", "\t<gpu", "tab stands between"),
        ("<tb id=", "<tb\tid=", "tab inside the tag"),
        ("<tb id=", "<tb\nid=", "line break inside the tag"),
        ('chan="0"', "chan='0'", "single quotes"),
        ('chan="0"', 'chan = "0"', "blanks round ="),
        ("</tb>", "</tb >", "blank in the closing tag"),
        ("<algo", "<!--a=b -->\n<algo", "right after <!--"),
        ('coll="allgather"', 'coll="&#97;llgather"', "not decoded"),
    ],
)
def test_what_the_scanner_of_the_runtimes_does_not_read_is_found(old, new, words):
    report = verify_text(GOOD.replace(old, new, 1))
    assert words in finding(report, "scanner").message
    assert set(report.facts.readers.values()) == {"no"}


def test_what_the_scanner_reads_is_no_finding():
    fine = (
        GOOD.replace("<algo", "<!-- a=b --><!--x y=1--><!-- Copyright, x=1 -->\r\n<algo")
        .replace("/>", "></step>")
        .replace("  ", "")
    )
    assert verify_text(fine).findings == ()


def test_the_line_of_a_fault_is_right():
    lines = GOOD.split("\n")
    lines[6] = "\t" + lines[6]
    assert finding(verify_text("\n".join(lines)), "scanner").line == 7


def test_attributes_beyond_the_sixteenth_are_lost():
    line = next(line for line in GOOD.split("\n") if 'type="cpy"' in line)
    more = " ".join(f'x{k}="1"' for k in range(7))
    assert finding(
        verify_text(GOOD.replace(line, line.replace("<step", f"<step {more}"))), "too-many-attributes"
    )
    wide = GOOD.replace(line, line.replace(" hasdep", " " * 8 + "hasdep"))
    assert "hasdep" in finding(verify_text(wide), "too-many-attributes").message
    harmless = GOOD.replace(line, line.replace("/>", f" {more}/>"))
    assert finding(verify_text(harmless), "too-many-attributes").severity == "warning"


def test_a_long_attribute_overwrites_memory():
    assert finding(verify_text(GOOD.replace('name="test"', f'name="{"n" * 256}"')), "long-attribute")
    fits = verify_text(GOOD.replace('name="test"', f'name="{"n" * 255}"'))
    assert {each.rule for each in fits.findings} == {"long-name"}


def test_elements_that_no_runtime_reads_are_told():
    report = verify_text(GOOD.replace('s_chunks="0">', 's_chunks="0"><copy i_off="0" o_off="0"/>', 1))
    assert "<copy>" in finding(report, "ignored-element").message
    assert report.ok


def test_something_inside_a_step_crashes_every_runtime():
    line = next(line for line in GOOD.split("\n") if 'type="cpy"' in line)
    assert finding(verify_text(GOOD.replace(line, line.replace("/>", "><x/></step>"))), "child-of-step")


def test_step_numbers_are_compared_with_the_order():
    assert (
        finding(verify_text(GOOD.replace('<step s="1"', '<step s="2"', 1)), "step-number").severity
        == "warning"
    )
    assert finding(verify_text(GOOD.replace('<step s="1"', '<step s="99"', 1)), "step-number").runtimes == (
        "executor",
        "rccl",
    )
    assert (
        finding(verify_text(GOOD.replace('<step s="1"', '<step s="-1"', 1)), "step-number").refusal == "load"
    )


def test_odd_numbers_are_shown_as_the_runtimes_read_them():
    report = verify_text(GOOD.replace('nchunksperloop="3"', 'nchunksperloop="03"'))
    assert "which the runtimes read as 3" in finding(report, "unusual-number").message


@pytest.mark.parametrize(
    ("threads", "protocol", "reader"),
    [
        ("100", "Simple", "no"),
        ("-32", "Simple", "no"),
        ("0", "Simple", "yes"),
        ("32", "Simple", "yes"),
        ("96", "Simple", "launch"),
        ("96", "LL", "yes"),
        ("256", "Simple", "yes"),
        ("384", "Simple", "launch"),
        ("640", "Simple", "yes"),
    ],
)
def test_thread_counts_of_msccl_are_warps_that_share_a_simple_piece_equally(threads, protocol, reader):
    text = GOOD.replace("<algo", f'<algo nthreads="{threads}"').replace('"Simple"', f'"{protocol}"')
    report = verify_text(text)
    assert report.facts.readers == {"msccl": reader, "executor": "yes", "rccl": "yes"}
    if reader != "yes":
        assert finding(report, "thread-count").runtimes == ("msccl",)
    assert verify_text(text, targets=("executor", "rccl")).ok


@pytest.mark.parametrize(
    ("old", "new", "words", "reader"),
    [
        ('hasdep="1"', 'hasdep="3"', "hasdep is 3", "no"),
        ('type="cpy"', 'type="ra"', "type is 'ra'", "no"),
        ('srcbuf="i"', 'srcbuf="x"', "srcbuf is 'x'", "no"),
        ('proto="Simple"', 'proto="simple"', "proto is 'simple'", "no"),
        ('id="2" send', 'id="1" send', "thread block 1 is given twice", "no"),
        ('<gpu id="1"', '<gpu id="0"', "gpu 0 is given twice", "yes"),
        ('ngpus="3"', 'ngpus="0"', "ngpus is 0", "yes"),
        ('cnt="1"', 'cnt="1x"', "the runtimes read it as 1", "yes"),
        ('cnt="1"', 'cnt="one"', "the runtimes read it as 0", "yes"),
        ('cnt="1"', 'cnt="99999999999"', "does not fit in 32 bits", "yes"),
    ],
)
def test_a_value_that_means_nothing_is_a_finding_with_its_place(old, new, words, reader):
    assert old in GOOD
    report = verify_text(GOOD.replace(old, new, 1))
    found = finding(report, "bad-value")
    assert not report.ok
    assert words in found.message
    assert found.line is not None
    assert set(report.facts.readers.values()) == {reader}


def test_a_missing_attribute_without_a_default_is_a_finding():
    report = verify_text(GOOD.replace(' cnt="1"', "", 1))
    assert [each.rule for each in report.errors] == ["missing-attribute"]


def test_of_several_algos_the_first_counts_with_a_warning():
    report = verify_text(GOOD + GOOD.replace('type="cpy"', 'type="nonsense"'))
    assert report.ok
    (warning,) = report.warnings
    assert (warning.rule, warning.line) == ("ignored-element", GOOD.count("\n") + 1)
    assert "1 elements <algo> follow the first" in warning.message


def test_ranks_that_nobody_has_are_ignored_with_a_warning():
    report = verify_text(GOOD.replace("</algo>", '<gpu id="3"/><gpu id="-1"/></algo>'))
    assert report.ok
    assert [each.rule for each in report.findings] == ["ignored-element"]
    assert "2 <gpu> elements" in report.warnings[0].message


def test_steps_that_stand_where_no_runtime_looks_are_ignored_with_a_warning():
    step_line = next(line for line in GOOD.split("\n") if 'type="cpy"' in line)
    report = verify_text(GOOD.replace("</gpu>", f"{step_line.strip()}</gpu>", 1))
    assert report.ok
    assert "<step>" in finding(report, "ignored-element").message

"""Whatever is in a file, it is read or refused with an error of this program: never a traceback."""

from pathlib import Path

import pytest
from benchmark_outputs import (
    CSV,
    DEVICES,
    HEADER,
    MORE,
    MPIGRAPH,
    P2P,
    ROW,
    SENDRECV,
    TRANSFERBENCH,
    as_json,
    nvbandwidth,
    perftest,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import examples

from taccl.calibration.benchmarks.findings import findings
from taccl.calibration.benchmarks.registry import FORMATS, parse_measured
from taccl.errors import TacclError

DATA = Path(__file__).parents[2] / "data" / "measurements"
SAMPLES = [
    *(MPIGRAPH, P2P, TRANSFERBENCH, nvbandwidth("<-"), perftest("MB/sec"), CSV, as_json(time=12.5)),
    SENDRECV + DEVICES.format(other="n014") + HEADER + ROW + MORE,
    *(path.read_text(encoding="utf-8") for path in sorted(DATA.glob("*.txt"))),
]


def mutilated(text: str) -> st.SearchStrategy[str]:
    """The text without a part, with a part twice, or with other letters in it."""
    place = st.integers(0, len(text))
    cut = st.tuples(place, place).map(lambda at: text[: min(at)] + text[max(at) :])
    twice = st.tuples(place, place).map(lambda at: text[: max(at)] + text[min(at) :])
    pieces = st.sampled_from(
        ["-1", "nan", "1e999", "\n", "\t", "{", "]", "N/A", "0", "9" * 30, "\x1b[0m", "é"]
    )
    other = st.tuples(place, st.lists(pieces, max_size=4)).map(
        lambda at: text[: at[0]] + "".join(at[1]) + text[at[0] + 1 :]
    )
    return st.one_of(cut, twice, other)


def read(text: str) -> None:
    try:
        findings(parse_measured(text, "x"), between="nodes")
    except TacclError as refused:
        assert refused.path == "x"
        assert refused.line is not None


@settings(max_examples=examples(50), deadline=None)
@given(st.sampled_from(SAMPLES).flatmap(mutilated))
def test_a_mutilated_output(text: str) -> None:
    read(text)


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_any_text(text: str) -> None:
    read(text)


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_a_reader_that_is_given_anything(each) -> None:
    for sample in (*SAMPLES, "", "{}", "[]", '{"nvbandwidth": 3}'):
        try:
            each.read(sample, "x")
        except TacclError as refused:
            assert refused.path == "x"

"""Numbers put into a machine's YAML file: all else of it stays, and each number says how it is known."""

import pytest

from taccl.errors import TopologyError
from taccl.topologies.yaml_costs import Edit, with_numbers
from taccl.topologies.yaml_file import parse_topology

BLOCK = """\
# my machine
name: two
gpus: 2
links:
  - pairs: [0-1]
    alpha_us: 0.5
    bandwidth_gbps: 25   # from the data sheet
"""
FLOW = "name: two\ngpus: 2\nlinks:\n  - {pairs: [0-1], alpha_us: 0.5, bandwidth_gbps: 25}\n"
ALPHA = Edit(("links", 0, "alpha_us"), "3.25", "fitted, a.txt:4")
SPEED = Edit(("links", 0, "bandwidth_gbps"), "17.5", "fitted, b.txt:9")


def test_a_number_changes_and_says_why_and_what_it_was() -> None:
    assert with_numbers(BLOCK, [ALPHA]) == BLOCK.replace(
        "alpha_us: 0.5", "alpha_us: 3.25  # alpha_us: fitted, a.txt:4, before 0.5"
    )


def test_what_a_comment_said_stays_behind_the_new_one() -> None:
    line = with_numbers(BLOCK, [SPEED]).splitlines()[-1]
    assert line == (
        "    bandwidth_gbps: 17.5  # bandwidth_gbps: fitted, b.txt:9, before 25; from the data sheet"
    )


@pytest.mark.parametrize("edits", [[ALPHA, SPEED], [SPEED, ALPHA]])
def test_two_numbers_of_one_line_share_its_comment(edits: list[Edit]) -> None:
    line = with_numbers(FLOW, edits).splitlines()[-1]
    assert line.startswith(
        "  - {pairs: [0-1], alpha_us: 3.25, bandwidth_gbps: 17.5}  # alpha_us: fitted, a.txt:4"
    )
    assert line.endswith("bandwidth_gbps: fitted, b.txt:9, before 25")


@pytest.mark.parametrize(
    "text",
    [
        BLOCK,
        FLOW,
        BLOCK.replace("\n", "\r\n"),
        '{\t"name": "two", "gpus": 2,\n\t"links": [{"pairs": ["0-1"], "alpha_us": 1, "bandwidth_gbps": 2}]}',
        FLOW.replace("name: two", 'name: "two #1 # not a comment"'),
        "---\n" + BLOCK.replace("pairs: [0-1]", "pairs: ['0-1']  # both"),
    ],
)
def test_the_text_is_the_machine_with_the_new_numbers(text: str) -> None:
    before, after = parse_topology(text), parse_topology(with_numbers(text, [ALPHA, SPEED]))
    assert after.name == before.name
    assert {(link.src, link.dst) for link in after.links} == {(link.src, link.dst) for link in before.links}
    assert {link.alpha_us for link in after.links} == {3.25}
    assert [link.beta_us_per_mb for link in after.links] == [pytest.approx(1048.576 / 17.5)] * 2


def test_a_comment_is_one_line_whatever_a_file_is_called() -> None:
    odd = Edit(ALPHA.keys, "1", "fitted, a\nb\x1b.txt:1")
    assert parse_topology(with_numbers(BLOCK, [odd])).links[0].alpha_us == 1
    assert "a?b?.txt" in with_numbers(BLOCK, [odd])


def test_no_edits_change_nothing() -> None:
    assert with_numbers(BLOCK, []) == BLOCK


def test_keys_that_lead_nowhere_are_refused() -> None:
    with pytest.raises(TopologyError, match=r"no number at links\.3\.alpha_us"):
        with_numbers(BLOCK, [Edit(("links", 3, "alpha_us"), "1", "x")])

"""Text of terminals becomes lines and cells that know where they stand."""

import pytest

from taccl.errors import TopologyError
from taccl.support.tables import FileLine, lines_of, number_of, plain_lines, square_tables, whole_of


def test_colours_and_unseen_letters_are_taken_off_on_the_same_lines():
    assert plain_lines("\ufeff\x1b[4ma\x1b[0m\r\n^[[1mb\xa0c") == ["a", "b c"]


def test_lines_end_as_editors_count_them():
    assert lines_of("a\r\nb\rc\nd\x0ce") == ["a", "b", "c", "d\x0ce"]


@pytest.mark.parametrize(("word", "value"), [("1.5", 1.5), ("-2e3", -2000.0), ("N/A", None), ("1e999", None)])
def test_words_become_finite_numbers(word, value):
    assert number_of(word) == value


def test_whole_numbers_have_few_digits():
    assert (whole_of("12"), whole_of("1.0"), whole_of("1" * 19)) == (12, None, None)


def test_a_location_names_file_and_line():
    assert str(FileLine("a.txt", 3)) == "a.txt:3"
    assert str(FileLine(None, None)) == "<text>"
    fault = FileLine("a.txt", 3).error("wrong", "right")
    assert (fault.path, fault.line, fault.hint) == ("a.txt", 3, "right")


def tables(*lines):
    def title(line):
        return line[2:] if line.startswith("# ") else None

    return square_tables(lines, title, lambda word: word if word.startswith("G") else None, "t.txt", 4)


def test_a_table_below_a_title_has_a_cell_for_each_pair():
    (table,) = tables("# hops", "   G0 G1", "G0 0  1", "noise", "G1 2  0")
    assert (table.title, table.line, table.names) == ("hops", 1, ("G0", "G1"))
    assert (table.cells["G1", "G0"].text, table.cells["G1", "G0"].line) == ("2", 5)
    assert table.is_whole


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        (("# hops", "G0 G1", "G0 0"), 3, "the row of G0 has 1 cells for 2 columns"),
        (("# hops", "G0 G1", "G2 0 1"), 3, "G2 has a row in this table and no column"),
        (("# hops", "G0 G1", "G0 0 1", "G0 0 1"), 4, "G0 has a second row"),
        (("# hops", "G0 G0"), 2, "G0 has two columns"),
        (("# hops", "G0 x"), 2, "'x' is no GPU"),
        (("# hops", "G0 G1 G2 G3 G4"), 2, "more than 4 GPUs"),
        (("# hops",), 1, "is empty"),
    ],
)
def test_damage_is_refused_with_its_line(lines, line, message):
    with pytest.raises(TopologyError, match=message) as error:
        tables(*lines)
    assert error.value.line == line

"""Tables of measured times: what is read, what is left out with a note, and what is refused with its line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taccl.calibration.benchmarks.file_times import looks_like_file_times, read_file_times
from taccl.errors import FileError

PLAIN = "file,size_bytes,in_place_us\na.xml,1024,12.5\nb.xml,2048,1e2\n"


def read(text: str) -> list[tuple[str | None, int, float]]:
    return [(row.file, row.size_bytes, row.time_us) for row in read_file_times(text, "times.csv").rows]


def test_a_row_is_a_file_a_size_and_a_time() -> None:
    assert read(PLAIN) == [("a.xml", 1024, 12.5), ("b.xml", 2048, 100.0)]


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("\n", "\r\n"),
        "\ufeff" + PLAIN,
        "# measured in May\n\n" + PLAIN,
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", " , "),
        PLAIN.replace("in_place_us", "time_us"),
        PLAIN.replace("size_bytes", "Size_Bytes"),
        PLAIN.replace("a.xml", '"a.xml"'),
        PLAIN + "file,size_bytes,in_place_us\n",
    ],
    ids=[
        "windows",
        "mark",
        "comments",
        "semicolons",
        "tabs",
        "blanks",
        "time",
        "capitals",
        "quotes",
        "again",
    ],
)
def test_spelling_does_not_matter(text: str) -> None:
    assert looks_like_file_times(text)
    assert read(text) == read(PLAIN)


def test_further_columns_are_skipped_and_the_time_in_place_counts() -> None:
    text = "file,size_bytes,out_of_place_us,in_place_us,time_us,wrong_in\na.xml,1024,1,2,3,0\n"
    assert read(text) == [("a.xml", 1024, 2.0)]


def test_a_table_of_one_file_need_not_name_it() -> None:
    assert read("size_bytes,time_us\n1024,12.5\n") == [(None, 1024, 12.5)]


def test_rows_without_a_time_or_with_wrong_results_are_left_out_with_a_note() -> None:
    text = "file,size_bytes,in_place_us,wrong_in\na,0,3,0\na,8,N/A,0\na,16,4,2\na,32,5,N/A\n"
    table = read_file_times(text, "t.csv")
    assert [row.size_bytes for row in table.rows] == [32]
    assert table.notes == (
        "t.csv: no time, or size 0 in 2 rows (line 2, 3): left out",
        "t.csv: wrong results in 1 rows (line 4): left out",
    )


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("", "holds no table", None),
        ("file,size_bytes\na,1\n", "no column in_place_us or time_us", 1),
        ("# one\nfile,in_place_us\na,1\n", "no column size_bytes", 2),
        ("size_bytes,time_us\n1024,1\n2048\n", "a row of 1 cells under 2 columns", 3),
        ("size_bytes,time_us\n1024,fast\n", "'fast' is no time in microseconds", 2),
        ("size_bytes,time_us\n1024,0\n", "'0' is no time in microseconds", 2),
        ("size_bytes,time_us\n16KB,3\n", "'16KB' is no size in bytes", 2),
        ("size_bytes,time_us\n-8,3\n", "'-8' is no size in bytes", 2),
        ("size_bytes,time_us\n8.5,3\n", "'8.5' is no size in bytes", 2),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text: str, message: str, line: int | None) -> None:
    with pytest.raises(FileError, match=message.replace("(", r"\(")) as fault:
        read_file_times(text, "times.csv")
    assert (fault.value.path, fault.value.line) == ("times.csv", line)


@given(st.text(st.sampled_from('file,size_bytes;tm_u\t0189.eN/A-#"\n '), max_size=80))
def test_any_text_is_read_or_refused(tail: str) -> None:
    for text in (tail, PLAIN + tail):
        looks_like_file_times(text)
        try:
            rows = read_file_times(text, "t.csv").rows
        except FileError:
            continue
        assert all(row.size_bytes > 0 and row.time_us > 0 for row in rows)


@pytest.mark.parametrize(("right", "wrong"), [("size_bytes", "bytes"), ("in_place_us", "inplace")])
def test_a_table_with_a_column_of_another_name_is_a_table_and_its_columns_are_named(
    right: str, wrong: str
) -> None:
    text = PLAIN.replace(right, wrong)
    assert looks_like_file_times(text)
    with pytest.raises(FileError, match=f"has no column {right}.*; its columns are file, .*{wrong}"):
        read(text)

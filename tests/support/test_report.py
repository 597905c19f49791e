"""One report gives JSON values, a data frame and HTML."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from taccl.support.report import Report, Reported, Table


@dataclass(frozen=True)
class Napkin(Reported):
    """A result with two rows."""

    def report(self) -> Report:
        rows = [{"link": "0 -> 1", "us": 1.5, "more": None}, {"link": "1 -> 0", "us": 2.0, "more": None}]
        table = Table("two <links>", [("0 -> 1", "1.50"), ("1 -> 0", "2.00")], ("link", "time (us)"))
        return Report("taccl.bound/1", {"links": 2}, ("link", "us"), rows, table)


def test_the_values_have_the_name_of_their_schema() -> None:
    assert Napkin().to_dict() == {"schema": "taccl.bound/1", "links": 2}


def test_printed_it_is_a_title_and_columns() -> None:
    assert str(Napkin()) == "two <links>\nlink    time (us)\n0 -> 1  1.50\n1 -> 0  2.00"


def test_a_data_frame_has_the_columns_of_the_report_and_no_more() -> None:
    pytest.importorskip("pandas")
    frame = Napkin().to_pandas()
    assert list(frame.columns) == ["link", "us"]
    assert frame.us.sum() == 3.5


def test_the_table_of_a_notebook_is_escaped() -> None:
    html = Napkin()._repr_html_()
    assert "<p>two &lt;links&gt;</p>" in html
    assert "<th>time (us)</th>" in html
    assert "<td>0 -&gt; 1</td><td>1.50</td>" in html

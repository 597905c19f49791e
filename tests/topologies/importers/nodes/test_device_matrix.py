"""A table of devices survives what terminals, launchers and pastes do to it, and nothing is guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taccl.errors import TopologyError
from taccl.support.tables import plain_lines
from taccl.topologies.importers.nodes.formats.device_matrix import has_matrix, read_matrix

CELLS = {"X", "NV1", "NV12", "NODE", "PIX", "PXB", "SYS"}
TABLE = """\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNODE\tPXB\t0-3\t0
GPU1\tNODE\t X \tSYS\t4-7\t1
mlx5_0\tPXB\tSYS\t X \t\t
"""


def matrix(text, path="topo.txt"):
    return read_matrix(plain_lines(text), CELLS.__contains__, "devices", path)


def cells(text):
    return {name: row.cells for name, row in matrix(text).rows.items()}


def refused(text):
    with pytest.raises(TopologyError) as error:
        matrix(text)
    assert error.value.path == "topo.txt"
    return error.value


WHOLE = {
    "GPU0": ("X", "NODE", "PXB"),
    "GPU1": ("NODE", "X", "SYS"),
    "mlx5_0": ("PXB", "SYS", "X"),
}


def test_cells_stand_by_row_and_column_with_their_lines():
    table = matrix(TABLE)
    assert cells(TABLE) == WHOLE
    assert table.columns == ("GPU0", "GPU1", "mlx5_0")
    assert (table.line, table.rows["GPU1"].line, table.end) == (1, 3, 5)
    assert table.rows["GPU1"].tail == {"CPU Affinity": "4-7", "NUMA Affinity": "1"}


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\t", "   "),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "".join(f"> {line}\n> \n" for line in text.splitlines()),
        lambda text: "".join(f"{n:3d} {line}\n{n + 1:3d} \n" for n, line in enumerate(text.splitlines())),
        lambda text: text.replace("\n", "\n\n"),
        lambda text: "\x1b[4m" + text.replace("Affinity\n", "Affinity\x1b[0m\n"),
        lambda text: text.replace("\tGPU0\tGPU1", "GPU0\tGPU1", 1),
        lambda text: "\n".join(f"[1,0]<stdout>: node7: {line}" for line in text.split("\n")),
        lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
        lambda text: "$ tool\n```\n" + text + "```\nLegend:\n  X    = Self\n",
        lambda text: "| " + text.replace("\t", " | ").replace("\n", " |\n| "),
        lambda text: text.replace("GPU0\tGPU1", "GPU0GPU1", 1),
        lambda text: text.replace("\tSYS\t4-7", "\n  SYS\t4-7").replace("\tmlx5_0\tCPU", "\nmlx5_0\tCPU"),
        lambda text: text.replace("\tGPU0", "\xa0\tGPU0", 1),
    ],
    ids=[
        "spaces for tabs",
        "DOS line ends",
        "a quote with blank lines",
        "numbers of lines",
        "double line ends",
        "colours",
        "no corner",
        "a launcher",
        "a quote",
        "text around it",
        "a table of Markdown",
        "joined header",
        "wrapped lines",
        "hard spaces",
    ],
)
def test_what_a_paste_does_to_it_does_not_matter(change):
    assert cells(change(TABLE)) == WHOLE


def test_a_first_cell_joined_to_its_name_and_a_last_one_to_numbers_are_taken_apart_and_told():
    table = matrix(
        TABLE.replace("GPU1\tNODE", "GPU1NODE").replace("SYS\t4-7", "SYS4-7").replace("0\tCPU", "0CPU")
    )
    assert {name: row.cells for name, row in table.rows.items()} == WHOLE
    assert table.rows["GPU1"].split == ("GPU0", "CPU Affinity")
    assert "column mlx5_0: 'NV14-7'" in refused(TABLE.replace("SYS\t4-7", "NV14-7")).message


def test_two_joined_cells_are_taken_apart_and_told():
    table = matrix(TABLE.replace("NODE\tPXB", "NODEPXB"))
    assert table.rows["GPU0"].cells == WHOLE["GPU0"]
    assert table.rows["GPU0"].split == ("mlx5_0",)


@pytest.mark.parametrize(
    ("damaged", "line", "says"),
    [
        (TABLE.replace("NODE\tPXB", "NODE\tP?B"), 2, "row GPU0, column mlx5_0: 'P?B'"),
        (TABLE.replace("X \tSYS\t4-7\t1", "X"), 3, "row GPU1, column mlx5_0: the row ends"),
        (TABLE.replace("X \tSYS", "X \tSYSSYSSYS"), 3, "row GPU1, column mlx5_0: 'SYSSYSSYS'"),
        (TABLE.replace("X \tSYS", "X \tSYSSYS"), 3, "row GPU1, column mlx5_0: 'SYSSYS'"),
        (TABLE.replace("X \tSYS", "X \tSYS\tSYS"), 3, "row GPU1 has more cells"),
        (TABLE.replace("GPU1\tNODE\t X ", "GPU1\tNODE\tPIX"), 3, "row GPU1, column GPU1: 'PIX'"),
        (TABLE.replace("GPU1\tNODE\t X \tSYS\t4-7\t1\n", ""), 3, "a column for GPU1 and no row"),
        (TABLE.replace("GPU0\tGPU1", "GPU0\tGPU0"), 1, "GPU0 has two columns"),
        (TABLE.replace("GPU1\tNODE", "GPU0\tNODE"), 3, "a second row of GPU0"),
    ],
)
def test_other_damage_is_an_error_with_its_row_column_and_line(damaged, line, says):
    error = refused(damaged)
    assert error.line == line
    assert says in error.message


def test_rows_without_a_header_name_their_columns_by_where_they_have_themselves():
    table = matrix("GPU0 X NV12 PIX SYS 0-3\nGPU1 NV12 X SYS PIX 4-7\n")
    assert table.columns == ("GPU0", "GPU1", "NIC0", "NIC1")
    assert table.is_headless
    assert table.rows["GPU1"].cells == ("NV12", "X", "SYS", "PIX")


def test_a_second_table_is_told_and_not_read():
    table = matrix(TABLE + "\n" + TABLE.replace("NODE", "PIX"))
    assert table.rows["GPU0"].cells == WHOLE["GPU0"]
    assert table.another == 6


@pytest.mark.parametrize("text", ["", "GPU0 GPU1", "GPU0 GPU1\nGPU0 0 15\nGPU1 15 0\n", "GPU0 X is a GPU"])
def test_other_text_is_no_table(text):
    assert not has_matrix(text, CELLS.__contains__)
    assert "no table" in refused(text).message


def test_one_word_of_a_megabyte_and_a_thousand_devices_take_no_time():
    wide = " ".join(f"GPU{i}" for i in range(3000))
    text = f"{wide}\nGPU0 X {'NV1' * 300_000}\n" + "GPU0 GPU1\nGPU0 X " + "SYSSYS" * 100_000
    refused(text)


@given(st.text("GPU01 X\tNV\nSYmlx5_\x1b[|", max_size=200))
def test_any_text_is_a_table_or_an_error(text):
    try:
        table = matrix(text)
    except TopologyError:
        return
    assert all(len(row.cells) == len(table.columns) for row in table.rows.values())


@pytest.mark.parametrize("cut", [["GPU0", "GPU1"], ["GPU0", "GPU1", "NIC0"]], ids=["GPUs", "NICs"])
def test_a_table_whose_lines_were_cut_at_the_right_has_a_row_without_a_column(cut):
    gone = "GPU2" if len(cut) == 2 else "NIC1"
    rows = [[name, *("X" if name == other else "NODE" for other in cut)] for name in [*cut, gone]]
    fault = refused("\n".join(["\t" + "\t".join(cut), *("\t".join(row) for row in rows)]))
    assert f"{gone} has a row and no column" in fault.message
    assert fault.line == len(cut) + 2

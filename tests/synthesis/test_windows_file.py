"""Windows in a file."""

import json

import pytest
from click.testing import CliRunner

from taccl.cli.main import main
from taccl.model.windows import Windows
from taccl.synthesis.windows_file import load_windows


def test_rates_are_read(tmp_path):
    path = tmp_path / "gemm.yaml"
    path.write_text(
        "ready: {us_per_mb: 85, order: chunk}\nat_root: {us_per_mb: 9.3}\nthen: {us_per_mb: 20}\n"
    )
    assert load_windows(path) == Windows(85, (), 9.3, 20)


def test_a_table_lies_next_to_the_file(tmp_path):
    (tmp_path / "gemm.yaml").write_text("ready: times.csv\n")
    (tmp_path / "times.csv").write_text("offset,rank,us\n0,1,2.5\n0,0,1\n")
    assert load_windows(tmp_path / "gemm.yaml").ready_us == ((0, 1, 2.5), (0, 0, 1.0))


@pytest.mark.parametrize(
    ("text", "table", "said"),
    [
        ("ready: {us_per_mb: -1}", "", "us_per_mb"),
        ("ready: {order: chunk}", "", "us_per_mb"),
        ("ready: {us_per_mb: 1, order: free}", "", "order"),
        ("soon: {us_per_mb: 1}", "", "soon"),
        ("ready: times.csv", "chunk,us\n", "offset,rank,us"),
        ("ready: times.csv", "offset,rank,us\n0,0\n", "line 2"),
        ("ready: times.csv", "offset,rank,us\n0,0,nan\n", "line 2"),
        ("ready: times.csv", "offset,rank,us\n0,0,1\n0,0,1\n", "twice"),
        ("ready: other.csv", "", "other.csv"),
        ("at_root: {us_per_mb: 1}", "", "at_root"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, text, table, said):
    (tmp_path / "gemm.yaml").write_text(text)
    (tmp_path / "times.csv").write_text(table)
    words = [
        "--topology",
        "ring:3",
        "--size",
        "3MB",
        "--windows",
        str(tmp_path / "gemm.yaml"),
        "--effort",
        "10",
    ]
    done = CliRunner().invoke(main, ["synthesize", *words, "--no-file", "-q"])
    assert done.exit_code == 2, done.output
    assert said in done.stderr.replace(":2:", " line 2 ")


def test_the_command_says_what_is_exposed(tmp_path):
    (tmp_path / "gemm.yaml").write_text("ready: {us_per_mb: 20}\n")
    words = [
        "--topology",
        "ring:3",
        "--size",
        "3MB",
        "--windows",
        str(tmp_path / "gemm.yaml"),
        "--effort",
        "100",
    ]
    shown = json.loads(CliRunner().invoke(main, ["synthesize", *words, "--no-file", "-q", "--json"]).stdout)
    assert shown["exposed_us"] == pytest.approx(shown["time_us"] - shown["compute_alone_us"])
    text = CliRunner().invoke(main, ["synthesize", *words, "--no-file", "-q"]).stdout
    assert "of computing" in text

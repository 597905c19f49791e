"""What results show in a notebook and hand to pandas, matplotlib and JSON."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
import pandas
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from matplotlib import pyplot

import taccl
from taccl.backend.execute import execute
from taccl.backend.msccl_xml import read_xml
from taccl.backend.program import Protocol
from taccl.cli.main import main
from taccl.errors import TacclError
from taccl.support.notebook import html_table
from taccl.support.schemas import json_schema

RING = {"topology": "ring:3", "size": "3MB"}


@pytest.fixture(autouse=True, scope="module")
def no_window() -> None:
    matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def no_figure_is_left() -> Iterator[None]:
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def result() -> taccl.Result:
    return taccl.synthesize("allgather", engine="greedy", gap=0.9, time_limit=10.0, **RING)


@pytest.fixture(scope="module")
def xml(result: taccl.Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("made") / "ag.xml"
    result.write(path)
    return path


class Tables(HTMLParser):
    """The rows of the tables in a piece of HTML; every tag that is opened must be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        assert tag in ("p", "table", "thead", "tbody", "tr", "th", "td", "br"), tag
        if tag != "br":
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1] in ("th", "td"):
            self.rows[-1][-1] += data


def test_a_table_is_escaped_in_every_place() -> None:
    bad = "<script>&"
    for header in ((bad, bad), ()):
        text = html_table(bad, header, [(bad, f"{bad}\n{bad}")])
        assert "<script>" not in text
        assert [bad, bad + bad] in Tables(text).rows


def test_a_result_shows_its_time_with_bound_gap_bandwidths_and_status(result: taccl.Result) -> None:
    shown = dict(Tables(result._repr_html_()).rows)
    assert [label for label in shown if label] == ["time", "lower bound", "gap", "algbw", "busbw", "verified"]
    assert shown["time"].startswith(f"{result.time_us:.2f} us  (links alone")
    assert shown["lower bound"].startswith(f"{result.any_chunks.value_us:.2f} us for any chunk count  (")
    assert shown[""].startswith(f"{result.lower_bound_us:.2f} us for this chunk count  (")
    assert shown["gap"].endswith(f"({result.status})")
    named = replace(result, topology="<b>", sketch="<script>")
    assert "<b>" not in named._repr_html_()
    assert "<script>" not in named._repr_html_()


@pytest.fixture(scope="module")
def everything(xml: Path, result: taccl.Result) -> dict[str, tuple[object, list[str]]]:
    """Each kind of result, and the command whose `--json` says the same."""
    words = ["--topology", "ring:3", "--size", "3MB"]
    return {
        "bound": (taccl.bounds("allgather", **RING), ["bound", *words]),
        "verify": (taccl.verify_file(xml), ["verify", str(xml)]),
        "simulate": (taccl.simulate_file(xml, ["3MB"], topology="ring:3"), ["simulate", str(xml), *words]),
        "explain": (
            taccl.explain("allgather", target_time="5us", **RING),
            ["explain", *words, "--target-time", "5us"],
        ),
        "run": (execute(read_xml(xml), ranks_as="threads"), ["run", str(xml), "--out-of-place"]),
        "pareto": (taccl.pareto("allgather", **RING), ["pareto", "-q", *words]),
        "synthesize": (result, ["synthesize", *words, "--engine", "greedy", "--gap", "0.9", "-q"]),
    }


KINDS = ("bound", "verify", "simulate", "explain", "run", "pareto", "synthesize")
#: Of a call or its files, or of the clock.
OWN = {
    *("solve_s", "seconds", "wall_s", "file_s"),
    *("path", "files", "target", "schedule"),
}


def without_own(values: object) -> object:
    if isinstance(values, dict):
        return {key: without_own(value) for key, value in values.items() if key not in OWN}
    return [without_own(each) for each in values] if isinstance(values, list) else values


@pytest.mark.parametrize("kind", KINDS)
def test_a_dictionary_is_what_the_command_prints(
    kind: str, everything: dict[str, tuple[object, list[str]]]
) -> None:
    made, words = everything[kind]
    values = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    Draft202012Validator(json_schema(values["schema"])).validate(values)
    printed = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)
    assert without_own(values) == without_own(printed)


@pytest.mark.parametrize("kind", KINDS)
def test_every_result_is_a_table_in_a_notebook(
    kind: str, everything: dict[str, tuple[object, list[str]]]
) -> None:
    made, _ = everything[kind]
    assert len(Tables(made._repr_html_()).rows) > 1


def test_frames_of_several_results_go_below_each_other(result: taccl.Result) -> None:
    both = pandas.concat([result.to_pandas(), replace(result, topology="other").to_pandas()])
    assert both["topology"].tolist() == ["ring:3", "other"]
    assert both["time_us"].tolist() == [result.time_us] * 2
    assert "notes" not in both.columns


def test_frames_have_a_row_for_each_bound_size_point_and_finding(xml: Path, tmp_path: Path) -> None:
    proven = taccl.bounds("allgather", **RING)
    assert proven.to_pandas()["lower_bound_us"].max() == proven[0].value_us
    simulated = taccl.simulate_file(xml, ["3MB", "6MB"], topology="ring:3")
    assert simulated.to_pandas()["size_bytes"].tolist() == [3 * 2**20, 6 * 2**20]
    frontier = taccl.pareto("allgather", **RING)
    assert frontier.to_pandas()["steps"].tolist() == [each.point.steps for each in frontier.points]
    wrong = tmp_path / "wrong.xml"
    wrong.write_text(xml.read_text().replace('dstoff="1"', 'dstoff="0"'))
    report = taccl.verify_file(wrong)
    assert report.to_pandas()["message"].tolist() == [finding.message for finding in report.findings]
    assert taccl.verify_file(xml).to_pandas().empty


def test_bounds_are_a_sequence() -> None:
    proven = taccl.bounds("allgather", **RING)
    assert list(proven) == list(proven.proven) == [proven[number] for number in range(len(proven))]
    assert proven[:2] == proven.proven[:2]


def test_timelines_of_results_show_their_bound(xml: Path, result: taccl.Result) -> None:
    simulated = taccl.simulate_file(xml, ["3MB"], topology="ring:3").sizes[0]
    frontier = taccl.pareto("allgather", **RING)
    for made, bound_us in (
        (result, result.lower_bound_us),
        (simulated, simulated.lower_bound_us),
        (frontier.fastest, frontier.fastest.bound.value_us),
    ):
        for by in ("link", "port"):
            ax = made.plot(by)
            assert [line.get_xdata()[0] for line in ax.lines] == [bound_us]
            assert len(ax.get_yticks()) == 6
            assert f"bound {bound_us:.2f} us" in ax.get_title()


def test_a_simulated_programs_timeline_has_each_send_once(xml: Path) -> None:
    simulation = taccl.simulate_file(xml, ["3MB"], topology="ring:3").sizes[0].simulation
    (bars,) = simulation.plot().collections
    ends = sorted(float(path.vertices[:, 0].max()) for path in bars.get_paths())
    assert len(ends) == 6
    assert ends[-1] == pytest.approx(simulation.time_us)


@pytest.mark.parametrize("protocol", [None, Protocol.LL])
def test_a_simulated_programs_ports_are_drawn_as_busy_as_they_were(
    xml: Path, protocol: Protocol | None
) -> None:
    simulated = taccl.simulate_file(xml, ["3MB"], topology="ring:3", protocol=protocol)
    simulation = simulated.sizes[0].simulation
    (bars,) = simulation.plot("port").collections
    widths = [path.vertices[:, 0].max() - path.vertices[:, 0].min() for path in bars.get_paths()]
    assert sum(widths) == pytest.approx(simulation.port_busy_us.sum())


def test_a_frontier_is_drawn_over_its_bounds() -> None:
    frontier = taccl.pareto("allgather", topology="ring:4", size="4MB")
    ax = frontier.plot()
    points, steps, rounds = ax.lines
    assert points.get_xdata().tolist() == [each.point.steps for each in frontier.points]
    assert steps.get_xdata()[0] == frontier.least_steps
    assert rounds.get_ydata()[0] == pytest.approx(float(frontier.round_bound.rounds_per_chunk))
    assert [text.get_text().split(" us")[0].strip() for text in ax.texts] == [
        f"{each.time_us:.2f}" for each in frontier.points
    ]


@pytest.mark.parametrize(
    ("package", "ask"),
    [
        ("pandas", lambda result: result.to_pandas()),
        ("matplotlib", lambda result: result.plot()),
    ],
)
def test_what_is_not_installed_is_named_in_the_error(
    package: str, ask: Callable[[taccl.Result], object], result: taccl.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(TacclError, match=f"needs {package}") as caught:
        ask(result)
    assert caught.value.hint is not None


def test_matplotlib_is_loaded_only_to_draw() -> None:
    requested = (
        "import sys, taccl; taccl.Result, taccl.Schedule, taccl.Frontier; print('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", requested], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

"""A saved schedule and a machine that has changed: what was there at once, what came of it, what is left."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl import synthesize
from taccl.analysis.repair import repair
from taccl.analysis.under_way import rest_of
from taccl.cli.main import main
from taccl.errors import ScheduleError
from taccl.model.schedule.saved import read_schedule

RING = {"topology": "ring:4", "executor": False}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """An AllGather and an AllReduce on a ring of four, by name."""
    folder = tmp_path_factory.mktemp("saved")
    for name in ("allgather", "allreduce"):
        found = synthesize(name, size="1MB", chunks=1, engine="greedy", effort=50, file=False, **RING)
        found.write_schedule(folder / f"{name}.json")
    return folder


def test_it_is_mended_improved_and_written(saved, tmp_path):
    done = repair(saved / "allreduce.json", topology="ring:4", without=("gpu0-gpu1",), effort=100)
    assert done.first_us is not None
    assert done.before_us < done.result.time_us <= done.first_us
    assert done.result.lower_bound_us <= done.result.time_us
    assert 0 < done.kept < 1
    assert done.result.verified
    done.result.write_schedule(tmp_path / "now.json")
    again = repair(tmp_path / "now.json", topology="ring:4", without=("gpu0-gpu1",), effort=50, file=False)
    assert again.kept == 1.0


def test_on_the_same_machine_nothing_has_to_change(saved):
    done = repair(saved / "allgather.json", topology="ring:4", effort=50, file=False)
    assert done.first_us == pytest.approx(done.before_us)
    assert done.result.time_us <= done.before_us + 1e-6


@settings(max_examples=15, deadline=None)
@given(st.floats(0, 1.2))
def test_in_the_middle_chunks_are_where_they_had_arrived_and_the_rest_arrives(saved, part):
    old = read_schedule(saved / "allgather.json").schedule
    at_us = part * old.makespan_us
    done = repair(
        *(saved / "allgather.json",), at_us=at_us, topology="ring:4", without=("gpu0->gpu1",), effort=20
    )
    rest = done.result.schedule
    rest.check()
    held = set(zip(rest.problem.collective.inputs.chunk, rest.problem.collective.inputs.rank, strict=True))
    arrived = old.end_us <= at_us
    assert held >= set(zip(old.chunk[arrived], old.dst[arrived], strict=True))
    lost = (old.start_us < at_us) & (old.end_us > at_us) & (old.src == 0) & (old.dst == 1)
    assert not held & set(zip(old.chunk[lost], old.dst[lost], strict=True))


def test_on_the_same_machine_the_rest_ends_when_the_whole_would_have(saved):
    old = read_schedule(saved / "allgather.json").schedule
    at_us = 0.4 * old.makespan_us
    rest = rest_of(old, at_us, old.problem.topology)
    ends = old.end_us[old.start_us < at_us]
    assert rest.from_us == pytest.approx(max(at_us, ends.max()))
    assert rest.from_us + rest.schedule.makespan_us >= old.makespan_us - 1e-6
    assert rest.schedule.makespan_us <= old.makespan_us - at_us + 1e-6
    assert np.isin(rest.schedule.chunk, old.chunk).all()


SHARED = """
name: shared
node: {gpus: 3, switches: 1, links: [{from: gpus, to: switches, alpha_us: 0.5, beta_us_per_mb: 100}]}
"""


@pytest.mark.parametrize(("beta", "from_us"), [(100, 101.0), (1000, 50 + 51 / 101 * 1001)])
def test_a_port_is_busy_until_what_is_under_way_has_ended(tmp_path, beta, from_us):
    """A Scatter of two chunks through one port: at 50 us the second still waits for the first."""
    (tmp_path / "shared.yaml").write_text(SHARED)
    (tmp_path / "now.yaml").write_text(SHARED.replace("100}", f"{beta}}}"))
    found = synthesize(
        "scatter", topology=tmp_path / "shared.yaml", size="3MB", chunks=1, effort=50, file=False
    )
    assert found.time_us == pytest.approx(202.0)
    found.write_schedule(tmp_path / "old.json")
    done = repair(tmp_path / "old.json", at_us=50.0, topology=tmp_path / "now.yaml", effort=50)
    assert done.from_us == pytest.approx(from_us)
    assert done.result.time_us == pytest.approx(1 + beta)
    assert done.result.exposed_us is None


def test_when_all_has_arrived_nothing_is_left(saved):
    done = repair(saved / "allgather.json", at_us=1e6, topology="ring:4", effort=20)
    assert (done.result.time_us, done.result.status) == (0.0, "optimal")


@pytest.mark.parametrize(("before", "now"), [(None, ("nvswitch",)), (("nvswitch",), None)])
def test_with_other_switches_that_sum_it_is_searched_anew(tmp_path, before, now):
    words = {"topology": "dgx-h100", "nodes": 1}
    found = synthesize(
        "allreduce", size="8MB", chunks=1, effort=100, file=False, executor=False, without=before, **words
    )
    found.write_schedule(tmp_path / "old.json")
    done = repair(tmp_path / "old.json", without=now, effort=100, file=False, **words)
    assert done.first_us is None
    assert "ranks and" in done.why


def test_what_came_to_a_switch_alone_is_sent_again(tmp_path):
    words = {"topology": "dgx-h100", "nodes": 1}
    found = synthesize("broadcast", size="8MB", chunks=2, effort=100, file=False, executor=False, **words)
    found.write_schedule(tmp_path / "old.json")
    done = repair(tmp_path / "old.json", at_us=0.3 * found.time_us, effort=100, **words)
    assert done.result.schedule.problem.collective.num_helpers == 2
    done.result.schedule.check()


def test_a_schedule_that_cannot_be_mended_is_searched_anew(saved, monkeypatch):
    def fails(*_):
        raise ScheduleError("no way")

    monkeypatch.setattr("taccl.analysis.repair.mended", fails)
    done = repair(saved / "allgather.json", topology="ring:4", effort=50, file=False)
    assert (done.first_us, done.why) == (None, "no way")
    assert done.result.notes[-1] == "the old schedule was not mended: no way"


def test_ctrl_c_keeps_the_mended_schedule(saved, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("taccl.analysis.repair.Alone.search", stopped)
    done = repair(saved / "allgather.json", topology="ring:4", effort=50, file=False)
    assert done.result.status == "interrupted"
    assert done.result.time_us == done.first_us


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--topology", "ring:5"), "is for 4 ranks"),
        ((), "no topology"),
        (("--topology", "ring:4", "--at", "-1"), "moment of the change"),
        (("--topology", "ring:4", "--at", "1", "-o", "x.xml"), "has no file"),
        (("--topology", "ring:4", "--executor"), "by links alone"),
        (("--topology", "ring:4", "--without", "gpu7"), "gpu7"),
    ],
)
def test_a_mistake_is_one_line(saved, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["repair", str(saved / "allgather.json"), *words, "-q"])
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_command_says_what_it_did(saved, tmp_path):
    words = ["--topology", "ring:4", "--without", "gpu0-gpu1", "--effort", "50", "-q"]
    outputs = ["-o", str(tmp_path / "x.xml"), "--schedule", str(tmp_path / "x.json"), "--json"]
    done = CliRunner().invoke(main, ["repair", str(saved / "allgather.json"), *words, *outputs])
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    assert shown["files"] == [str(tmp_path / "x.xml")]
    assert shown["lower_bound_us"] <= shown["time_us"] <= shown["first_us"]
    text = CliRunner().invoke(main, ["repair", str(saved / "allgather.json"), *words])
    assert "of the transfers" in text.stdout

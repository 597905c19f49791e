"""`symmetry="auto"` from the API and the command line: what it adds, says and leaves alone."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from taccl import bounds, synthesize
from taccl.api import make_problem
from taccl.cli.main import main
from taccl.errors import SketchError
from taccl.topologies import build_topology


def test_nothing_is_looked_for_unless_asked() -> None:
    stated = make_problem("allgather", topology="ring:4", size="4KB")
    assert stated.problem.symmetry == ()
    assert not any("symmetry auto" in note for note in stated.notes)


def test_what_is_found_is_in_the_problem_and_a_note_says_so() -> None:
    stated = make_problem("allgather", topology="ring:4", size="4KB", symmetry="auto")
    assert stated.problem.symmetry[0].tolist() == [1, 2, 3, 0]
    assert stated.notes == ("symmetry auto: 4 permutations of the ranks, made by (0 1 2 3)",)


def test_the_schedule_has_the_symmetry_that_was_found() -> None:
    result = synthesize(
        "allgather",
        topology="ring:4",
        size="4KB",
        symmetry="auto",
        engine="greedy",
        time_limit=0.3,
        file=False,
    )
    schedule = result.schedule
    moved = (schedule.problem.topology.src + 1) % 4
    rows = {
        (c, int(schedule.problem.topology.src[l]), round(t, 6))
        for c, l, t in zip(schedule.chunk, schedule.link, schedule.start_us, strict=True)
    }
    turned = {
        ((c + 1) % 4, int(moved[l]), round(t, 6))
        for c, l, t in zip(schedule.chunk, schedule.link, schedule.start_us, strict=True)
    }
    assert rows == turned
    assert any(note.startswith("symmetry auto: 4 permutations") for note in result.notes)


def test_bounds_are_the_same_with_and_without() -> None:
    requested = {"topology": "ndv2", "nodes": 1, "size": "8MB"}
    plain = {each.kind: each.value_us for each in bounds("alltoall", **requested)}
    shrunk = {each.kind: each.value_us for each in bounds("alltoall", symmetry="auto", **requested)}
    assert plain.keys() == shrunk.keys()
    assert np.allclose([plain[kind] for kind in plain], [shrunk[kind] for kind in plain], rtol=1e-6)


def test_an_unknown_symmetry_is_named_with_those_that_there_are() -> None:
    with pytest.raises(SketchError, match="unknown symmetry 'rotation'") as caught:
        make_problem("allgather", topology="ring:4", size="4KB", symmetry="rotation")
    assert caught.value.hint == "one of sketch, auto"


def test_the_command_line_passes_it_on() -> None:
    requested = ["bound", "--topology", "ring:4", "--size", "4KB", "--symmetry", "auto", "--json"]
    shown = CliRunner().invoke(main, requested)
    assert shown.exit_code == 0
    assert json.loads(shown.stdout)["notes"] == [
        "symmetry auto: 4 permutations of the ranks, made by (0 1 2 3)"
    ]


def test_a_symmetry_that_measured_costs_take_away_is_told() -> None:
    machine = build_topology("ring:4")
    links = [
        replace(link, beta_us_per_mb=link.beta_us_per_mb * factor)
        for link, factor in zip(machine.links, np.linspace(1.0, 1.05, len(machine.links)), strict=True)
    ]
    measured = replace(machine, links=tuple(links))
    for symmetry in ("sketch", "auto"):
        requested = make_problem("allgather", topology=measured, size="4KB", symmetry=symmetry)
        assert requested.problem.symmetry == ()
        assert "the machine would look the same from" in requested.notes[-1]
        assert "but for costs that differ by up to" in requested.notes[-1]

"""What a result takes from its search, and what is proved anew for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import taccl
from taccl.encoding.bounds import Proof
from taccl.encoding.bounds.stream import NOTHING
from taccl.synthesis import emit
from taccl.synthesis.autotune import tune
from taccl.topologies import load_topology
from tests.backend.small_schedules import executor_of


def test_a_bound_for_any_chunks_is_proved_anew_for_other_links_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """On 1,024 GPUs it takes ten seconds after the search, which has proved it already."""
    found = taccl.synthesize("allgather", topology="ring:4", size="4MB", file=False, effort=300).found
    links = found.schedule.problem.topology
    asked: list[object] = []

    def any_chunks_bound(problem: object, limit: object) -> Proof:
        asked.append(problem)
        return NOTHING

    monkeypatch.setattr(tune, "any_chunks_bound", any_chunks_bound)
    assert found.any_chunks.value_us > 0
    for same in (links, replace(links, executor=executor_of())):
        assert emit._for_any_chunks(found, same, 0.0) == (found, found.any_chunks)
    assert not asked
    others = replace(links, alpha_us=2 * links.alpha_us)
    assert emit._for_any_chunks(found, others, 0.0) == (found, NOTHING)
    assert len(asked) == 1
    monkeypatch.setattr(tune, "TUNE_PROVED_PER_S", 1.0)  # of 8 chunks at 4 ranks, 32 s
    emit._for_any_chunks(found, others, 10.0)
    assert len(asked) == 1
    emit._for_any_chunks(found, others, 40.0)
    assert len(asked) == 2


@pytest.mark.parametrize(("part", "is_told"), [(0.9, True), (0.5, True), (1.1, False)])
def test_a_bound_for_any_chunks_that_comes_after_the_search_is_one_for_its_number_too(
    monkeypatch: pytest.MonkeyPatch, part: float, is_told: bool
) -> None:
    """Not where a valid schedule is faster: that shows that it is wrong."""
    found = taccl.synthesize("allgather", topology="ring:4", size="4MB", file=False, effort=300).found
    searched = replace(found, any_chunks=NOTHING, lower_bound_us=0.7 * found.schedule.makespan_us)
    late = Proof(part * found.schedule.makespan_us, "late", "cut", holds_for_any_chunks=True)
    monkeypatch.setattr(tune, "any_chunks_bound", lambda problem, limit: late)
    told, any_chunks = emit._for_any_chunks(searched, found.schedule.problem.topology, 10.0)
    assert any_chunks is (late if is_told else NOTHING)
    assert told.lower_bound_us == max(searched.lower_bound_us, late.value_us if is_told else 0.0)
    assert (told.bound_source == "late") == (part == 0.9)


@pytest.mark.parametrize(("part", "is_told"), [(0.999, True), (1.1, False)])
def test_the_gap_of_a_file_is_to_the_largest_bound_that_is_printed(
    monkeypatch: pytest.MonkeyPatch, part: float, is_told: bool
) -> None:
    """What holds for any number of chunks by links alone holds for files, unless their time refutes it."""
    request = {"topology": replace(load_topology("ring:4"), executor=executor_of()), "size": "4MB"}
    before = taccl.synthesize("allgather", **request, effort=300)
    assert before.execution is not None and before.any_chunks.value_us < before.execution.bound.value_us
    late = Proof(part * before.execution.time_us, "late", "cut", holds_for_any_chunks=True)
    monkeypatch.setattr(tune, "any_chunks_bound", lambda problem, limit: late)
    after = taccl.synthesize("allgather", **request, effort=300)
    assert after.execution is not None and after.execution.time_us == before.execution.time_us
    assert after.any_chunks is (late if is_told else NOTHING)
    assert after.execution.bound == (late if is_told else before.execution.bound)
    assert f"{100 * after.execution.gap:.2f}%" in after.summary()
    assert any("so one of the two is wrong" in note for note in after.notes) != is_told


def test_alphas_that_keep_ports_busy_count_against_no_file_that_is_executed() -> None:
    """An executor's thread blocks go on at once: of three sends through one port one alpha counts."""
    ports = load_topology("switch:4")
    assert ports.occupancy == "serial"
    serial, pipelined = (
        taccl.synthesize(
            "alltoall", topology=replace(each, executor=executor_of()), size="64KB", chunks=1, effort=300
        )
        for each in (ports, ports.with_occupancy("pipelined"))
    )
    assert serial.any_chunks == pipelined.any_chunks
    alone = taccl.synthesize("alltoall", topology=ports, size="64KB", file=False, effort=300)
    assert alone.any_chunks.value_us > serial.any_chunks.value_us

"""The fastest algorithm known of each collective at each size, its bound, and what libraries run."""

import csv
import io
import json
from functools import partial
from pathlib import Path

import pytest

from taccl import Explored, explore, load_topology
from taccl.analysis.exploration import processes, workers
from taccl.analysis.exploration.bounds import bounds_of
from taccl.analysis.exploration.question import Question
from taccl.analysis.exploration.search import Outcome, SizeSearch, carried_out
from taccl.errors import ClusterError, TacclError
from taccl.support.budget import Budget
from taccl.synthesis.cluster.connection import workers_at

SMALL = {"topology": "ring:4", "sizes": "1KB..64KB", "effort": 300}


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> Explored:
    return explore("allgather,allreduce", cache=tmp_path_factory.mktemp("cache"), **SMALL)


def test_there_is_a_row_for_each_collective_and_size(explored: Explored) -> None:
    rows = [(row["collective"], row["size_bytes"]) for row in explored.best]
    sizes = [2**exponent for exponent in range(10, 17)]
    assert rows == [(name, size) for name in ("allgather", "allreduce") for size in sizes]


def test_no_row_is_slower_than_what_libraries_run_or_below_its_bound(explored: Explored) -> None:
    for row in explored.best:
        assert 0 < row["lower_bound_us"] <= row["time_us"] <= row["baseline_us"]
        assert row["speedup"] == pytest.approx(row["baseline_us"] / row["time_us"])


def test_each_row_names_a_schedule_that_takes_its_time(explored: Explored) -> None:
    for row in explored.best:
        saved = explored.schedule(str(row["schedule"]), row["size_bytes"])
        assert saved.lower_bound_us >= row["lower_bound_us"] - 1e-9
        schedule = saved.schedule
        schedule.check()
        assert schedule.makespan_us == pytest.approx(row["time_us"])
        assert schedule.problem.collective.chunks_per_rank == row["chunks_per_rank"]


def test_fewer_searches_than_sizes_serve_all_of_them(explored: Explored) -> None:
    assert len(explored.cells) <= 8
    assert all(row["time_us"] is not None for row in explored.best)


def test_crossovers_are_where_the_schedule_changes(explored: Explored) -> None:
    changes = [
        (after["collective"], after["size_bytes"])
        for before, after in zip(explored.best, explored.best[1:], strict=False)
        if before["collective"] == after["collective"] and before["schedule"] != after["schedule"]
    ]
    assert [(each["collective"], each["size_bytes"]) for each in explored.crossovers] == changes


def test_the_table_is_text_csv_a_frame_and_a_plot(explored: Explored) -> None:
    assert str(explored).splitlines()[1].startswith("collective")
    rows = list(csv.DictReader(io.StringIO(explored.to_csv())))
    assert len(rows) == len(explored.best) == len(explored.to_pandas())
    assert float(rows[0]["time_us"]) == explored.best[0]["time_us"]
    assert len(explored.plot().lines) == 6
    assert "<table>" in explored._repr_html_()


def test_a_second_run_searches_for_nothing_and_says_the_same(tmp_path: Path) -> None:
    first = explore("alltoall", cache=tmp_path, **SMALL)
    second = explore("alltoall", cache=tmp_path, **SMALL)
    assert second.best == first.best
    assert not any(cell.is_known for cell in first.cells)
    assert all(cell.is_known for cell in second.cells)


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def twice(search: SizeSearch) -> Outcome:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(search.key)
        return carried_out(search)

    whole = explore("alltoall", cache=False, **SMALL)
    with monkeypatch.context() as patched:
        patched.setattr(processes, "carried_out", twice)
        stopped = explore("alltoall", cache=tmp_path, **SMALL)
    assert stopped.interrupted
    assert all(row["time_us"] is not None for row in stopped.best)
    again = explore("alltoall", cache=tmp_path, **SMALL)
    assert again.best == whole.best
    assert sum(cell.is_known for cell in again.cells) == 2


def test_a_search_that_was_ended_ends_the_run_and_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(search: SizeSearch) -> Outcome:
        return Outcome(carried_out(search).text, is_final=False)

    monkeypatch.setattr(processes, "carried_out", ended)
    stopped = explore("alltoall", cache=tmp_path, **SMALL)
    assert stopped.interrupted
    assert len(stopped.cells) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_entry_of_the_cache_that_is_damaged_is_searched_for_again(tmp_path: Path) -> None:
    first = explore("alltoall", cache=tmp_path, **SMALL)
    damaged = (
        lambda text: text[:-40],
        lambda text: json.dumps(json.loads(text) | {"seconds": float("nan")}),
        lambda text: json.dumps(json.loads(text) | {"configuration": {"protocol": "LL", "instances": -5}}),
    )
    for number, path in enumerate(tmp_path.iterdir()):
        path.write_text(damaged[number % len(damaged)](path.read_text()))
    second = explore("alltoall", cache=tmp_path, **SMALL)
    assert second.best == first.best
    assert not any(cell.is_known for cell in second.cells)


def test_what_was_not_looked_at_before_the_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(question: Question, budget: Budget) -> object:
        if question.collective == "alltoall":
            raise KeyboardInterrupt
        return bounds_of(question, budget)

    monkeypatch.setattr("taccl.analysis.exploration.exploration.bounds_of", ends)
    table = explore("allgather,alltoall", cache=False, **SMALL)
    assert table.interrupted
    assert "alltoall on ring:4: not looked at" in table.notes


def test_where_a_machine_is_too_large_for_libraries_algorithms_the_table_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("taccl.analysis.exploration.library.LIBRARY_CELLS", 15)  # 4 chunks at 4 ranks are 16
    table = explore("allgather", topology="ring:4", sizes="64KB", effort=600, cache=False)
    assert table.best[0]["baseline"] is None
    assert any("not all algorithms of libraries were made" in note for note in table.notes)


def test_where_libraries_had_no_time_the_table_says_so() -> None:
    table = explore("allreduce", topology="full:4", sizes="1KB..1GB", effort=20, cache=False)
    assert any("not all algorithms of libraries were made" in note for note in table.notes)


def test_machines_are_an_axis() -> None:
    table = explore("allgather", topology=["ring:4", "mesh:2x2"], sizes="4KB", effort=400, cache=False)
    assert [row["topology"] for row in table.best] == ["ring:4", "mesh:2x2"]


def test_machines_with_costs_of_executing_are_an_axis_too() -> None:
    machine = load_topology("dgx-a100", nodes=1)
    assert machine.executor is not None or machine.gpu is not None
    table = explore("allgather", topology=[machine, machine, "ring:4"], sizes="4KB", effort=200, cache=False)
    assert [row["topology"] for row in table.best] == ["dgx-a100", "ring:4"]


def test_where_gpus_share_nics_a_sketch_is_proposed_for_every_other_search() -> None:
    table = explore("allgather", topology="ndv2", nodes=2, sizes="16KB..128KB", effort=300, cache=False)
    named = [row["sketch"] for row in table.to_dict()["cells"]]
    assert named == [None, "senders-and-receivers"]
    assert all(row["lower_bound_us"] <= row["time_us"] for row in table.best)
    given = explore(
        *("allgather",),
        topology="ndv2",
        nodes=2,
        sketch="ndv2-sk-1",
        sizes="16KB",
        effort=300,
        cache=False,
    )
    assert {row["sketch"] for row in given.to_dict()["cells"]} == {"ndv2-sk-1"}


def test_files_are_timed_where_a_target_is_given() -> None:
    table = explore(
        "allgather", topology="ring:4", sizes="4KB,1MB", target="mscclpp", effort=300, cache=False
    )
    assert {row["protocol"] for row in table.best} <= {"Simple", "LL"}
    assert table.to_dict()["times_of"] == "files as predicted"


def test_sizes_without_a_byte_for_each_part_are_left_out_with_a_note() -> None:
    table = explore("allgather", topology="ring:4", sizes="2,64", effort=200, cache=False)
    assert [row["size_bytes"] for row in table.best] == [64]
    assert table.notes[0] == "too small for allgather on ring:4: 2B"


def test_sizes_that_are_rounded_are_told() -> None:
    table = explore("allgather", topology="ring:3", sizes="1000,3000", effort=200, cache=False)
    assert [row["size_bytes"] for row in table.best] == [999, 3000]
    assert any("rounded down to multiples of 3 bytes" in note for note in table.notes)


def test_what_is_asked_twice_is_answered_once() -> None:
    table = explore(
        "allgather,all_gather", topology=["ring:3", "ring:3"], sizes="3KB", effort=200, cache=False
    )
    assert len(table.best) == 1


def test_a_root_is_of_the_collectives_that_have_one() -> None:
    table = explore("broadcast,allgather", topology="ring:3", root=1, sizes="3KB", effort=300, cache=False)
    assert [row["collective"] for row in table.best] == ["broadcast", "allgather"]
    with pytest.raises(TacclError, match="allgather has no root"):
        explore("allgather", topology="ring:3", root=1, sizes="3KB", effort=300, cache=False)


def test_where_there_was_no_time_the_table_says_so() -> None:
    table = explore("allgather", topology="torus:16x16", sizes="64MB", time_limit=0.05, cache=False)
    (row,) = table.best
    assert row["time_us"] is None
    assert row["lower_bound_us"] > 0
    assert any("no algorithm was found in the time for 64MB" in note for note in table.notes)


def test_a_scheduler_that_nobody_reaches_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "workers_at", partial(workers_at, reach_s=0.2))
    with pytest.raises(ClusterError, match=r"no Dask scheduler answers at .* within 0\.2 s"):
        explore(
            "allgather",
            topology="ring:3",
            sizes="3KB",
            time_limit=1,
            scheduler="tcp://127.0.0.1:1",
            cache=False,
        )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"topology": "ring:4", "sizes": "1GB..1KB"}, "ends before it begins"),
        ({"topology": "nowhere"}, "no machine called"),
        ({"topology": "ring:4", "collective": "allgather,everything"}, "everything"),
        ({"topology": "ring:4", "jobs": 0}, "jobs"),
        ({"topology": "ring:4", "jobs": 2, "scheduler": "tcp://127.0.0.1:1"}, "leave --jobs out"),
        ({"topology": "ring:4", "time_limit": -1}, "time limit"),
        ({"topology": "ring:4", "effort": 0}, "effort"),
        ({"topology": "ring:4", "sizes": "2"}, "has not one for each"),
        ({"topology": []}, "no machine"),
        ({"topology": "ring:4", "cache": 3}, "cache 3"),
    ],
)
def test_a_wrong_request_is_one_error(words: dict[str, object], message: str) -> None:
    with pytest.raises(TacclError, match=message):
        explore(**({"collective": "allgather", "cache": False} | words))  # type: ignore[arg-type]

"""What nccl-tests printed next to what a bundle promised."""

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from taccl.deployment.bundles.bundle import bundle
from taccl.deployment.bundles.checked import check_bundle
from taccl.errors import FileError, TacclError

PRINTED = """\
# nThread 1 nGpus 1 minBytes 4096 maxBytes 8388608 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid 100 on node1 device  0 [0x07] NVIDIA V100
#  Rank  1 Group  0 Pid 101 on node1 device  1 [0x0a] NVIDIA V100
#  Rank  2 Group  0 Pid 102 on node1 device  2 [0x0b] NVIDIA V100
#  Rank  3 Group  0 Pid 103 on node1 device  3 [0x0c] NVIDIA V100
#
#                                                              out-of-place
#       size         count      type   redop    root     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)
        4096           256     float    none      -1    10.00    0.41    0.31      0
       65536          4096     float    none      -1    12.00    5.46    4.10      0
     8388608        524288     float    none      -1   100.00   83.89   62.91      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 22.4
#
"""


#: What check.sh prints before this.
NAMED = "# taccl bundle: runtime executor\n# all_gather_perf -b 4096 -e 8388608 -f 2 -g 1\n"
TIMES = [
    {"size_bytes": 4096, "time_us": 9.0, "lower_bound_us": 1.0, "error": 0.2},
    {"size_bytes": 65536, "time_us": 9.0, "lower_bound_us": 1.0, "error": 0.2},
]


def manifest(
    sizes: object = (),
    calls: object = None,
    collective: str = "allgather",
    unserved: Sequence[int] = (),
    **changed: object,
) -> dict[str, Any]:
    """A manifest of one window of which calls in place take a file and others too, unless `calls` says so."""
    both = {"in_place": "executor/a.xml", "out_of_place": "executor/a.xml"}
    window = {"collective": collective, "min_bytes": 1, "max_bytes": 2**20, "kind": "plan", "sizes": sizes}
    window["names"] = {"executor/a.xml": "taccl-a-m_allgather_4"}
    window["unserved"] = [{"size_bytes": size, "reason": "odd"} for size in unserved]
    return {
        **{"schema": "taccl.bundle.manifest/1", "status": "finished", "needs_module": False},
        **{
            "ranks": 4,
            "times_of": "files as predicted",
            "sha256": {"executor/a.xml": sha256(b"a").hexdigest()},
        },
        "files": [window | {"calls": {"executor": both if calls is None else calls}}],
    } | changed


def bundle_in(folder: Path, **said: object) -> Path:
    """The folder of a bundle with one file."""
    (folder / "executor").mkdir(parents=True)
    (folder / "executor" / "a.xml").write_text("a")
    (folder / "manifest.json").write_text(json.dumps(manifest(TIMES, **said)))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    words = {"topology": "ring:4", "sizes": "4KB,64KB", "effort": 400, "cache": False}
    bundle("allgather", **words).write(tmp_path / "bundle")
    return tmp_path / "bundle"


def test_each_size_has_its_file_and_how_far_the_time_is_off(folder: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.txt"
    results.write_text(NAMED + PRINTED + "Starting execution with plan: taccl-none\n")
    found = check_bundle(folder, results)
    sizes = {each.size_bytes: each for each in found.sizes}
    assert sizes[4096].kind == sizes[65536].kind == "plan"
    assert sizes[4096].path is not None and (folder / sizes[4096].path).exists()
    assert sizes[4096].ratio == pytest.approx(sizes[4096].measured_us / sizes[4096].predicted_us)
    assert sizes[2**23].kind == "outside"
    assert sizes[2**23].predicted_us is None
    assert found.seen == ()
    assert any("topology fit" in note for note in found.notes)


def test_results_of_another_number_of_ranks_are_remarked_on(folder: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.txt"
    lines = [line for line in PRINTED.splitlines() if "Rank  3" not in line]
    results.write_text("# all_gather_perf\n" + "\n".join(lines) + "\n")
    assert "the results are of 3 ranks, and the bundle is for 4" in check_bundle(folder, results).notes


def test_times_are_held_against_the_error_that_was_promised(tmp_path: Path) -> None:
    (tmp_path / "results.txt").write_text("# all_gather_perf\n" + PRINTED)
    found = check_bundle(bundle_in(tmp_path / "promised"), tmp_path / "results.txt")
    assert [each.is_as_promised for each in found.sizes] == [True, False, None]
    assert "1 of 2 times are within the error that was promised" in found.notes


def test_wrong_values_are_a_fault(folder: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.txt"
    wrong = PRINTED.replace("3.11      0", "3.11      7").replace("4.10      0", "4.10      7")
    results.write_text("# all_gather_perf\n" + wrong)
    found = check_bundle(folder, results)
    assert not found.ok
    assert len(found.faults) == 1
    results.write_text("# all_gather_perf\n" + PRINTED)
    assert check_bundle(folder, results).ok


@pytest.mark.parametrize("text", ["", "nothing of the kind\n", "{}"])
def test_what_is_no_output_of_nccl_tests_is_one_error(folder: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "results.txt").write_text(text)
    with pytest.raises(TacclError):
        check_bundle(folder, tmp_path / "results.txt")


@pytest.mark.parametrize(
    "changed",
    [
        {"files": {}},
        {"files": [{}]},
        {"files": [{"calls": 1}]},
        {"status": "perhaps"},
        {"sha256": []},
        {"schema": "taccl.bundle.manifest/0"},
        {"sha256": {}},
        *(
            {key: None}
            for key in ("schema", "status", "needs_module", "ranks", "times_of", "files", "sha256")
        ),
        *(
            {"files": [manifest([])["files"][0] | each]}
            for each in (
                {"min_bytes": -1},
                {"max_bytes": "2"},
                {"kind": 3},
                {"kind": "fallback"},
                {"calls": {"executor": {"in_place": 7, "out_of_place": None}}},
                {"sizes": [{"size_bytes": 1, "time_us": "soon", "error": None}]},
                {"sizes": [{"size_bytes": 1.5, "time_us": 1, "error": None}]},
            )
        ),
    ],
)
def test_what_is_no_manifest_is_one_error(tmp_path: Path, changed: dict[str, object]) -> None:
    (tmp_path / "results.txt").write_text(NAMED + PRINTED)
    folder = bundle_in(tmp_path / "bundle", **changed)
    with pytest.raises(FileError, match="manifest"):
        check_bundle(folder, tmp_path / "results.txt")


@pytest.mark.parametrize("text", ["[]", "{}", "{"])
def test_a_manifest_that_is_none_at_all_is_one_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "results.txt").write_text(NAMED + PRINTED)
    (bundle_in(tmp_path / "bundle") / "manifest.json").write_text(text)
    with pytest.raises(FileError, match="manifest"):
        check_bundle(tmp_path / "bundle", tmp_path / "results.txt")


def test_a_manifest_without_a_status_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "results.txt").write_text(NAMED + PRINTED)
    folder = bundle_in(tmp_path / "bundle")
    said = {key: value for key, value in manifest(TIMES).items() if key != "status"}
    (folder / "manifest.json").write_text(json.dumps(said))
    with pytest.raises(FileError, match="has no 'status'"):
        check_bundle(folder, tmp_path / "results.txt")


@pytest.mark.parametrize("path", ["../a.xml", "/etc/passwd", "executor/../../a.xml", ""])
def test_paths_that_leave_the_folder_are_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "results.txt").write_text(NAMED + PRINTED)
    hashes = manifest()["sha256"] | {path: "0"}
    folder = bundle_in(tmp_path / "bundle", sha256=hashes)
    with pytest.raises(FileError, match="leaves the folder"):
        check_bundle(folder, tmp_path / "results.txt")


def test_a_link_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "results.txt").write_text(NAMED + PRINTED)
    folder = bundle_in(tmp_path / "bundle")
    (tmp_path / "a.xml").write_text("a")
    (folder / "executor" / "a.xml").unlink()
    (folder / "executor" / "a.xml").symlink_to(tmp_path / "a.xml")
    with pytest.raises(FileError, match="leaves the folder"):
        check_bundle(folder, tmp_path / "results.txt")


def test_files_that_are_not_those_of_the_manifest_are_faults(folder: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.txt"
    results.write_text(NAMED + PRINTED)
    first, second = sorted((folder / "executor").glob("*.xml"))[0], folder / "env.sh"
    other = folder / "executor" / "other.xml"
    first.write_text(first.read_text().replace("proto", "proto "))
    second.unlink()
    other.write_text("")
    faults = check_bundle(folder, results).faults
    assert [fault.split()[0] for fault in faults] == [
        *(f"executor/{first.name}", "env.sh"),
        f"executor/{other.name}",
    ]


BOTH = PRINTED.replace(" #wrong\n", " #wrong     time   algbw   busbw #wrong\n").replace(
    "      0\n", "      0    20.00    0.20    0.15      0\n"
)


@pytest.mark.parametrize("served", [("in_place",), ("out_of_place",), ("in_place", "out_of_place")])
def test_a_column_counts_for_a_file_that_serves_its_calls(tmp_path: Path, served: tuple[str, ...]) -> None:
    calls = {way: "executor/a.xml" if way in served else None for way in ("in_place", "out_of_place")}
    (tmp_path / "results.txt").write_text(NAMED + BOTH)
    found = check_bundle(bundle_in(tmp_path / "bundle", calls=calls), tmp_path / "results.txt")
    inside = [each for each in found.sizes if each.kind != "outside"]
    assert {each.in_place for each in inside} == {True, False}
    for each in inside:
        is_served = ("in_place" if each.in_place else "out_of_place") in served
        assert each.measured_us == (20.0 if each.in_place else each.measured_us)
        assert each.kind == ("plan" if is_served else "fallback")
        assert each.path == ("executor/a.xml" if is_served else None)
        assert each.predicted_us == (9.0 if is_served else None)
    assert not any("not measured" in note for note in found.notes)


def test_sizes_whose_calls_took_no_file_are_not_measured(tmp_path: Path) -> None:
    calls = {"in_place": "executor/a.xml", "out_of_place": None}
    (tmp_path / "results.txt").write_text(NAMED + PRINTED)
    found = check_bundle(bundle_in(tmp_path / "bundle", calls=calls), tmp_path / "results.txt")
    assert any("2 of 2 sizes were not measured" in note for note in found.notes)


def test_a_size_that_no_file_takes_is_what_the_library_does(tmp_path: Path) -> None:
    (tmp_path / "results.txt").write_text(NAMED + PRINTED)
    found = check_bundle(bundle_in(tmp_path / "bundle", unserved=[65536]), tmp_path / "results.txt")
    sizes = {each.size_bytes: each for each in found.sizes}
    assert (sizes[65536].path, sizes[65536].kind) == (None, "fallback")
    assert sizes[4096].path == "executor/a.xml"
    assert not any("not measured" in note for note in found.notes)


def test_plans_whose_names_are_in_the_log_were_executed(tmp_path: Path) -> None:
    def seen(*lines: str) -> tuple[str, ...]:
        log = "".join(f"Starting execution with plan: {name}, collective: allgather\n" for name in lines)
        (tmp_path / "results.txt").write_text(NAMED + PRINTED + log)
        return check_bundle(tmp_path / "bundle", tmp_path / "results.txt").seen

    bundle_in(tmp_path / "bundle")
    name = "taccl-a-m_allgather_4"
    assert seen(name) == (name,)
    assert seen(f"{name}2", "taccl-a-m", f"other-{name}") == ()


def test_a_bundle_of_plans_is_checked_by_the_names_that_its_files_have(tmp_path: Path) -> None:
    made = bundle("allreduce", topology="full:4", sizes="4KB,64KB", target="mscclpp", effort=400, cache=False)
    made.write(tmp_path / "bundle")
    names = [json.loads(path.read_text())["name"] for path in (tmp_path / "bundle").glob("*/*.json")]
    table = "# all_reduce_perf\n" + PRINTED
    (tmp_path / "results.txt").write_text(table)
    found = check_bundle(tmp_path / "bundle", tmp_path / "results.txt")
    assert found.seen == ()
    assert any("no plan of the bundle is named" in note for note in found.notes)
    log = "".join(f"Starting execution with plan: {name}, collective: allreduce\n" for name in names)
    (tmp_path / "results.txt").write_text(table + log)
    found = check_bundle(tmp_path / "bundle", tmp_path / "results.txt")
    assert names and set(found.seen) == set(names)
    assert not any("no plan of the bundle is named" in note for note in found.notes)


@pytest.mark.parametrize("before", ["", NAMED + PRINTED])
def test_a_table_that_does_not_name_its_collective_is_one_error(tmp_path: Path, before: str) -> None:
    (tmp_path / "results.txt").write_text(before + PRINTED)
    with pytest.raises(FileError, match="does not name its collective"):
        check_bundle(bundle_in(tmp_path / "bundle"), tmp_path / "results.txt")


def test_what_was_not_measured_is_named(tmp_path: Path) -> None:
    folder = bundle_in(tmp_path / "bundle")
    said = manifest(TIMES)
    said["files"] += manifest(TIMES, collective="allreduce")["files"]
    (folder / "manifest.json").write_text(json.dumps(said))
    cut = "".join(line for line in PRINTED.splitlines(keepends=True) if not line.startswith("       65536"))
    (tmp_path / "results.txt").write_text(NAMED + cut)
    found = check_bundle(folder, tmp_path / "results.txt")
    assert found.ok
    assert "allreduce was not measured" in found.notes
    assert "allgather: 1 of 2 sizes were not measured with what they take: 64KB" in found.notes


def test_a_row_that_is_cut_is_named(tmp_path: Path) -> None:
    cut = PRINTED.replace("12.00    5.46    4.10      0", "12.00    5.46")
    (tmp_path / "results.txt").write_text(NAMED + cut)
    notes = check_bundle(bundle_in(tmp_path / "bundle"), tmp_path / "results.txt").notes
    assert any("a row of this table is cut" in note for note in notes)
    assert any("sizes were not measured with what they take: 64KB" in note for note in notes)


def test_values_that_were_not_checked_are_named(tmp_path: Path) -> None:
    folder = bundle_in(tmp_path / "bundle")
    (tmp_path / "results.txt").write_text(NAMED + PRINTED.replace("4.10      0", "4.10    N/A"))
    found = check_bundle(folder, tmp_path / "results.txt")
    assert [each.wrong for each in found.sizes] == [0, None, 0]
    assert "values were not checked (#wrong has no number): allgather 64KB" in found.notes


def test_a_test_that_failed_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "results.txt").write_text(NAMED + PRINTED + "# taccl bundle: failed all_gather\n")
    found = check_bundle(bundle_in(tmp_path / "bundle"), tmp_path / "results.txt")
    assert found.faults == ("all_gather: its test failed",)


def test_results_name_their_runtime(folder: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.txt"
    results.write_text(NAMED + PRINTED)
    found = check_bundle(folder, results)
    assert found.runtime == "executor"
    assert not any("do not name their runtime" in note for note in found.notes)
    results.write_text("# all_gather_perf\n" + PRINTED)
    assert any("do not name their runtime" in note for note in check_bundle(folder, results).notes)
    results.write_text(NAMED.replace("executor", "other") + PRINTED)
    with pytest.raises(FileError, match="the results are of other"):
        check_bundle(folder, results)
    results.write_text(NAMED + PRINTED + NAMED.replace("executor", "rccl") + PRINTED)
    with pytest.raises(FileError, match="several runtimes, executor, rccl"):
        check_bundle(folder, results)


def test_the_bundle_of_an_interrupted_exploration_says_so(tmp_path: Path) -> None:
    (tmp_path / "results.txt").write_text(NAMED + PRINTED)
    folder = bundle_in(tmp_path / "bundle", status="interrupted")
    assert any("interrupted" in note for note in check_bundle(folder, tmp_path / "results.txt").notes)

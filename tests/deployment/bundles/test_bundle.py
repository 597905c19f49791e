"""A folder whose files tile the sizes, each verified for the runtimes that find it."""

import json
import os
import re
import subprocess
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest

from taccl import bundle, verify_file, verify_plan_file
from taccl.deployment.bundles.bundle import Bundle, bundle_of
from taccl.errors import FileError, NoScheduleInTime, TacclError

WORDS = {"topology": "ring:4", "sizes": "4KB..1MB", "effort": 500, "cache": False}


@pytest.fixture(scope="module")
def made() -> Bundle:
    return bundle("allgather,reducescatter", **WORDS)


@pytest.fixture(scope="module")
def folder(made: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundles") / "new"
    made.write(path)
    return path


def test_windows_follow_each_other_without_hole_or_overlap(made: Bundle) -> None:
    for name in ("allgather", "reducescatter"):
        windows = [file.window for file in made.files if file.collective == name]
        assert windows[0].min_bytes == 4 * 2**10
        assert windows[-1].max_bytes == 2**20
        for before, after in pairwise(windows):
            assert after.min_bytes == before.max_bytes + 1


def test_each_size_of_the_table_lies_in_its_window(made: Bundle) -> None:
    for file in made.files:
        assert file.sizes
        for size, time_us, bound_us in file.sizes:
            assert file.window.min_bytes <= size <= file.window.max_bytes
            assert time_us is not None and time_us >= bound_us > 0


def test_every_file_verifies_for_the_runtime_in_whose_folder_it_is(folder: Path) -> None:
    files = list(folder.rglob("*.xml"))
    assert {path.parent.name for path in files} == {"msccl", "executor", "rccl"}
    for path in files:
        assert verify_file(path, targets=[path.parent.name]).ok


def test_each_runtime_has_a_file_for_each_window(made: Bundle, folder: Path) -> None:
    for runtime in ("msccl", "executor", "rccl"):
        for file in made.files:
            text = (folder / runtime / f"{file.name}.xml").read_text()
            found = re.search(r'minBytes="(\d+)" maxBytes="(\d+)"', text)
            assert found is not None
            assert int(found[1]) == file.window.min_bytes
            # Msccl leaves out the largest size that a file names.
            assert int(found[2]) == file.window.max_bytes + (runtime == "msccl")


def test_the_manifest_and_the_page_say_which_calls_take_a_file(made: Bundle, folder: Path) -> None:
    windows = json.loads((folder / "manifest.json").read_text())["files"]
    page = (folder / "README.md").read_text()
    for window in windows:
        for runtime, calls in window["calls"].items():
            text = (folder / window["paths"][runtime]).read_text()
            serves = {"in_place": 'inplace="1"' in text, "out_of_place": 'outofplace="1"' in text}
            if runtime == "msccl":  # it looks at `inplace` alone
                serves["out_of_place"] = not serves["in_place"]
            path = window["paths"][runtime]
            assert calls == {way: path if is_served else None for way, is_served in serves.items()}
            cells = [
                f"`{calls[way]}`" if calls[way] else "the library" for way in ("in_place", "out_of_place")
            ]
            assert f"| {runtime} | {' | '.join(cells)} |" in page


def test_the_page_says_which_runtime_has_no_file_for_a_collective() -> None:
    made = bundle("gather", topology="ring:3", sizes="3KB", effort=200, cache=False)
    rows = [line for line in str(made.texts["README.md"]).splitlines() if line.startswith("| gather |")]
    assert len(rows) == len(set(rows)) == 3
    assert "| msccl | the library: no file for this runtime |" in rows[0]
    assert "`executor/gather-3KB.xml`" in rows[1]


def test_what_an_interrupted_exploration_left_out_stands_in_the_bundle(made: Bundle) -> None:
    explored = replace(made.explored, interrupted=True, notes=("allreduce was not looked at",))
    cut = bundle_of(explored, made.target)
    manifest = json.loads(cut.texts["manifest.json"])
    assert (manifest["status"], manifest["notes"]) == ("interrupted", ["allreduce was not looked at"])
    assert (cut.to_dict()["status"], made.to_dict()["status"]) == ("interrupted", "finished")
    assert cut.is_interrupted and cut.notes == explored.notes
    page = str(cut.texts["README.md"])
    assert "interrupted" in page and "allreduce was not looked at" in page
    assert "interrupted" not in str(made.texts["README.md"])


def test_the_manifest_has_the_hash_of_every_file(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    on_disk = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert set(manifest["sha256"]) == on_disk - {"manifest.json"}
    for path, digest in manifest["sha256"].items():
        assert sha256((folder / path).read_bytes()).hexdigest() == digest


@pytest.mark.parametrize(
    ("runtime", "variable"), [("msccl", "MSCCL_XML_FILES"), ("executor", "MSCCL_ALGO_DIR")]
)
def test_the_script_points_a_runtime_at_its_files(folder: Path, runtime: str, variable: str) -> None:
    line = f"RUNTIME={runtime}; . ./env.sh; printf '%s' \"${variable}\""
    done = subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    for path in done.stdout.split(":"):
        assert (folder / runtime) in (Path(path), Path(path).parent)
        assert Path(path).exists()


def test_the_check_runs_a_test_for_each_collective_over_all_sizes(folder: Path) -> None:
    environment = {**os.environ, "NCCL_TESTS": "/tests", "MPIRUN": "echo mpirun -np 4"}
    done = subprocess.run(
        ["./check.sh", "executor"], cwd=folder, capture_output=True, text=True, check=True, env=environment
    )
    gather, scatter = (
        f"{name}_perf -b 4096 -e 1048576 -f 2 -g 1" for name in ("all_gather", "reduce_scatter")
    )
    assert done.stdout.splitlines() == [
        "# taccl bundle: runtime executor",
        *(f"# {gather}", f"mpirun -np 4 /tests/{gather}"),
        *(f"# {scatter}", f"mpirun -np 4 /tests/{scatter}"),
    ]


def test_the_check_goes_on_after_a_test_that_failed_and_fails_in_the_end(folder: Path) -> None:
    environment = {**os.environ, "NCCL_TESTS": "/tests", "MPIRUN": "false"}
    done = subprocess.run(
        ["./check.sh", "rccl"], cwd=folder, capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 1
    assert done.stdout.count("_perf") == 2
    assert done.stdout.count("# taccl bundle: failed reduce_scatter\n") == 1
    assert done.stderr.splitlines() == ["all_gather_perf failed", "reduce_scatter_perf failed"]


@pytest.mark.parametrize("target", ["all", "msccl"])
def test_msccl_is_given_no_more_files_than_it_takes(target: str) -> None:
    """Whatever comes after four files is ignored by microsoft/msccl (MSCCL_MAX_NUM_ALGOS)."""
    made = bundle(
        "allgather,allreduce,alltoall,broadcast,reduce,reducescatter",
        **(WORDS | {"topology": "ring:2", "sizes": "4KB,8KB", "target": target}),
    )
    named = re.search(r"MSCCL_XML_FILES=(.*)", str(made.texts["env.sh"]))
    assert named is not None and len(named[1].split(":")) == 4
    assert len([path for path in made.texts if path.startswith("msccl/")]) == 4
    (note,) = (note for note in made.notes if note.startswith("msccl takes no more than 4 files"))
    manifest = json.loads(made.texts["manifest.json"])
    left_out = [window for window in manifest["files"] if not any(window["calls"]["msccl"].values())]
    assert len(left_out) == len(made.files) - 4
    for window in left_out:
        assert target == "msccl" or all(window["calls"]["executor"].values())
        assert window["kind"] == ("fallback" if target == "msccl" else "plan")
        assert window["collective"] in note
    assert "msccl takes no more than 4 files" in str(made.texts["README.md"])


@pytest.fixture(scope="module")
def rooted() -> Bundle:
    return bundle(
        "broadcast,gather", topology="ring:3", root=2, sizes="1000,5000,77777", effort=300, cache=False
    )


def test_a_root_stands_in_the_manifest_on_the_page_and_in_the_check(rooted: Bundle, tmp_path: Path) -> None:
    assert {file["root"] for file in rooted.to_dict()["files"]} == {2}
    rooted.write(tmp_path / "rooted")
    manifest = json.loads((tmp_path / "rooted" / "manifest.json").read_text())
    assert {file["root"] for file in manifest["files"]} == {2}
    assert "broadcast: 2, gather: 2" in (tmp_path / "rooted" / "README.md").read_text()
    for line in (tmp_path / "rooted" / "check.sh").read_text().splitlines():
        if line.startswith("run "):
            assert line.endswith(" -g 1 -r 2")


def test_sizes_that_do_not_double_are_checked_one_by_one(rooted: Bundle) -> None:
    (sizes,) = {tuple(size for size, *_ in file.sizes) for file in rooted.files if "gather" in file.name}
    lines = rooted.texts["check.sh"].splitlines()
    for size in sizes:
        assert any(f"gather_perf -b {size} -e {size} -g 1" in line for line in lines)


def test_a_call_of_the_one_size_of_a_window_finds_its_file_in_every_runtime(tmp_path: Path) -> None:
    made = bundle("allgather", topology="ring:3", sizes="3KB", effort=200, cache=False)
    made.write(tmp_path / "one")
    files = list((tmp_path / "one").rglob("*.xml"))
    assert {path.parent.name for path in files} == {"msccl", "executor", "rccl"}
    for path in files:
        assert verify_file(path, targets=[path.parent.name]).ok


@pytest.mark.parametrize("line", ["RUNTIME=typo; . ./env.sh", "./check.sh typo"])
def test_a_runtime_of_no_such_name_ends_the_scripts(folder: Path, line: str) -> None:
    environment = {**os.environ, "NCCL_TESTS": "/tests", "MPIRUN": "echo"}
    done = subprocess.run(
        ["sh", "-c", line], cwd=folder, capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "RUNTIME is none of" in done.stderr


def test_the_script_refuses_to_be_sourced_elsewhere(folder: Path, tmp_path: Path) -> None:
    line = f"RUNTIME=msccl; . {folder}/env.sh"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "in the folder of the bundle" in done.stderr


def test_there_is_no_bundle_where_nothing_was_found() -> None:
    with pytest.raises(NoScheduleInTime, match="no file to deploy"):
        bundle("allgather", topology="torus:16x16", sizes="64MB", time_limit=0.05, cache=False)


def test_plans_come_with_the_module_that_registers_them(tmp_path: Path) -> None:
    made = bundle("allreduce", topology="full:4", sizes="4KB,1MB", target="mscclpp", effort=300, cache=False)
    made.write(tmp_path / "plans")
    (runtime,) = {path.parent for path in (tmp_path / "plans").rglob("*.json")} - {tmp_path / "plans"}
    assert (runtime / "taccl_plans.py").exists()
    for path in runtime.glob("*.json"):
        assert verify_plan_file(path).ok
    page = (tmp_path / "plans" / "README.md").read_text()
    assert "nccl-tests does not import it" in page
    assert page.count("only adds: a call for a maximum or an average would get the sum") == 1
    windows = json.loads((tmp_path / "plans" / "manifest.json").read_text())["files"]
    for (calls,) in (window["calls"].values() for window in windows):
        assert any(calls.values())
        for way, path in calls.items():
            served = {calls[name] for name in calls} - {None}
            facts = verify_plan_file(tmp_path / "plans" / served.pop()).facts
            is_right = {"in_place": facts.in_place, "out_of_place": facts.out_of_place}[way] == "right"
            assert (path is not None) == is_right


def test_one_awkward_size_takes_the_file_from_no_other() -> None:
    made = bundle(
        "allgather", topology="full:4", sizes="4KB,5000,1MB", target="mscclpp", effort=300, cache=False
    )
    manifest = json.loads(made.texts["manifest.json"])
    served = {
        size["size_bytes"]
        for window in manifest["files"]
        for size in window["sizes"]
        if window["kind"] == "plan"
        and size["size_bytes"] not in {each["size_bytes"] for each in window["unserved"]}
    }
    assert served == {4096, 2**20}
    (odd,) = (each for window in manifest["files"] for each in window["unserved"])
    assert odd["size_bytes"] == 5000 and "no multiple of 64" in odd["reason"]
    page = str(made.texts["README.md"])
    assert "| allgather | 5000B | 5000B | all | the library: MSCCL++ cuts calls" in page
    for file in made.files:
        size, time_us, _ = [each for each in file.sizes if each[0] not in file.unserved][-1]
        assert (file.figures()["size_bytes"], file.figures()["time_us"]) == (size, time_us)
        assert all(output.program.min_bytes <= size <= output.program.max_bytes for output in file.outputs)


def test_a_window_whose_only_size_no_file_takes_is_the_librarys() -> None:
    with pytest.raises(TacclError, match="no multiple of 64"):
        bundle("allgather", topology="full:4", sizes="5000", target="mscclpp", effort=200, cache=False)


def test_the_largest_size_may_be_one_that_no_file_takes() -> None:
    made = bundle("allgather", topology="full:4", sizes="4KB,5000", target="mscclpp", effort=400, cache=False)
    assert [size for file in made.files for size, *_ in file.sizes] == [4096, 5000]
    left = [size for file in made.files for size in file.unserved]
    left += [size for file in made.files if file.kind == "fallback" for size, *_ in file.sizes]
    assert left == [5000]


def test_a_bundle_is_for_one_machine() -> None:
    with pytest.raises(TacclError, match="for one machine, not"):
        bundle("allgather", topology=["ring:3", "ring:4"])  # type: ignore[arg-type]


def test_times_of_files_come_with_how_far_they_may_be_off(made: Bundle, tmp_path: Path) -> None:
    made.write(tmp_path / "links")
    of_defaults = bundle(
        "allgather", topology="dgx-a100", nodes=1, sizes="4KB", target="msccl", effort=500, cache=False
    )
    of_defaults.write(tmp_path / "files")
    errors = {
        name: [
            size["error"]
            for file in json.loads((tmp_path / name / "manifest.json").read_text())["files"]
            for size in file["sizes"]
        ]
        for name in ("links", "files")
    }
    assert set(errors["links"]) == {None}
    assert all(0 < error < 1 for error in errors["files"])


def test_a_folder_that_is_not_empty_is_left_alone(made: Bundle, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(FileError, match="not empty"):
        made.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_target_that_no_runtime_finds_by_itself_is_refused() -> None:
    with pytest.raises(TacclError, match="finds files for json"):
        bundle("allgather", target="json", **WORDS)

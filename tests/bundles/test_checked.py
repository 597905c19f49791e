"""What nccl-tests printed next to what a bundle promised."""

import json
from pathlib import Path

import pytest

from taccl.bundles.bundle import bundle
from taccl.bundles.checked import check_bundle
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


WINDOW = {"collective": "allgather", "min_bytes": 1, "max_bytes": 2, "kind": "plan"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    words = {"topology": "ring:4", "sizes": "4KB,64KB", "effort": 400, "cache": False}
    bundle("allgather", **words).write(tmp_path / "bundle")
    return tmp_path / "bundle"


def test_each_size_has_its_file_and_how_far_the_time_is_off(folder: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.txt"
    results.write_text("# all_gather_perf\n" + PRINTED + "Starting execution with plan: taccl-none\n")
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


def test_times_are_held_against_the_error_that_was_promised(folder: Path, tmp_path: Path) -> None:
    window = WINDOW | {"max_bytes": 2**20, "paths": {"msccl": "msccl/a.xml"}}
    sizes = [
        {"size_bytes": 4096, "time_us": 9.0, "lower_bound_us": 1.0, "error": 0.2},
        {"size_bytes": 65536, "time_us": 9.0, "lower_bound_us": 1.0, "error": 0.2},
    ]
    manifest = {"ranks": 4, "times_of": "files as predicted", "files": [window | {"sizes": sizes}]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "results.txt").write_text("# all_gather_perf\n" + PRINTED)
    found = check_bundle(folder, tmp_path / "results.txt")
    assert [each.is_as_promised for each in found.sizes] == [True, False, None]
    assert "1 of 2 sizes are within the error that was promised" in found.notes


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
    "text",
    [
        *("[]", "{}", "{", '{"files": [{}]}', '{"files": [{"paths": 1}]}'),
        '{"ranks": 4, "times_of": "files", "files": {}}',
        *(
            json.dumps(
                {"ranks": 4, "times_of": "files", "files": [WINDOW | {"paths": {}, "sizes": []} | each]}
            )
            for each in (
                {"min_bytes": -1},
                {"max_bytes": "2"},
                {"kind": 3},
                {"paths": {"msccl": 7}},
                {"sizes": [{"size_bytes": 1, "time_us": "soon"}]},
                {"sizes": [{"size_bytes": 1.5, "time_us": 1}]},
            )
        ),
    ],
)
def test_what_is_no_manifest_is_one_error(folder: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "results.txt").write_text(PRINTED)
    (folder / "manifest.json").write_text(text)
    with pytest.raises(FileError, match="manifest"):
        check_bundle(folder, tmp_path / "results.txt")

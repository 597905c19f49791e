"""Measured runs from folders and tables: what is paired, what is left out, and what is refused."""

import gzip
from pathlib import Path

import pytest

from taccl.backend.msccl_xml import to_xml
from taccl.backend.program import Protocol
from taccl.calibration.probe.patterns import PATTERNS
from taccl.calibration.runs.runs import MeasuredRuns, load_runs
from taccl.errors import FileError, TacclError

RING = to_xml(next(each for each in PATTERNS if each.name == "ring").build(range(2), Protocol.LL, 1))
HANGS = Path(__file__).parents[2] / "data" / "mi300x-8" / "ar_allpair_simple_x_1.xml.gz"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.xml", "b.xml"):
        (tmp_path / name).write_text(RING)
    return tmp_path


def table(folder: Path, *rows: str, header: str = "file,size_bytes,time_us") -> None:
    (folder / "times.csv").write_text("\n".join([header, *rows]) + "\n")


def times(runs: MeasuredRuns) -> dict[str, dict[int, float]]:
    return {
        file.name: dict(zip(file.size_bytes.tolist(), file.time_us.tolist(), strict=True))
        for file in runs.files
    }


def test_a_folder_pairs_its_programs_with_the_rows_of_its_table(folder: Path) -> None:
    table(folder, "b.xml,2048,4", "a.xml,1024,2", "a.xml,64,1")
    assert times(load_runs([folder])) == {"a.xml": {64: 1.0, 1024: 2.0}, "b.xml": {2048: 4.0}}


def test_of_several_times_of_one_size_the_median_counts(folder: Path) -> None:
    table(folder, "a.xml,1024,2", "a.xml,1024,9", "a.xml,1024,3")
    assert times(load_runs([folder])) == {"a.xml": {1024: 3.0}}


def test_a_program_without_times_is_told(folder: Path) -> None:
    table(folder, "a.xml,1024,2")
    assert load_runs([folder]).notes == (f"{folder}: no times of b.xml",)


def test_times_of_programs_that_are_not_there_are_left_out(folder: Path) -> None:
    table(folder, "a.xml,1024,2", "c.xml,1024,2", "c.xml,2048,2", "b.xml,1024,2")
    runs = load_runs([folder])
    assert list(times(runs)) == ["a.xml", "b.xml"]
    assert runs.notes == (f"{folder}: no program here for the times of c.xml: left out",)


@pytest.mark.parametrize("name", ["a", "runs/a.xml", "C:\\runs\\a.xml"])
def test_a_table_may_name_a_file_with_its_folder_or_without_its_ending(folder: Path, name: str) -> None:
    table(folder, f"{name},1024,2")
    assert times(load_runs([folder])) == {"a.xml": {1024: 2.0}}


@pytest.mark.parametrize("failed", ["timeout", "Timed out", "HUNG", "FAILED", "nan", ""])
def test_calls_that_failed_have_no_time(folder: Path, failed: str) -> None:
    table(folder, "a.xml,1024,2", f"a.xml,2048,{failed}")
    runs = load_runs([folder])
    assert times(runs) == {"a.xml": {1024: 2.0}}
    assert any("no time, or size 0 in 1 rows (line 3): left out" in note for note in runs.notes)


def test_a_file_is_paired_with_a_table_of_its_own(folder: Path) -> None:
    (folder / "mine.csv").write_text("size_bytes,time_us\n1024,2\n")
    assert times(load_runs([f"{folder}/a.xml={folder}/mine.csv"])) == {"a.xml": {1024: 2.0}}


def test_of_a_table_of_several_files_a_pair_takes_its_own_rows(folder: Path) -> None:
    table(folder, "a.xml,1024,2", "b.xml,2048,4")
    assert times(load_runs([f"{folder}/b.xml={folder}/times.csv"])) == {"b.xml": {2048: 4.0}}


def test_sizes_that_do_not_divide_into_the_chunks_are_left_out(folder: Path) -> None:
    table(folder, "a.xml,1020,2", "a.xml,4,2", "a.xml,1024,2")
    runs = load_runs([folder])
    assert times(runs) == {"a.xml": {1024: 2.0}}
    assert "calls of 4B, 1020B do not divide into its 2 chunks" in runs.notes[-1]


def test_sizes_at_which_verification_sees_a_hang_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "ar.xml").write_bytes(gzip.decompress(HANGS.read_bytes()))
    table(tmp_path, "ar.xml,33554432,900", "ar.xml,67108864,1800")
    runs = load_runs([tmp_path])
    assert times(runs) == {"ar.xml": {33554432: 900.0}}
    assert runs.files[0].hangs_above_bytes == 33554432
    assert runs.notes == ("ar.xml hangs above 32MB: left out 64MB",)


NCCL_TESTS = """\
#                                                     out-of-place                    in-place
#  size   count   type  redop  root    time  algbw  busbw #wrong    time  algbw  busbw #wrong
#   (B)  (elements)                    (us) (GB/s) (GB/s)           (us) (GB/s) (GB/s)
   16384    2048  float   none    -1   18.10   0.91   0.45      0   12.50   1.31   0.66      0
   65536    8192  float   none    -1   19.20   3.41   1.71    N/A   14.10   4.65   2.32    N/A
# Out of bounds values : 0 OK
"""


def test_the_text_of_nccl_tests_beside_a_program_gives_the_times_in_place(folder: Path) -> None:
    (folder / "a.txt").write_text(NCCL_TESTS)
    assert times(load_runs([folder])) == {"a.xml": {16384: 12.5, 65536: 14.1}}


def test_a_row_of_nccl_tests_with_one_time_only_is_told(folder: Path) -> None:
    (folder / "a.txt").write_text(NCCL_TESTS.replace("12.50   1.31   0.66      0", "N/A N/A N/A N/A"))
    runs = load_runs([folder])
    assert times(runs) == {"a.xml": {65536: 14.1}}
    assert any("no time in place" in note for note in runs.notes)


def test_wrong_results_in_the_text_of_nccl_tests_are_refused(folder: Path) -> None:
    (folder / "a.txt").write_text(NCCL_TESTS.replace("0.66      0", "0.66      7"))
    with pytest.raises(FileError, match="wrong"):
        load_runs([folder])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["c.xml,1024,2"], "there is no 'c.xml' in this folder"),
        (["a.xml,1024,fast"], "'fast' is no time"),
        ([], "no measured times in"),
    ],
)
def test_what_is_wrong_in_a_table_is_told(folder: Path, rows: list[str], message: str) -> None:
    table(folder, *rows)
    with pytest.raises(FileError, match=message):
        load_runs([folder])


def test_a_source_that_is_nothing_is_refused(tmp_path: Path) -> None:
    for source in ("nowhere", f"{tmp_path}/a.xml={tmp_path}/b.csv", tmp_path):
        with pytest.raises(TacclError):
            load_runs([source])


def test_a_program_that_no_runtime_executes_is_refused_with_its_name(folder: Path) -> None:
    (folder / "a.xml").write_text(RING.replace('type="s"', 'type="x"'))
    table(folder, "a.xml,1024,2")
    with pytest.raises(TacclError, match=r"a\.xml"):
        load_runs([folder])

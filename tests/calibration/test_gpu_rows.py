"""benchmarks/gpu: what is made of the rows that it measures, for rows made up by a GPU that is known."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu import executor, measure
from benchmarks.gpu.executor import Measured, Row, read_rows
from taccl.errors import TopologyError
from taccl.topologies import load_topology

LAUNCH_US, FLAG_US = 2.5, 1.5
#: By operation: what a slice takes a thread block, us, its GB/s, and GB/s of all of them at most.
TRUTH = {"copy": (0.8, 24.0, 400.0), "sum": (0.5, 16.0, 900.0), "packets": (0.2, 9.0, 210.0)}
SHARPNESS = 3.0
HEADER = "gpu,multiprocessors,operation,place,blocks,bytes,slices,time_us\n"


def rows(places: tuple[str, ...] = ("local", "peer")) -> str:
    lines = [f"launch,local,{blocks},0,0,{LAUNCH_US + blocks / 1000}" for blocks in (1, 132)]
    lines += [f"graph,local,{blocks},0,0,{LAUNCH_US - 1}" for blocks in (1, 132)]
    for place in places:
        lines.append(f"bounce,{place},1,4,1,{FLAG_US}")
        for operation, (slice_us, block, most) in TRUTH.items():
            for blocks in (1, 2, 4, 8, 16, 32, 64, 132):
                for block_bytes in (2**12, 2**16, 2**20):
                    for slices in (1, 4):
                        pace = (block**-SHARPNESS + (most / blocks) ** -SHARPNESS) ** (1 / SHARPNESS)
                        us = slices * slice_us + block_bytes / 1e3 * pace
                        lines.append(f"{operation},{place},{blocks},{blocks * block_bytes},{slices},{us}")
    return HEADER + "".join(f"NVIDIA H100 80GB HBM3,132,{line}\n" for line in lines)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gpu.csv"
    path.write_text(rows())
    return path


def made(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["executor", *map(str, arguments)])
    executor.main()


def test_a_machine_gets_the_executor_that_the_rows_were_made_of(file, tmp_path, monkeypatch, capsys):
    made(monkeypatch, file, "--topology", "dgx-h100", "--nodes", 1, "-o", tmp_path / "made.yaml")
    found = load_topology(str(tmp_path / "made.yaml")).executor
    copy, packets = found.protocols["Simple"], found.protocols["LL"]
    # The link's alpha, 0.7 us, is part of the way of a flag.
    assert (copy.launch_us, copy.hop_us) == pytest.approx((2.501, 0.8))
    # One thread block is slowed by what all move at most, a little.
    assert (copy.slice_us, copy.block_gbps) == pytest.approx((0.8, 24.0), rel=0.01)
    assert (packets.slice_us, packets.block_gbps) == pytest.approx((0.2, 9.0), rel=0.01)
    assert (found.copy_us, found.copy_gbps) == pytest.approx((0.8, 24.0), rel=0.01)
    assert (found.reduce_us, found.reduce_gbps) == pytest.approx((0.5, 32.0), rel=0.01), "of two sources"
    assert found.thread_blocks == 132 and found.link_sharpness == pytest.approx(SHARPNESS, rel=0.02)
    assert "copy, peer: 24 GB/s a thread block, all at most 399" in capsys.readouterr().out


def test_calls_that_are_graphs_have_the_launch_of_graphs(file, tmp_path, monkeypatch):
    made(monkeypatch, file, "--topology", "dgx-h100", "--nodes", 1, "--graph", "-o", tmp_path / "made.yaml")
    found = load_topology(str(tmp_path / "made.yaml")).executor
    assert {costs.launch_us for costs in found.protocols.values()} == {1.5}


def test_what_was_not_measured_stays_the_runtimes(file, tmp_path, monkeypatch):
    made(monkeypatch, file, "--topology", "dgx-h100", "--runtime", "msccl", "-o", tmp_path / "made.yaml")
    found = load_topology(str(tmp_path / "made.yaml")).executor.protocols
    assert found["LL128"].launch_us == 18.2 and found["LL128"].piece_bytes == 576_000
    assert found["LL"].piece_bytes == 32 * 1024


def test_one_gpu_alone_says_that_its_sends_stayed_inside(file):
    file.write_text(rows(("local",)))
    measured = Measured(read_rows(file))
    assert measured.way == "local" and "no second one" in list(measured.remarks())[-1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no measured times"),
        (HEADER, "no measured times"),
        ("size,time\n1,2\n", "not a row"),
        (f"{HEADER}H100,132,copy,local,one,2,1,3\n", ":2: not a row"),
        (f"{HEADER}H100,132,copy,local,1,4096,1,3\nH100,132,copy,local,1,4096,1,-3\n", ":3: .* above 0"),
    ],
)
def test_other_files_are_refused_with_the_line(file, text, said):
    file.write_text(text)
    with pytest.raises(TopologyError, match=said):
        read_rows(file)


def test_rows_of_two_gpus_or_too_few_are_refused():
    row = Row("H100", 132, "launch", "local", 1, 0, 0, 2.0)
    with pytest.raises(TopologyError, match="one model"):
        Measured([row, Row("A100", 108, "launch", "local", 1, 0, 0, 2.0)])
    with pytest.raises(TopologyError, match="no row is of copy, local"):
        Measured([row]).pace("copy", "local")


def test_a_machine_without_defaults_says_what_is_missing(file, tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        made(monkeypatch, file, "--topology", "ring:4", "-o", tmp_path / "made.yaml")
    assert "names no model of its GPUs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "copy", "packets"), [("h100", 20.3, 10.2), ("h100_1024_threads", 39.3, 19.0)]
)
def test_rows_of_a_real_h100_make_an_executor(name, copy, packets):
    measured = Measured(read_rows(Path(measure.__file__).parent / "measured" / f"{name}.csv"))
    assert measured.pace("copy", "local").gbps == pytest.approx(copy, abs=0.05)
    assert measured.pace("packets", "local").gbps == pytest.approx(packets, abs=0.05)


def test_without_a_compiler_one_line_says_so(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["measure", "-o", "gpu.csv"])
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit):
        measure.main()
    assert (
        capsys.readouterr().err == "neither nvcc nor hipcc is on the path, one of which compiles blocks.cu\n"
    )


def test_nvidias_compiler_gets_each_architecture_and_amds_finds_its_own():
    assert measure.command("nvcc", "80,90", 512, Path("blocks")).count("-gencode") == 2
    assert "hip" in measure.command("hipcc", "80,90", 512, Path("blocks"))


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on the path")
def test_the_kernels_compile_for_hopper(tmp_path):
    subprocess.run(measure.command("nvcc", "90", 512, tmp_path / "blocks"), check=True)

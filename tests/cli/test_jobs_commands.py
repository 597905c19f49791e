"""`order`, `stall` and `rank-placements`: what they write, and one line for each wrong input."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Taccl = Callable[..., Result]

JOB = "name: job\nlayers:\n  - {name: a, bytes: 1048576, forward_us: 10, backward_us: 20}\n"
MACHINE = (
    "name: two\nnodes: 2\nnode: {gpus: 2, nics: 1, links: [{pairs: [0-1, 0-nic0, 1-nic0], alpha_us: 1, "
    "bandwidth_gbps: 20}]}\nfabric: {alpha_us: 5, bandwidth_gbps: 10}\n"
)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, text in (
        ("job.yaml", JOB),
        ("two.yaml", MACHINE),
        ("offers.txt", "n[0-1].gpu0\nn0\n"),
        ("hosts", "b\na\n"),
    ):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_an_order_is_written_for_a_launcher(taccl: Taccl, files: Path) -> None:
    words = ("order", "--topology", "two.yaml", "--size", "4MB", "--effort", "200", "--hosts", "hosts")
    done = taccl(*words, "-o", "out.txt", "--format", "rankfile")
    assert done.exit_code == 0, done.stderr
    lines = (files / "out.txt").read_text().splitlines()
    assert [line.split("=")[0] for line in lines] == [f"rank {rank}" for rank in range(4)]
    assert {line.split("=", 1)[1] for line in lines} == {
        f"{host} slot={slot}" for host in "ab" for slot in (0, 1)
    }
    assert "bound: any algorithm" in done.stdout


def test_a_stall_and_a_ranking_are_tables(taccl: Taccl, files: Path) -> None:
    done = taccl("stall", "job.yaml", "--topology", "two.yaml", "--price", "3", "--samples", "1000")
    assert done.exit_code == 0, done.stderr
    assert "an epoch by ring" in done.stdout
    done = taccl(
        "rank-placements", "--topology", "two.yaml", "--job", "job.yaml", "--candidates", "offers.txt"
    )
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[2].startswith("n0 ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("order --topology two.yaml --size 1MB --plan spiral", "no plan"),
        ("order --topology two.yaml --size 1MB --hosts job.yaml", "no name of a host"),
        ("order --topology two.yaml --size 1MB --effort 0", "effort"),
        ("order --topology ndv2 --nodes 1 --size 1MB -o x.txt --effort 2000", "CUDA_VISIBLE_DEVICES"),
        ("stall offers.txt --topology two.yaml", "offers.txt"),
        ("stall job.yaml --topology two.yaml --plan spiral", "spiral"),
        ("stall job.yaml --topology two.yaml --batch -1", "batch"),
        ("stall job.yaml --topology two.yaml --bucket x", "x"),
        ("stall job.yaml --topology two.yaml --price 3", "--samples"),
        ("stall job.yaml --topology two.yaml --one-node two.yaml", "is not one node"),
        ("rank-placements --topology two.yaml --job job.yaml --candidates job.yaml", "job.yaml:1"),
        ("rank-placements --topology two.yaml --job job.yaml --candidates offers.txt --wait soon", "no time"),
        (
            "rank-placements --topology two.yaml --job job.yaml --candidates offers.txt --policy job.yaml",
            "no number of leases",
        ),
        (
            "rank-placements --topology two.yaml --job job.yaml --candidates offers.txt --iterations 0",
            "iterations",
        ),
    ],
)
def test_wrong_input_is_one_line(taccl: Taccl, files: Path, words: str, said: str) -> None:
    done = taccl(*words.split())
    assert done.exit_code == 2, (done.stdout, done.stderr, done.exception)
    assert "internal error" not in done.stderr
    assert said in done.stderr
    assert not done.stdout

"""What is probed on which machine, and what its folder holds."""

import re
import subprocess
from pathlib import Path

import pytest

from taccl.backend.msccl_xml import parse_document
from taccl.backend.program import Protocol
from taccl.backend.verify.msccl_xml import verify_document, verify_text
from taccl.calibration.probe import probe
from taccl.errors import FileError, TacclError, TopologyError
from taccl.topologies import parse_topology

MESH = parse_topology("name: m\ngpus: 4\nlinks: [{from: gpus, to: gpus, alpha_us: 1, bandwidth_gbps: 40}]\n")
#: A square with a diagonal: 0-1-2-3 as counted is no ring of it.
CROSSED = parse_topology(
    "name: x\ngpus: 4\nlinks: [{pairs: [0-2, 2-1, 1-3, 3-0], alpha_us: 1, bandwidth_gbps: 40}]\n"
)


def names(found: object) -> set[str]:
    return {each.program.name for each in found.programs}


def test_where_all_gpus_reach_each_other_every_pattern_and_protocol_is_probed() -> None:
    found = probe(MESH)
    assert {each.pattern for each in found.programs} == {"pairs", "one_way", "ring", "sums"}
    for protocol in ("simple", "ll", "ll128"):
        assert {f"pairs_{protocol}_{number}" for number in (1, 2, 4, 8)} <= names(found)
        assert {f"ring_{protocol}_1", f"ring_{protocol}_8"} <= names(found)
    assert found.notes == ()


def test_where_they_do_not_rings_are_probed_along_the_links_there_are() -> None:
    found = probe(CROSSED, protocols=[Protocol.LL])
    assert names(found) == {"ring_ll_1", "ring_ll_2", "ring_ll_4", "ring_ll_8"}
    linked = {frozenset(pair) for pair in ((0, 2), (2, 1), (1, 3), (3, 0))}
    for rank in found.programs[0].program.ranks:
        assert all(frozenset((rank.rank, block.send)) in linked for block in rank.thread_blocks)
    assert "rings alone" in found.notes[0]


def test_one_protocol_gets_the_patterns_that_are_planned_for_another() -> None:
    found = probe(MESH, protocols=[Protocol.LL128])
    assert {each.program.protocol for each in found.programs} == {Protocol.LL128}
    assert {each.pattern for each in found.programs} == {"pairs", "one_way", "ring", "sums"}


def test_several_instances_stay_within_the_limits_of_all_runtimes() -> None:
    found = probe("switch:16", protocols=[Protocol.SIMPLE])
    assert all(len(each.readers) == 3 for each in found.programs if each.instances > 1)
    assert max(each.thread_blocks for each in found.programs) <= 64


def test_what_no_runtime_holds_is_left_out_and_told_before_it_is_verified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each to each is 39 thread blocks on one channel; verifying such programs of 72 GPUs took minutes."""
    sizes = []

    def verified(text: str, targets: None) -> object:
        sizes.append(len(text))
        return verify_text(text, targets=targets)

    monkeypatch.setattr("taccl.calibration.probe.probing.verify_text", verified)
    found = probe("switch:40", protocols=[Protocol.LL])
    assert names(found) == {"ring_ll_1"} and len(sizes) == 1
    assert found.notes == tuple(
        f"no runtime holds {name} of 40 GPUs, so it is left out" for name in ("pairs", "one_way", "sums")
    )


@pytest.mark.parametrize("machine", ["switch:3", "switch:6", "switch:8"])
def test_every_size_divides_into_the_chunks_of_every_program(machine: str) -> None:
    found = probe(machine, protocols=[Protocol.SIMPLE])
    size, largest, factor = found.sizes
    while size <= largest:
        assert all(size % (16 * each.program.chunks_per_loop) == 0 for each in found.programs)
        size *= factor


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: one\ngpus: 1\nlinks: []\n", "has one GPU"),
        ("name: many\ngpus: 130\nlinks: []\n", "at most 128 are probed"),
        ("name: line\ngpus: 3\nlinks: [{pairs: [0-1, 1-2], alpha_us: 1, bandwidth_gbps: 9}]\n", "no ring"),
    ],
)
def test_machines_that_cannot_be_probed_are_refused(text: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        probe(parse_topology(text))


def test_no_protocol_and_an_unknown_one_are_refused() -> None:
    with pytest.raises(TacclError, match="no protocol"):
        probe(MESH, protocols=[])
    with pytest.raises(TacclError, match="unknown protocol"):
        probe(MESH, protocols=["LL"])


def test_the_folder_holds_verified_programs_a_script_and_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "probe"
    found = probe(MESH, protocols=[Protocol.SIMPLE])
    found.write(folder)
    programs = sorted(path.name for path in folder.glob("*.xml"))
    assert programs == sorted(each.file for each in found.programs)
    for path in folder.glob("*.xml"):
        assert verify_document(parse_document(path.read_bytes(), str(path)), targets=None).ok
    script = (folder / "run.sh").read_text()
    page = (folder / "README.md").read_text()
    assert re.findall(r"^measure (\S+)", script, re.MULTILINE) == [
        each.program.name for each in found.programs
    ]
    assert all(each.file in page for each in found.programs)
    assert "taccl topology fit --runs" in page
    assert subprocess.run(["sh", "-n", str(folder / "run.sh")], check=False).returncode == 0


def test_the_script_measures_each_program_alone_and_keeps_what_is_printed(tmp_path: Path) -> None:
    folder, tests = tmp_path / "probe", tmp_path / "tests"
    found = probe(MESH, protocols=[Protocol.SIMPLE])
    found.write(folder)
    tests.mkdir()
    for name in ("all_gather_perf", "all_reduce_perf"):
        (tests / name).write_text('#!/bin/sh\necho "$0 $@"; ls "$MSCCL_ALGO_DIR"\n')
        (tests / name).chmod(0o755)
    done = subprocess.run(
        ["sh", str(folder / "run.sh"), "executor", str(tests), "env"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for each in found.programs:
        words, *files = (folder / each.file).with_suffix(".txt").read_text().splitlines()
        assert f"-b {found.sizes[0]} -e {found.sizes[1]} -f {found.sizes[2]}" in words
        assert ("all_reduce_perf" in words) == (each.pattern == "sums")
        assert files == [each.file]


def test_nothing_in_a_folder_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    found = probe(MESH, protocols=[Protocol.LL])
    with pytest.raises(FileError, match="not empty"):
        found.write(tmp_path)
    with pytest.raises(FileError, match="does not exist"):
        found.write(tmp_path / "no" / "where")
    with pytest.raises(FileError, match="is a file"):
        found.write(tmp_path / "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]

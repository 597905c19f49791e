"""The verdicts on real files: right or wrong, who reads them, races, deadlock."""

import gzip

import pytest
from programs import REAL_FILES

from taccl.backend.verify.msccl_xml import verify_file

# file: (microsoft/msccl, msccl-executor-nccl, rccl), right, hangs when each chunk is a piece of its own
VERDICTS = {
    "mscclang-allgather_recursive_doubling_8": (("yes", "no", "no"), True, True),
    "mscclang-allreduce_a100_ring_8": (("yes", "no", "no"), True, False),
    "mscclang-allreduce_pcie_hierarchical_4": (("yes", "no", "no"), False, False),
    "mscclang-alltoall_two_step_2x8": (("yes", "no", "no"), True, False),
    "mscclang-hierarchical_allreduce_8x2": (("yes", "no", "no"), True, False),
    "mscclang-pipeline_a100_ring_8": (("yes", "no", "no"), False, False),
    "rccl-allreduce-allpairs-8n-simple": (("yes", "yes", "yes"), True, True),
    "rccl-alltoall-8n-0-9kb": (("yes", "yes", "yes"), True, False),
    "rccl-unit-all-reduce-ring-ll": (("yes", "yes", "launch"), True, False),
    "sched-ncv4-ag_hier_4_LL": (("yes", "yes", "launch"), True, False),
    "sched-ndv4-a2a2ll": (("yes", "yes", "yes"), True, False),
    "sched-ndv4-ag-1m": (("yes", "yes", "yes"), True, False),
    "sched-ndv4-ap2ll": (("yes", "yes", "yes"), True, False),
    "sched-ndv4-r48ll": (("yes", "yes", "launch"), True, False),
    "taccl-ndv2x2-allgather-sk1-1MB": (("yes", "no", "no"), True, False),
    "teccl-amd_32": (("yes", "yes", "yes"), True, False),
}


@pytest.fixture
def find(tmp_path):
    """The path of a real file by its name; a compressed file is unpacked."""

    def path_of(name):
        plain, packed = REAL_FILES / f"{name}.xml", REAL_FILES / f"{name}.xml.gz"
        if not packed.exists():
            return plain
        unpacked = tmp_path / plain.name
        unpacked.write_bytes(gzip.decompress(packed.read_bytes()))
        return unpacked

    return path_of


@pytest.mark.parametrize("name", VERDICTS)
def test_the_verdict_on_a_real_file(name, find):
    readers, right, hangs_split = VERDICTS[name]
    facts = verify_file(find(name)).facts
    assert tuple(facts.readers.values()) == readers
    verdicts = {facts.in_place, facts.out_of_place} - {"not claimed"}
    assert verdicts == {"right" if right else "wrong"}
    assert facts.races == 0
    assert (facts.deadlock_whole, facts.deadlock_split) == (False, hangs_split)


def test_every_wrong_output_of_a_wrong_file_is_counted():
    wrong = [
        f
        for f in verify_file(REAL_FILES / "mscclang-allreduce_pcie_hierarchical_4.xml").errors
        if f.rule == "wrong-result"
    ]
    assert len(wrong) == 21
    assert wrong[-1].message.startswith("44 more findings like this one")


def test_a_file_that_hangs_in_its_window_is_refused_with_the_window_that_is_safe():
    report = verify_file(REAL_FILES / "mscclang-allgather_recursive_doubling_8.xml", targets="msccl")
    (error,) = report.errors
    assert error.rule == "deadlock"
    assert 'maxBytes="8388608"' in error.hint


def test_a_window_of_small_calls_keeps_a_file_from_hanging(find):
    report = verify_file(find("rccl-allreduce-allpairs-8n-simple"))
    assert report.ok
    assert report.facts.deadlock is False

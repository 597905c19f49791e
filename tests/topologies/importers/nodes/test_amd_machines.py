"""What becomes of the dumps of AMD's tools and of hwloc: figures and a machine file."""

import pytest
from verdicts import AMD_AND_HWLOC, DUMPS, Verdict

from taccl.topologies import parse_topology
from taccl.topologies.importers.nodes.machine import make_machine
from taccl.topologies.importers.nodes.registry import read_dump


@pytest.mark.parametrize("verdict", AMD_AND_HWLOC, ids=str)
def test_a_real_dump_becomes_the_machine_of_its_verdict(verdict: Verdict) -> None:
    dump = read_dump(DUMPS / verdict.file)
    machine = make_machine(dump)
    reported = machine.to_dict()
    assert (reported["gpus"], reported["nics"]) == (verdict.gpus, verdict.nics)
    assert reported["nvswitch"] == (verdict.to_switch > 0)
    assert machine.nearest_nics == verdict.nearest
    assert all(any(words in warning for warning in machine.warnings) for words in verdict.warned)
    assert {(link.a, link.b): link.count for link in dump.links or () if link.b is not None} == verdict.links
    assert [link.count for link in dump.links or () if link.b is None] == (
        [verdict.to_switch] * verdict.gpus if verdict.to_switch else []
    )
    for bandwidth, gbps in (("nccl", verdict.gbps), ("peak", verdict.peak)):
        figures = make_machine(dump, bandwidth=bandwidth).gpu_gbps
        if bandwidth == "nccl" or gbps is not None:
            assert figures == pytest.approx((gbps,) * verdict.gpus)


@pytest.mark.parametrize("verdict", AMD_AND_HWLOC, ids=str)
def test_the_machine_file_of_a_real_dump_is_that_machine(verdict: Verdict) -> None:
    made = make_machine(read_dump(DUMPS / verdict.file), "there-and-back")
    machine = parse_topology(made.yaml)
    assert machine == made.topology
    assert machine.num_ranks == verdict.gpus
    assert all(machine.path(rank, 0) for rank in range(1, verdict.gpus))

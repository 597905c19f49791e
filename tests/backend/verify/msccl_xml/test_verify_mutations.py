"""Damage to right programs, judged by running them: what ever goes wrong must not pass."""

import random
from dataclasses import replace

import pytest
from mutations import mutate
from programs import REAL_FILES, direct_alltoall, ring_allgather, ring_allreduce, scratch_allreduce
from runtime_model import outcomes

from taccl.backend.msccl_xml import read_xml
from taccl.backend.verify.msccl_xml import verify_program

RUNS = 12
MUTANTS = 40

PROGRAMS = {
    "fused ring": ring_allreduce(4),
    "ring of two blocks": ring_allgather(4),
    "direct alltoall": direct_alltoall(3),
    "reductions in scratch": scratch_allreduce(3),
    "waits by nops": scratch_allreduce(4),
    "recursive doubling": replace(
        read_xml(REAL_FILES / "mscclang-allgather_recursive_doubling_8.xml"), max_bytes=2**20
    ),
    "hierarchical allgather": read_xml(REAL_FILES / "sched-ncv4-ag_hier_4_LL.xml"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_programs_to_damage_are_right(name):
    assert outcomes(PROGRAMS[name], RUNS) == {"right"}
    assert verify_program(PROGRAMS[name], targets="msccl").ok


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_damage_that_ever_shows_passes(name):
    dice = random.Random(name)
    missed = []
    for number in range(MUTANTS):
        done, mutant = mutate(dice, PROGRAMS[name])
        if verify_program(mutant, targets="msccl").ok and outcomes(mutant, RUNS, seed=number * RUNS) != {
            "right"
        }:
            missed.append(done)
    assert missed == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_most_damage_that_never_shows_is_let_through(name):
    """Verification is not a way of saying no: harmless changes pass, save for what no order excuses."""
    dice = random.Random(name)
    unjust = []
    for number in range(MUTANTS // 4):
        done, mutant = mutate(dice, PROGRAMS[name])
        report = verify_program(mutant, targets="msccl")
        if not report.ok and outcomes(mutant, 2 * RUNS, seed=number * RUNS) == {"right"}:
            unjust.append((done, {finding.layer for finding in report.errors}))
    assert all("meaning" not in layers for _, layers in unjust)

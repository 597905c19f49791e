"""Bounds on a machine with an executor: with which costs they are, and that they stay below what is made."""

from dataclasses import replace
from pathlib import Path

import pytest

from taccl import bounds, synthesize
from taccl.analysis.simulated import simulate_file
from taccl.errors import TacclError, TopologyError
from taccl.model.engine_costs import LINKS_ONLY, hop_us, link_us_per_mb
from taccl.synthesis.predicted import any_file_bound, wires_bound
from taccl.topologies import PhysicalTopology, load_topology

EXECUTOR = load_topology(Path(__file__).parents[1] / "data" / "machines" / "mi300x-8.yaml").executor
MACHINE = replace(load_topology("full:3"), executor=EXECUTOR)
QUICK = {"engine": "greedy", "gap": 0.95, "time_limit": 10.0, "chunks": 1}


def test_of_a_known_protocol_bounds_are_those_of_synthesize():
    """Two of 32 MB come to each of three ranks, over links of their own: a hop, and 32 MB of one block."""
    requested = {"topology": MACHINE, "size": "96MB", "chunks": 1}
    proven = bounds("allgather", protocol="Simple", instances=1, thread_blocks="two-way", **requested)
    costs, link = EXECUTOR.costs_of("Simple"), MACHINE.path(0, 1)
    beta = float(link_us_per_mb(costs, link.beta_us_per_mb, 1))
    assert proven[0].value_us == pytest.approx(link.alpha_us + hop_us(costs) + 32 * beta)
    made = synthesize("allgather", protocol="Simple", instances=1, **requested, engine="greedy", gap=0.95)
    left_open = bounds("allgather", protocol="Simple", instances=1, **requested)
    assert left_open[0].value_us <= made.time_us
    assert proven.served.launch_us == EXECUTOR.costs_of("Simple").launch_us
    assert LINKS_ONLY not in proven.stated.notes


@pytest.mark.parametrize(("protocol", "size"), [("Simple", "24MB"), ("LL", "3KB")])
def test_what_is_left_open_makes_a_bound_no_larger(protocol: str, size: str):
    def best(**requested: object) -> float:
        return bounds("allgather", topology=MACHINE, size=size, chunks=1, **requested)[0].value_us

    links, protocol_only = best(), best(protocol=protocol)
    kinds = {
        kind: [best(protocol=protocol, instances=many, thread_blocks=kind) for many in (1, 4)]
        for kind in ("two-way", "one-way")
    }
    assert links <= protocol_only <= min(kinds["one-way"])
    assert all(one <= two for one, two in zip(kinds["one-way"], kinds["two-way"], strict=True))
    assert best(protocol=protocol, instances=4) == kinds["one-way"][1]


@pytest.mark.parametrize(
    ("collective", "protocol", "instances", "size"),
    [
        ("allgather", "Simple", 1, "3KB"),
        ("allgather", "LL", 4, "12KB"),
        ("allgather", "LL128", 2, "48MB"),
        ("reducescatter", "Simple", 4, "48MB"),
        ("alltoall", "LL", 2, "9MB"),
        ("broadcast", "Simple", 8, "64MB"),
    ],
)
def test_no_file_is_faster_than_the_bound_of_files(
    collective: str, protocol: str, instances: int, size: str, tmp_path: Path
):
    made = synthesize(
        collective, topology=MACHINE, size=size, protocol=protocol, instances=instances, **QUICK
    )
    (tmp_path / "made.xml").write_text(made.files[0].text)
    (run,) = simulate_file(tmp_path / "made.xml", [size], topology=MACHINE).sizes
    requested = {"topology": MACHINE, "size": size, "chunks": 1, "protocol": protocol}
    for many in (instances, None):
        any_file = bounds(collective, instances=many, **requested).served.any_file
        assert EXECUTOR.costs_of(protocol).launch_us < any_file.value_us <= run.time_us
        assert "of launch, then" in any_file.witness


@pytest.mark.parametrize("protocol", [None, "auto"])
def test_without_a_protocol_they_are_by_links_alone_and_say_so(protocol: str | None):
    proven = bounds("allgather", topology=MACHINE, size="3MB", protocol=protocol, instances="auto")
    assert proven.served is None
    assert LINKS_ONLY in proven.stated.notes
    assert proven.to_dict()["launch_us"] is None


def test_without_an_executor_a_protocol_changes_nothing():
    plain, reported = (bounds(topology="ring:3", size="3MB", protocol=name) for name in (None, "LL"))
    assert plain[0].value_us == reported[0].value_us
    assert reported.served is None
    assert any("does not say what executing costs" in note for note in reported.stated.notes)


@pytest.mark.parametrize(
    ("requested", "said"),
    [
        ({"instances": 2}, "where a protocol is known"),
        ({"thread_blocks": "one-way"}, "where a protocol is known"),
        ({"protocol": "LL", "thread_blocks": "some-way"}, "thread_blocks"),
        ({"protocol": "LL", "instances": 0}, "instances"),
        ({"protocol": "XX"}, "has no protocol 'XX'"),
    ],
)
def test_what_cannot_be_asked_is_refused(requested: dict[str, object], said: str):
    with pytest.raises(TacclError, match=said):
        bounds(topology=MACHINE, size="3MB", **requested)


def test_a_protocol_that_the_machine_does_not_tell_is_refused():
    only_ll = replace(EXECUTOR, protocols={"LL": EXECUTOR.costs_of("LL")})
    machine: PhysicalTopology = replace(MACHINE, executor=only_ll)
    with pytest.raises(TopologyError, match="says nothing about the protocol Simple"):
        bounds(topology=machine, size="3MB", protocol="Simple")


@pytest.mark.parametrize("size", ["1KB", "1MB", "256MB"])
@pytest.mark.parametrize("target", ["msccl", "mscclpp"])
def test_defaults_of_a_gpu_prove_nothing_of_schedules_and_of_files_what_is_left_at_their_lower_end(
    size: str, target: str
):
    requested = {"topology": "dgx-a100", "nodes": 1, "size": size, "target": target}
    proven = bounds("allgather", protocol="Simple", **requested)
    links = bounds("allgather", executor=False, **requested)
    assert [each.value_us for each in proven] == [each.value_us for each in links]
    network, any_file = proven.problem.topology, proven.served.any_file
    origin = network.executor.origin
    assert any(origin.at(proven.problem.size_bytes) in note for note in proven.stated.notes)
    own = replace(network, executor=replace(network.executor, origin=None))
    untouched = any_file_bound(
        replace(proven.problem, topology=own), "Simple", proven.served.blocks, wires_bound(proven.problem)
    )
    low_us = untouched.value_us / (1 + origin.error(proven.problem.size_bytes))
    assert any_file.value_us == pytest.approx(max(low_us, links.any_chunks.value_us), rel=0.05)
    assert links.any_chunks.value_us <= any_file.value_us * (1 + 1e-9)
    assert any_file.value_us <= untouched.value_us

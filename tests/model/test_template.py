"""One node's chunks with their images: expanded, they are the whole, and break the same rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import examples

from taccl import make_problem
from taccl.encoding.bounds import soonest
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.hierarchical import hierarchical, of_node_0
from taccl.encoding.instance import Instance
from taccl.errors import CollectiveError, ScheduleError
from taccl.model.collectives import EQUAL_PARTS, first_parts, make_collective
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.template import Template
from taccl.sketch.one_node import equal_nodes
from taccl.support.budget import Budget
from taccl.synthesis.search import search
from taccl.topologies import PhysicalTopology
from taccl.topologies.yaml_file import parse_topology

CHUNK_MB = 0.5


def machine(nodes: int, gpus: int, nics: int, alpha_us: float, gbps: float) -> PhysicalTopology:
    """Equal nodes of GPUs that are all linked; GPU g has NIC g, or all share one."""
    inside = [f"{a}-{b}" for a in range(gpus) for b in range(a)]
    doors = [f"{gpu}-nic{gpu % nics}" for gpu in range(gpus)]
    return parse_topology(
        f"name: napkin\nnodes: {nodes}\nnode:\n  gpus: {gpus}\n  nics: {nics}\n  links:\n"
        f"    - {{pairs: [{', '.join(inside)}], alpha_us: 0.5, bandwidth_gbps: 40}}\n"
        f"    - {{pairs: [{', '.join(doors)}], alpha_us: 0.25, bandwidth_gbps: 25}}\n"
        f"fabric: {{alpha_us: {alpha_us}, bandwidth_gbps: {gbps}}}\n"
    )


def planned(of: PhysicalTopology, name: str, pieces: int = 1, together: int = 1) -> Template:
    cluster = equal_nodes(of)
    network, images = cluster.network(together), cluster.nodes // together
    chunks = first_parts(name, network.num_ranks, pieces, cluster.gpus * together)
    *_, update = of_node_0(Problem(network, chunks, CHUNK_MB), images, Budget.of_work(200))
    assert update.schedule is not None
    return Template(name, update.schedule, images)


def whole_problem(of: PhysicalTopology, template: Template) -> Problem:
    pieces = template.part.problem.collective.chunks_per_rank
    problem = make_problem(template.collective, topology=of, size="64MB", chunks=pieces).problem
    return replace(problem, chunk_mb=CHUNK_MB)


def with_links_of(template: Template, problem: Problem) -> Problem:
    """The problem with the links that the template knows, of which its bound is."""
    topology, gpus = problem.topology, template.gpus
    known = np.flatnonzero(~topology.internode | (topology.src % gpus == topology.dst % gpus)).tolist()
    columns = {name: getattr(topology, name)[known] for name in ("src", "dst", "alpha_us", "beta_us_per_mb")}
    betas = topology.port_betas and tuple(topology.port_betas[link] for link in known)
    ports = tuple(topology.ports[link] for link in known)
    return replace(problem, topology=replace(topology, **columns, ports=ports, port_betas=betas))


def rows(chunk: object, src: object, dst: object, start_us: object) -> set[tuple[object, ...]]:
    return set(zip(*(np.asarray(each).tolist() for each in (chunk, src, dst, start_us)), strict=True))


def is_valid(schedule: Schedule | Template) -> bool:
    try:
        schedule.check()
    except ScheduleError:
        return False
    return True


MACHINES = st.builds(
    machine,
    nodes=st.integers(2, 6),
    gpus=st.integers(2, 4),
    nics=st.just(1),
    alpha_us=st.sampled_from([0.0, 1.0, 3.5]),
    gbps=st.sampled_from([10.0, 25.0, 60.0]),
) | st.integers(2, 4).flatmap(
    lambda gpus: st.builds(
        machine,
        nodes=st.integers(2, 6),
        gpus=st.just(gpus),
        nics=st.just(gpus),
        alpha_us=st.sampled_from([0.0, 1.0, 3.5]),
        gbps=st.sampled_from([10.0, 25.0, 60.0]),
    )
)


@pytest.mark.parametrize("name", EQUAL_PARTS)
@pytest.mark.parametrize("pieces", [1, 2])
def test_four_nodes_of_two_gpus_expand_to_what_the_engine_makes_of_the_whole(name: str, pieces: int) -> None:
    of = machine(4, 2, 2, 1.0, 25.0)
    template = planned(of, name, pieces)
    template.check()
    problem = whole_problem(of, template)
    whole = template.whole(problem)
    whole.check()
    *_, update = hierarchical(Instance(problem), SearchOptions(), Budget.of_work(200), None)
    assert update.schedule is not None
    assert whole.makespan_us == update.schedule.makespan_us == template.makespan_us
    assert template.num_transfers == len(whole) == len(update.schedule)


@settings(max_examples=examples(10), deadline=None)
@given(MACHINES, st.sampled_from(EQUAL_PARTS), st.integers(1, 2))
def test_images_are_a_valid_whole_with_the_same_bound(of: PhysicalTopology, name: str, pieces: int) -> None:
    nodes, whole_gpus = of.num_nodes, equal_nodes(of).links_all
    together = max(
        many for many in (1, 2, 3) if nodes % many == 0 and nodes > many and (many == 1 or whole_gpus)
    )
    template = planned(of, name, pieces, together)
    template.check()
    problem = whole_problem(of, template)
    whole = template.whole(problem)
    whole.check()
    bound_us = max(proof.value_us for proof in soonest(Instance(template.part.problem)))
    fastest = search(with_links_of(template, problem), SearchOptions(effort=40)).schedule
    assert 0 < bound_us <= fastest.makespan_us * (1 + 1e-9)
    # Rank by rank it is the whole, both ends of each transfer seen once.
    sent, received = set(), set()
    for each in template.ranks():
        assert np.isin(each.rank, np.stack([each.src, each.dst])).all()
        assert (np.diff(each.start_us) >= 0).all()
        columns = np.stack([each.chunk, each.src, each.dst, each.group])
        for ends, seen in ((each.src, sent), (each.dst, received)):
            mine = rows(*columns[:3, ends == each.rank], each.start_us[ends == each.rank])
            assert not mine & seen
            seen.update(mine)
    assert sent == received == rows(whole.chunk, whole.src, whole.dst, whole.start_us)


@settings(max_examples=examples(25), deadline=None)
@given(MACHINES, st.sampled_from(EQUAL_PARTS), st.data())
def test_a_template_breaks_a_rule_where_its_images_do(
    of: PhysicalTopology, name: str, data: st.DataObject
) -> None:
    together = 2 if of.num_nodes % 2 == 0 and of.num_nodes > 2 and equal_nodes(of).links_all else 1
    template = planned(of, name, together=together)
    part = template.part
    row = data.draw(st.integers(0, len(part) - 1))
    columns = {key: getattr(part, key).copy() for key in ("chunk", "link", "start_us", "end_us", "reduce")}
    change = data.draw(st.sampled_from(["chunk", "link", "time", "reduce", "drop"]))
    keep = np.ones(len(part), dtype=np.bool_)
    if change == "drop":
        keep[row] = False
    elif change == "reduce":
        columns["reduce"][row] ^= True
    elif change == "time":
        other = data.draw(st.integers(0, len(part) - 1))
        moved_us = part.start_us[other] - part.start_us[row]
        columns["start_us"][row] += moved_us
        columns["end_us"][row] += moved_us
    else:
        most = part.problem.num_chunks if change == "chunk" else part.problem.topology.num_links
        columns[change][row] = data.draw(st.integers(0, most - 1))
    kept = {key: column[keep] for key, column in columns.items()}
    mutant = Template(name, Schedule(part.problem, **kept, group=np.arange(int(keep.sum()))), template.images)
    assert is_valid(mutant) == is_valid(mutant.whole(whole_problem(of, mutant)))


def test_what_is_no_template_is_refused() -> None:
    of = machine(3, 2, 2, 1.0, 25.0)
    template = planned(of, "allgather")
    part = template.part
    with pytest.raises(ScheduleError, match="does not stand for all nodes") as refused:
        Template("allreduce", part, 3).check()
    assert "not those of the first 2 ranks" in refused.value.findings[0]
    topology = part.problem.topology
    for name, what in (("alpha_us", "cost something else"), ("beta_us_per_mb", "cost something else")):
        column = getattr(topology, name).copy()
        column[-1] *= 2
        unequal = replace(part.problem, topology=replace(topology, **{name: column}))
        with pytest.raises(ScheduleError) as refused:
            Template("allgather", replace(part, problem=unequal), 3).check()
        assert what in refused.value.findings[0]
    other = replace(part.problem, topology=replace(topology, ports=(*topology.ports[:-1], (0, 1))))
    with pytest.raises(ScheduleError) as refused:
        Template("allgather", replace(part, problem=other), 3).check()
    assert "other ports" in refused.value.findings[0]
    for rank in (-1, 6, "0"):
        with pytest.raises(CollectiveError, match="no rank"):
            template.of_rank(rank)


@pytest.mark.parametrize("name", EQUAL_PARTS)
def test_the_first_parts_are_those_of_the_whole(name: str) -> None:
    whole, part = make_collective(name, 6, 2), first_parts(name, 6, 2, 3)
    chosen = whole.only(np.arange(12) < 6, "part")
    for placement in ("inputs", "outputs"):
        one, other = getattr(chosen, placement), getattr(part, placement)
        assert rows(one.chunk, one.rank, one.offset, one.rank) == rows(
            other.chunk, other.rank, other.offset, other.rank
        )
    assert np.array_equal(chosen.owner, part.owner)
    assert np.array_equal(chosen.reduces, part.reduces)
    assert np.array_equal(chosen.in_place_shift, part.in_place_shift)
    assert (part.chunks_per_size, part.busbw_factor) == (whole.chunks_per_size, whole.busbw_factor)

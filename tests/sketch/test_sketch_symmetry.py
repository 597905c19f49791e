import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl.errors import SketchError
from taccl.model.collective import Collective
from taccl.model.collectives import make_collective
from taccl.sketch import Applied, Rotation, Sketch, apply_sketch, find_sketch, load_sketch, parse_sketch
from taccl.topologies import Device, Link, PhysicalTopology, build_topology


def applied(text: str, machine: PhysicalTopology, collective: Collective | None = None) -> Applied:
    demand = collective or make_collective("allgather", machine.num_ranks)
    return apply_sketch(parse_sketch(text), machine, demand, 1.0)


def broken(text: str, machine: PhysicalTopology) -> SketchError:
    with pytest.raises(SketchError) as caught:
        applied(text, machine)
    return caught.value


NONE = "intranode: {strategy: none}\n"


def test_words_and_numbers_mean_the_same_permutation() -> None:
    machine = build_topology("dgx2", nodes=2)
    for words, numbers in (
        ("{rotate: 2, within: node}", "[2, 16]"),
        ("{rotate: node, within: machine}", "[16, 32]"),
    ):
        (a,) = applied(f"{NONE}symmetry: [{words}]", machine).problem.symmetry
        (b,) = applied(f"{NONE}symmetry: [{numbers}]", machine).problem.symmetry
        assert (a == b).all()


def test_a_rotation_moves_each_rank_inside_its_group() -> None:
    (ranks,) = applied(f"{NONE}symmetry: [[1, 4]]", build_topology("full:4")).problem.symmetry
    assert list(ranks) == [1, 2, 3, 0]
    (ranks,) = applied(f"{NONE}symmetry: [[1, 2]]", build_topology("full:4")).problem.symmetry
    assert list(ranks) == [1, 0, 3, 2]


@given(nodes=st.sampled_from([2, 3, 4]), offset=st.sampled_from([2, 4, 6, 8, 10]))
@settings(max_examples=10, deadline=None)
def test_every_symmetry_kept_is_a_permutation_that_leaves_links_costs_and_ports(
    nodes: int, offset: int
) -> None:
    sketch = load_sketch(find_sketch("dgx2-sk-1"))
    machine = build_topology("dgx2", nodes=nodes)
    design = Sketch(
        "drawn",
        intranode=sketch.intranode,
        internode=sketch.internode,
        symmetry=(Rotation(offset, "node"), Rotation("node", "machine")),
    )
    problem = apply_sketch(design, machine, make_collective("allgather", machine.num_ranks), 1.0).problem
    network = problem.topology
    shared = {frozenset(links) for links in network.port_links}
    assert len(problem.symmetry) == 2
    for ranks in problem.symmetry:
        assert sorted(ranks) == list(range(machine.num_ranks))
        image = np.array(
            [
                network.link_index[int(ranks[s]), int(ranks[d])]
                for s, d in zip(network.src, network.dst, strict=True)
            ]
        )
        assert (network.beta_us_per_mb[image] == network.beta_us_per_mb).all()
        assert {frozenset(int(image[link]) for link in links) for links in shared} == shared


def test_a_rotation_that_moves_nothing_is_left_out() -> None:
    outcome = applied(f"{NONE}symmetry: [[node, machine], [4, 4]]", build_topology("full:4"))
    assert outcome.problem.symmetry == ()
    assert outcome.notes == ()


def test_an_offset_that_is_no_symmetry_names_the_first_link_that_breaks_it() -> None:
    fault = broken(f"{NONE}symmetry:\n  - [1, node]\n", build_topology("ndv2", nodes=1))
    assert fault.message.startswith("[1, node] is no symmetry of this network: ")
    assert "link 0 -> 3 goes to 1 -> 4, which is no link" in fault.message
    assert fault.line == 3


def test_a_link_that_goes_to_no_link_breaks_a_symmetry() -> None:
    fault = broken(f"{NONE}symmetry: [[1, node]]", build_topology("mesh:4x1"))
    assert "link 2 -> 3 goes to 3 -> 0, which is no link" in fault.message


def two_pairs(betas: tuple[float, float, float, float]) -> PhysicalTopology:
    """GPUs 0 .. 3; links 0 <-> 1 and 2 <-> 3, 0 <-> 2, and 1 <-> 3 of the given betas."""
    ends = ((0, 1), (2, 3), (0, 2), (1, 3))
    links = [
        Link(f"gpu{a}", f"gpu{b}", 1.0, beta)
        for (x, y), beta in zip(ends, betas, strict=True)
        for a, b in ((x, y), (y, x))
    ]
    return PhysicalTopology("pairs", tuple(Device(f"gpu{i}", "gpu", 0, i) for i in range(4)), tuple(links))


def test_links_of_unequal_cost_break_a_symmetry() -> None:
    machine = two_pairs((1.0, 2.0, 3.0, 3.0))
    fault = broken(f"{NONE}symmetry: [[2, 4]]", machine)
    assert "link 0 -> 1 has beta 1 us/MB, but 2 -> 3, where it goes, has 2 us/MB" in fault.message
    assert len(applied(f"{NONE}symmetry: [[1, 2]]", machine).problem.symmetry) == 1


def test_links_that_share_a_port_must_go_to_links_that_share_one() -> None:
    """GPUs 0 and 1 send to 2 and 3 through one bridge; 2 and 3 send back through one bridge each."""
    names = ["gpu0", "gpu1", "gpu2", "gpu3"]
    devices = [Device(name, "gpu", 0, i) for i, name in enumerate(names)]
    devices += [Device(name, "pcie", 0, i) for i, name in enumerate(("a", "b", "c", "d"))]
    links = [Link(gpu, "a", 0.0, 1.0) for gpu in ("gpu0", "gpu1")] + [Link("a", "b", 0.0, 1.0)]
    links += [Link("b", gpu, 0.0, 1.0) for gpu in ("gpu2", "gpu3")]
    for gpu, bridge in (("gpu2", "c"), ("gpu3", "d")):
        links += [Link(gpu, bridge, 0.0, 1.0), Link(bridge, "gpu0", 0.0, 1.0), Link(bridge, "gpu1", 0.0, 1.0)]
    machine = PhysicalTopology("bridges", tuple(devices), tuple(links))
    assert "shares port 'a -> b' with 3 others" in broken(f"{NONE}symmetry: [[2, 4]]", machine).message


def test_a_rotation_across_nodes_breaks_the_node_structure() -> None:
    fault = broken(f"{NONE}symmetry: [[1, machine]]", build_topology("dgx2", nodes=2))
    assert "ranks 0 and 15 share a node, but ranks 1 and 16, where they go, do not" in fault.message


def test_limits_must_be_alike_too() -> None:
    fault = broken(
        f"{NONE}internode: {{strategy: fully-connected, sender_for: {{0: [0]}}}}\nsymmetry: [[2, node]]",
        build_topology("dgx2", nodes=2),
    )
    assert "is treated unlike" in fault.message
    assert "for the chunks of ranks 0 and 2" in fault.message


def test_switch_policies_must_be_alike_too() -> None:
    fault = broken(
        "intranode: {strategy: switch, switches: [{gpus: all}, {gpus: [0, 1], policy: uc-min}]}\n"
        "symmetry: [[2, 4]]",
        build_topology("switch:4"),
    )
    assert "link 0 -> 1 is treated unlike 2 -> 3 in its switch policy" in fault.message


def test_groups_that_do_not_divide_the_ranks_are_an_error_that_offers_words() -> None:
    fault = broken(f"{NONE}symmetry:\n  - [16, 32]\n", build_topology("dgx2", nodes=1))
    assert "do not divide the 16 ranks" in fault.message
    assert fault.line == 3
    assert "`machine`" in (fault.hint or "")


@pytest.mark.parametrize("name", ["broadcast", "reduce", "gather", "scatter"])
def test_a_symmetry_that_a_root_breaks_is_dropped_with_a_note(name: str) -> None:
    outcome = applied(f"{NONE}symmetry: [[1, node]]", build_topology("full:4"), make_collective(name, 4))
    assert outcome.problem.symmetry == ()
    assert outcome.notes == (f"symmetry [1, node] is not used: it would change the {name}",)


@pytest.mark.parametrize("name", ["allgather", "reducescatter", "allreduce", "alltoall"])
def test_collectives_without_a_root_keep_the_symmetries(name: str) -> None:
    outcome = applied(f"{NONE}symmetry: [[1, node]]", build_topology("full:4"), make_collective(name, 4, 2))
    assert len(outcome.problem.symmetry) == 1
    assert outcome.notes == ()


def test_a_sketch_made_in_code_may_not_name_a_group_of_nothing() -> None:
    sketch = Sketch("empty", symmetry=(Rotation(1, 0),))
    with pytest.raises(SketchError, match="groups of 0 ranks"):
        apply_sketch(sketch, build_topology("full:4"), make_collective("allgather", 4), 1.0)

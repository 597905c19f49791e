"""Orders of hosts, held against every order of machines whose files were renumbered by hand."""

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taccl.analysis.ordering.automorphisms import are_first, automorphisms
from taccl.analysis.ordering.bound import plan_bound
from taccl.analysis.ordering.exact import bounds_us, different_orders
from taccl.analysis.ordering.hostfile import FORMATS, host_names, hosts_text
from taccl.analysis.ordering.ordered import best_order
from taccl.analysis.ordering.plans import traffic_for
from taccl.analysis.ordering.renamed import renamed
from taccl.analysis.ordering.tours import Ring, least_bottleneck
from taccl.analysis.ordering.traffic import Traffic
from taccl.backend.targets.registry import unfold_file
from taccl.errors import FileError, TacclError
from taccl.synthesis.request import Request

NODE = "{gpus: 1, nics: 1, links: [{from: gpus, to: nics, alpha_us: 0, bandwidth_gbps: 5}]}"


def machine(folder: Path, costs: np.ndarray) -> Path:
    """A machine of hosts with costs for each pair: `costs[0]` alphas, `costs[1]` bandwidths."""
    hosts = costs.shape[1]
    rows = [
        f"{a},{b},{costs[0, a, b]},{costs[1, a, b]}" for a in range(hosts) for b in range(hosts) if a != b
    ]
    (folder / "costs.csv").write_text("\n".join(["from,to,alpha_us,bandwidth_gbps", *rows]))
    path = folder / "cloud.yaml"
    path.write_text(f"name: cloud\nnodes: {hosts}\nnode: {NODE}\nfabric: costs.csv\n")
    return path


def random_costs(hosts: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.stack([random.uniform(5, 50, (hosts, hosts)), random.uniform(0.5, 3, (hosts, hosts))]).round(3)


def traffic(path: Path, plan: str, collective: str = "allreduce", size: str = "4MB") -> Traffic:
    return traffic_for(plan, Request(collective, topology=path, size=size, chunks=1, executor=False))


@pytest.mark.parametrize(
    ("plan", "collective", "hosts"),
    [("ring", "allreduce", 5), ("tree", "allreduce", 4), ("ring", "allgather", 4), ("tree", "broadcast", 4)],
)
def test_the_order_is_the_fastest_of_all_machines_renumbered(
    tmp_path: Path, plan: str, collective: str, hosts: int
) -> None:
    costs = random_costs(hosts, seed=hosts)
    found = best_order(plan, collective, size="4MB", topology=machine(tmp_path, costs), effort=100_000)
    assert found.found.is_exact
    times = {}
    for order in permutations(range(hosts)):
        renumbered = traffic(machine(tmp_path, costs[:, order][:, :, order]), plan, collective)
        times[order] = renumbered.time_us(renumbered.own_order)
    assert found.time_us == pytest.approx(min(times.values()))
    assert times[found.found.order] == pytest.approx(found.time_us)
    assert found.before_us == pytest.approx(times[tuple(range(hosts))])
    assert found.bound_us == found.time_us


@pytest.mark.parametrize(("plan", "collective"), [("ring", "allreduce"), ("ring", "allgather")])
def test_an_automorphism_of_the_plan_changes_no_time(tmp_path: Path, plan: str, collective: str) -> None:
    known = traffic(machine(tmp_path, random_costs(5, seed=9)), plan, collective)
    same = automorphisms(known)
    assert len(same) == 5 and same[0] == known.own_order
    orders = np.concatenate(list(different_orders(known)))
    assert len(orders) == 24
    for order in orders[:6]:
        times = {known.time_us(tuple(order[list(places)].tolist())) for places in same}
        assert max(times) == pytest.approx(min(times))
        assert bounds_us(known, order[None])[0] <= min(times) * (1 + 1e-9)


def test_equal_hosts_and_automorphisms_leave_one_order_of_all_that_do_the_same() -> None:
    every = np.array(list(permutations(range(5))))
    turns = [tuple(np.roll(range(5), turn).tolist()) for turn in range(5)]
    equal = [[0, 3], [1, 2, 4]]
    word = np.array(["a", "b", "b", "a", "b"])
    necklaces = {min("".join(word[order[list(turn)]]) for turn in turns) for order in every}
    assert are_first(every, turns, equal).sum() == len(necklaces)
    assert are_first(every, turns, [[host] for host in range(5)]).sum() == 24


@pytest.mark.parametrize("seed", range(12))
def test_no_order_is_below_the_bound_of_its_plan(tmp_path: Path, seed: int) -> None:
    known = traffic(machine(tmp_path, random_costs(5, seed)), ("ring", "tree")[seed % 2])
    least_us = min(known.time_us(order) for order in permutations(range(5)))
    assert 0 < plan_bound(known).value_us <= least_us * (1 + 1e-9)


def test_a_hidden_ring_is_found_and_proved(tmp_path: Path) -> None:
    hosts, random = 14, np.random.default_rng(3)
    place = random.permutation(hosts)
    apart = np.abs(place[:, None] - place[None, :])
    apart = np.minimum(apart, hosts - apart)
    slower = np.where(apart > 1, 1 + 0.3 * apart * random.uniform(1, 1.1, apart.shape), 1.0)
    path = machine(tmp_path, np.stack([10 * slower, 3 / slower]).round(4))
    found = best_order("ring", size="4MB", topology=path, effort=1_000)
    assert found.time_us == pytest.approx(found.bound_us, rel=1e-3)
    assert found.before_us > 1.5 * found.time_us
    assert sorted(found.ranks) == list(range(hosts))


def test_racks_are_walked_one_after_another(tmp_path: Path) -> None:
    path = tmp_path / "racks.yaml"
    path.write_text(
        f"name: racks\nnodes: 12\nnode: {NODE}\nfabric:\n  alpha_us: 1\n  bandwidth_gbps: 5\n  levels:\n"
        "    - {name: rack, groups: [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]], oversubscription: 4}\n"
        "    - {name: spine}\n"
    )
    found = best_order("ring", size="12MB", topology=path, effort=300)
    racks = [host % 3 for host in found.found.order]
    assert sum(a != b for a, b in zip(racks, racks[1:] + racks[:1], strict=True)) == 3
    assert found.bound_us <= found.time_us * (1 + 1e-9) <= found.before_us / 2


def test_hosts_of_several_gpus_move_as_one_and_those_of_one_node_apart(tmp_path: Path) -> None:
    found = best_order("ring", size="4MB", topology="dgx2", nodes=2, effort=200)
    assert found.found.is_exact
    assert sorted(found.ranks) == list(range(32))
    alone = best_order("ring", "allgather", size="4MB", topology="ndv2", nodes=1, effort=2_000)
    assert alone.orders_gpus
    assert alone.before_us == float("inf")  # GPUs 0 and 1 of the ring's ends have no link
    with pytest.raises(TacclError, match="cannot order the GPUs"):
        alone.text()


def test_a_file_is_ordered_as_the_plan_that_it_came_of(tmp_path: Path) -> None:
    from taccl import synthesize

    path = machine(tmp_path, random_costs(4, 1))
    made = synthesize("allgather", topology=path, size="4MB", chunks=1, effort=200, executor=False)
    made.write(tmp_path / "plan.xml")
    made.write_schedule(tmp_path / "plan.json")
    times = [
        best_order(tmp_path / name, "allgather", size="4MB", topology=path, effort=20_000)
        for name in ("plan.xml", "plan.json")
    ]
    assert times[1].before_us == pytest.approx(made.time_us, rel=1e-6)
    assert times[0].before_us == pytest.approx(made.time_us, rel=0.05)
    assert all(each.time_us <= each.before_us for each in times)


def test_files_for_launchers_have_every_rank_once(tmp_path: Path) -> None:
    names = ("b", "a")
    texts = {format: hosts_text(names, 2, format) for format in FORMATS}
    assert texts["hostfile"] == "b slots=2\na slots=2\n"
    assert texts["slurm"] == "b\nb\na\na\n"
    assert texts["rankfile"].splitlines()[2] == "rank 2=a slot=0"
    (tmp_path / "hosts").write_text(texts["hostfile"])
    assert host_names(tmp_path / "hosts", 2) == names


@pytest.mark.parametrize(
    ("text", "said"),
    [("a\nb\n", "names 2 hosts"), ("a\na\nb\n", "already on line 1"), ("a\n!\nb\n", "no name of a host")],
)
def test_wrong_lists_of_hosts_are_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "hosts").write_text(text)
    with pytest.raises(FileError, match=said):
        host_names(tmp_path / "hosts", 3)


@pytest.mark.parametrize(
    ("plan", "said"), [("spiral", "no plan"), ("missing.xml", "missing.xml"), ("", "no plan")]
)
def test_what_is_no_plan_is_refused(plan: str, said: str) -> None:
    with pytest.raises(TacclError, match=said):
        best_order(plan, size="1MB", topology="ring:4", effort=10)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"seed": -1}, "seed must be"),
        ({"chunks": 0}, "one chunk"),
        ({"hosts": ("a", "b", "c", "d", "d")}, "5 hosts are named"),
        ({"hosts": ("a", "b", "c", "c")}, "two hosts have one name"),
        ({"topology": "dgx-h100", "nodes": 1}, "has helpers"),
    ],
)
def test_wrong_numbers_and_names_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(TacclError, match=said):
        best_order(**{"size": "1MB", "topology": "ring:4", "effort": 10, **wrong})


@pytest.mark.parametrize("collective", ["allreduce", "allgather", "reducescatter"])
@pytest.mark.parametrize("hosts", [3, 5])
def test_the_tour_with_the_fastest_slowest_hop_is_found_and_bounds_every_order(
    tmp_path: Path, collective: str, hosts: int
) -> None:
    """An AllReduce sums one way round and gathers the other, so both directions of a hop count."""
    moved = traffic(machine(tmp_path, random_costs(hosts, seed=7)), "ring", collective)
    ring = Ring.of(moved)
    assert ring is not None
    found = least_bottleneck(ring, 60.0)
    assert found is not None
    slowest = {
        order: max(ring.busy_us[a, b] for a, b in zip(order, (*order[1:], order[0]), strict=True))
        for order in permutations(range(hosts))
    }
    assert found.bound_us == pytest.approx(min(slowest.values()), rel=1e-5)
    assert slowest[tuple(found.hosts)] == pytest.approx(min(slowest.values()), rel=1e-5)
    assert found.bound_us <= min(moved.time_us(order) for order in slowest) * (1 + 1e-9)


def test_a_tree_is_no_ring(tmp_path: Path) -> None:
    assert Ring.of(traffic(machine(tmp_path, random_costs(4, seed=1)), "tree")) is None


@pytest.mark.parametrize("collective", ["allreduce", "allgather", "reducescatter", "alltoall"])
def test_a_renamed_plan_takes_what_its_order_takes(tmp_path: Path, collective: str) -> None:
    known = traffic(machine(tmp_path, random_costs(6, seed=2)), "ring", collective, size="6MB")
    for order in ((0, 1, 2, 3, 4, 5), (3, 1, 4, 0, 5, 2)):
        found = renamed(known, order)  # checked: it is the collective, of the machine's own ranks
        assert found.makespan_us == pytest.approx(known.time_us(order))
        assert found.problem.topology is known.problem.topology


def test_files_of_renamed_plans_are_verified(tmp_path: Path) -> None:
    path = machine(tmp_path, random_costs(4, seed=2))
    found = best_order("tree", size="4MB", topology=path, effort=500)
    (file,) = found.files("json")
    assert unfold_file(tmp_path / "plan.json", file.text.encode(), "tested").num_ranks == 4
    with pytest.raises(TacclError, match="another collective"):
        renamed(traffic(path, "tree", "broadcast"), (1, 0, 2, 3))
    (tmp_path / "plan.xml").write_text(found.files()[0].text)
    as_file = best_order(tmp_path / "plan.xml", size="4MB", topology=path, effort=500)
    assert as_file.found.is_exact and as_file.time_us == pytest.approx(found.time_us, rel=0.05)
    with pytest.raises(TacclError, match="cannot be renamed"):
        as_file.files()

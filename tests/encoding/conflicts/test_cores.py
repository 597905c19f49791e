"""Minimal cores against brute force: which rules leave no way, and which contradict a symmetry."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import examples

from taccl.encoding.conflicts.broken_symmetry import rules_breaking
from taccl.encoding.conflicts.core import Core, minimal_core
from taccl.encoding.conflicts.reach import no_way
from taccl.model.network import LogicalTopology
from taccl.model.problem import Rule, Statement
from taccl.support.budget import Budget

ENOUGH = Budget(1e9)  # seconds


def network(
    ranks: int, links: Sequence[tuple[int, int]], beta: Sequence[float] | None = None
) -> LogicalTopology:
    return LogicalTopology(
        name="drawn",
        node_of=np.zeros(ranks, dtype=np.int64),
        src=np.array([a for a, _ in links], dtype=np.int64),
        dst=np.array([b for _, b in links], dtype=np.int64),
        alpha_us=np.ones(len(links)),
        beta_us_per_mb=np.ones(len(links)) if beta is None else np.array(beta, dtype=np.float64),
        ports=tuple((link,) for link in range(len(links))),
        port_names=tuple(f"{a}-{b}" for a, b in links),
    )


def rule(name: str, owners: Sequence[bool], scope: Sequence[bool], allows: Sequence[bool]) -> Rule:
    inside = np.array(scope, dtype=np.bool_)
    return Rule(
        Statement(name), np.array(owners, dtype=np.bool_), inside, inside & np.array(allows, dtype=np.bool_)
    )


def random_case(seed: int) -> tuple[LogicalTopology, list[Rule]]:
    """Up to five ranks, some links, up to five rules of which each forbids some links to some owners."""
    dice = random.Random(seed)
    ranks = dice.randint(2, 5)
    links = [(a, b) for a in range(ranks) for b in range(ranks) if a != b and dice.random() < 0.7]
    links = links or [(0, 1)]
    rules = [
        rule(
            f"rule {number}",
            [dice.random() < 0.9 for _ in range(ranks)],
            [dice.random() < 0.6 for _ in links],
            [dice.random() < 0.4 for _ in links],
        )
        for number in range(dice.randint(0, 5))
    ]
    return network(ranks, links), rules


def links_on_the_way(
    topology: LogicalTopology, rules: Sequence[Rule], owner: int, src: int, dst: int
) -> float:
    """By searching from rank to rank; infinite where there is no way."""
    open_links = [
        (int(a), int(b))
        for link, (a, b) in enumerate(zip(topology.src, topology.dst, strict=True))
        if not any(each.owners[owner] and each.forbids[link] for each in rules)
    ]
    reached, hops = {src}, 0
    while dst not in reached:
        new = {b for a, b in open_links if a in reached} - reached
        if not new:
            return float("inf")
        reached, hops = reached | new, hops + 1
    return hops


@given(seed=st.integers(0, 10**6), max_hops=st.none() | st.integers(1, 4))
@settings(max_examples=examples(67), deadline=None)
def test_a_core_leaves_no_way_and_without_any_one_of_it_there_is_one(seed: int, max_hops: int | None) -> None:
    topology, rules = random_case(seed)
    dice = random.Random(seed + 1)
    owner, src, dst = (dice.randrange(topology.num_ranks) for _ in range(3))
    limit = topology.num_ranks if max_hops is None else max_hops
    core = no_way(topology, rules, owner, (src,), dst, ENOUGH, max_hops)
    assert (core is None) == (links_on_the_way(topology, rules, owner, src, dst) <= limit)
    if core is not None:
        members = [rules[number] for number in core.members]
        assert core.is_minimal
        assert links_on_the_way(topology, members, owner, src, dst) > limit
        for left_out in members:
            others = [each for each in members if each is not left_out]
            assert links_on_the_way(topology, others, owner, src, dst) <= limit


def test_a_way_from_any_source_will_do() -> None:
    topology = network(4, [(0, 1), (2, 3)])
    no_links = rule("none from 0", [True] * 4, [True, False], [False, False])
    assert no_way(topology, [no_links], 0, (0, 2), 3, ENOUGH) is None
    assert no_way(topology, [no_links], 0, (0, 2), 1, ENOUGH) == Core((0,), True)


def test_where_no_rule_is_to_blame_the_core_is_empty() -> None:
    assert no_way(network(3, [(0, 1)]), [], 0, (0,), 2, ENOUGH) == Core((), True)


def test_a_rule_about_other_owners_is_never_to_blame() -> None:
    topology = network(2, [(0, 1)])
    closed = [rule("for 0", [True, False], [True], [False]), rule("for 1", [False, True], [True], [False])]
    assert no_way(topology, closed, 1, (0,), 1, ENOUGH) == Core((1,), True)


def test_a_long_chain_of_ranks_is_no_burden() -> None:
    ranks = 60
    topology = network(ranks, [(a, a + 1) for a in range(ranks - 1)])
    cuts = [
        rule(str(a), [True] * ranks, [link == a for link in range(ranks - 1)], [False] * (ranks - 1))
        for a in range(59)
    ]
    core = no_way(topology, cuts, 0, (0,), ranks - 1, ENOUGH)
    assert core is not None and core.is_minimal and len(core.members) == 1


def test_without_time_nothing_is_called_minimal() -> None:
    topology = network(2, [(0, 1)])
    closed = rule("closed", [True, True], [True], [False])
    assert no_way(topology, [closed], 0, (0,), 1, Budget(0.0)) == Core((0,), is_minimal=False)


def test_a_core_of_statements_that_can_all_hold_is_none() -> None:
    one, other = z3.Bools("one other")
    solver = z3.SolverFor("QF_FD")
    assert minimal_core(solver, [one, other], ENOUGH) is None
    solver.add(z3.Not(z3.And(one, other)))
    assert minimal_core(solver, [one, z3.Bool("third"), other], ENOUGH) == Core((0, 2), True)


def all_may(topology: LogicalTopology, rules: Sequence[Rule]) -> set[tuple[int, int]]:
    """(owner, link) of everything that the rules leave."""
    return {
        (owner, link)
        for owner in range(topology.num_ranks)
        for link in range(topology.num_links)
        if not any(each.owners[owner] and each.forbids[link] for each in rules)
    }


def images(topology: LogicalTopology, ranks: Sequence[int]) -> list[int | None]:
    """Where a permutation of the ranks takes each link; None where that is no link."""
    ends = zip(topology.src.tolist(), topology.dst.tolist(), strict=True)
    return [topology.link_index.get((ranks[a], ranks[b])) for a, b in ends]


def is_contradiction(
    topology: LogicalTopology, rules: Sequence[Rule], some: Sequence[int], ranks: Sequence[int]
) -> bool:
    """Whether some of the rules need a pair (owner, link) whose image, again and again, cannot be.

    A pair is needed that all rules about it allow, if they are all among `some`. Owner -1 stands for links
    that are there for whatever owner, which only rules about all owners decide.
    """
    image, turn = images(topology, ranks), {-1: -1, **dict(enumerate(ranks))}
    now = set()
    for owner in turn:
        for link in range(topology.num_links):
            about = [n for n, each in enumerate(rules) if is_about(each, owner) and each.scope[link]]
            if all(n in some and rules[n].allows[link] for n in about):
                now.add((owner, link))
    met = set(now)
    while now:
        if any(image[link] is None for _, link in now):
            return True
        now = {(turn[owner], moved) for owner, link in now if (moved := image[link]) is not None} - met
        met |= now
    return any(is_about(rules[n], owner) and rules[n].forbids[link] for owner, link in met for n in some)


def is_about(each: Rule, owner: int) -> bool:
    return bool(each.owners.all() if owner < 0 else each.owners[owner])


@given(seed=st.integers(0, 10**6))
@settings(max_examples=examples(67), deadline=None)
def test_a_core_contradicts_a_symmetry_and_without_any_one_of_it_does_not(seed: int) -> None:
    dice = random.Random(seed)
    ranks = dice.randint(2, 4)
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    missing = dice.choice([None, *pairs])
    topology = network(ranks, [pair for pair in pairs if pair != missing or ranks == 2])
    rules = []
    for number in range(dice.randint(0, 4)):
        owners = [dice.random() < 0.6 for _ in range(ranks)] if dice.random() < 0.5 else [True] * ranks
        scope = [dice.random() < 0.6 for _ in range(topology.num_links)]
        rules.append(rule(f"rule {number}", owners, scope, [dice.random() < 0.6 for _ in scope]))
    turn = [(rank + 1) % ranks for rank in range(ranks)]
    core = rules_breaking(topology, rules, np.array(turn), ENOUGH)
    assert (core is not None) == is_contradiction(topology, rules, range(len(rules)), turn)
    if core is None:
        may, image = all_may(topology, rules), images(topology, turn)
        assert {(turn[owner], image[link]) for owner, link in may} == may
        return
    assert core.is_minimal
    assert is_contradiction(topology, rules, core.members, turn)
    for left_out in core.members:
        others = [number for number in core.members if number != left_out]
        assert not is_contradiction(topology, rules, others, turn)


def test_a_link_without_an_image_is_the_machines_doing() -> None:
    topology = network(3, [(0, 1), (1, 2)])
    assert rules_breaking(topology, [], np.array([1, 2, 0]), ENOUGH) == Core((), True)


def test_links_of_unequal_cost_are_no_images_of_each_other() -> None:
    topology = network(2, [(0, 1), (1, 0)], beta=[1.0, 2.0])
    assert rules_breaking(topology, [], np.array([1, 0]), ENOUGH) == Core((), True)
    closed = rule("closed", [True, True], [True, True], [False, False])
    assert rules_breaking(topology, [closed], np.array([1, 0]), ENOUGH) is None


def test_a_rule_that_allows_and_one_that_forbids_the_image_are_both_named() -> None:
    topology = network(2, [(0, 1), (1, 0)])
    allows = rule("there", [True, True], [True, False], [True, False])
    forbids = rule("back", [True, True], [False, True], [False, False])
    assert rules_breaking(topology, [allows, forbids], np.array([1, 0]), ENOUGH) == Core((0, 1), True)


def test_a_rule_about_one_home_breaks_a_symmetry_that_moves_it() -> None:
    topology = network(2, [(0, 1), (1, 0)])
    only = rule("not for 0", [True, False], [True, True], [False, True])
    assert rules_breaking(topology, [only], np.array([1, 0]), ENOUGH) == Core((0,), True)


def test_without_time_a_contradiction_is_not_called_minimal() -> None:
    topology = network(2, [(0, 1), (1, 0)])
    closed = rule("closed", [True, True], [True, False], [False, False])
    assert rules_breaking(topology, [closed], np.array([1, 0]), Budget(0.0)) == Core((0,), is_minimal=False)


@pytest.mark.parametrize("answer", ["keyboard interrupt", "interrupted from keyboard"])
def test_ctrl_c_in_the_solver_is_ctrl_c(answer: str) -> None:
    class Interrupted:
        def set(self, *_: object) -> None: ...

        def check(self, *_: object) -> z3.CheckSatResult:
            return z3.unknown

        def reason_unknown(self) -> str:
            return answer

    with pytest.raises(KeyboardInterrupt):
        minimal_core(Interrupted(), [], ENOUGH)

"""Bounds as values: their order, what they know, their pages, and one that is added from outside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from bounds_table import PAGE, table, table_of, with_table
from small_problems import full, machine, ndv2_node, problem, ring, two_nodes

from taccl.api import make_problem
from taccl.encoding.bounds import (
    BOUNDS,
    Bound,
    Proof,
    View,
    all_bounds,
    declined,
    lower_bound,
    proofs,
    quick_bound,
)
from taccl.encoding.bounds.cut import CUT
from taccl.encoding.bounds.latency import arrival_bound
from taccl.encoding.instance import Instance
from taccl.model.collectives import COLLECTIVES, alltoall
from taccl.model.problem import Problem
from taccl.support.budget import Budget

#: More work than the proofs of these problems take.
_PLENTY = 1_000_000


def _by_hand(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    yield BY_HAND.proof(1e6 if known_us else 0.0, "somebody said so")


BY_HAND = Bound("by-hand", "an example", "another example", _by_hand, frozenset({"reductions"}))


def _best(stream: Iterator[Proof]) -> dict[str, float]:
    best: dict[str, float] = {}
    for proof in stream:
        best[proof.kind] = max(best.get(proof.kind, 0.0), proof.value_us)
    return best


def test_the_page_has_the_table_of_all_bounds() -> None:
    in_page = table_of(PAGE.read_text(encoding="utf-8"))
    assert in_page == table(), "the registry has changed: python tests/bounds_table.py writes the new table"


def test_writing_the_table_into_the_page_changes_nothing_else() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page) == page


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.name)
def test_every_bound_is_on_a_page_of_its_family(bound: Bound) -> None:
    pages = [page.read_text(encoding="utf-8") for page in (PAGE.parent / "bounds").glob("*.md")]
    assert any(f"`{bound.name}`" in page for page in pages)


def test_names_are_different_and_every_bound_has_a_remedy() -> None:
    assert len({bound.name for bound in BOUNDS}) == len(BOUNDS)
    assert all(bound.remedy and bound.about for bound in BOUNDS)


def test_quick_bounds_come_first() -> None:
    quick = [bound.is_quick for bound in BOUNDS]
    assert quick == sorted(quick, reverse=True)
    assert quick[0], "there is a bound at once"


def test_proofs_tell_the_remedy_of_their_bound() -> None:
    remedies = {bound.name: bound.remedy for bound in BOUNDS}
    for proof in proofs(Instance(problem(two_nodes(), "allgather")), Budget.of_work(_PLENTY)):
        assert proof.remedy == remedies[proof.kind]


def test_a_bound_from_outside_takes_part_and_is_told_what_is_known() -> None:
    copies = problem(ring(4), "allgather")
    largest = lower_bound(copies, bounds=(*BOUNDS, BY_HAND))
    assert (largest.kind, largest.value_us, largest.remedy) == ("by-hand", 1e6, "another example")
    assert BY_HAND not in BOUNDS
    assert lower_bound(copies).kind != "by-hand"
    assert lower_bound(copies, bounds=(BY_HAND,)).value_us == 0.0, "nothing was known before it"


def test_a_problem_with_a_feature_that_a_bound_lacks_is_skipped_with_the_reason() -> None:
    late = replace(problem(ring(3), "allgather"), ready_us=np.array([0.0, 5.0, 0.0]))
    assert ("by-hand", "it knows no ready times") in declined(Instance(late), (*BOUNDS, BY_HAND))
    assert "by-hand" not in {proof.kind for proof in all_bounds(late, bounds=(*BOUNDS, BY_HAND))}
    assert declined(Instance(problem(ring(3), "allreduce")), (BY_HAND,)) == ()


def test_where_every_bound_is_declined_nothing_is_claimed() -> None:
    late = replace(problem(ring(3), "allgather"), ready_us=np.array([0.0, 5.0, 0.0]))
    nothing = replace(BY_HAND, features=frozenset())
    assert lower_bound(late, bounds=(nothing,)).kind != "by-hand"


def test_going_on_later_proves_what_going_on_at_once_proves() -> None:
    at_once = _best(proofs(Instance(problem(two_nodes(), "allreduce")), Budget.of_work(_PLENTY)))
    instance, later = Instance(problem(two_nodes(), "allreduce")), {}
    for bound in BOUNDS:
        for kind, value_us in _best(proofs(instance, Budget.of_work(_PLENTY), (bound,))).items():
            later[kind] = max(later.get(kind, 0.0), value_us)
    assert later == at_once
    assert instance.bound_us == max(at_once.values())


@cache
def with_plenty_us(name: str) -> float:
    """What is proved of a collective of an NDv2 node."""
    return lower_bound(problem(ndv2_node(), name), Budget.of_work(_PLENTY)).value_us


@pytest.mark.parametrize("units", [1, 5, 20, 100, 2_000])
@pytest.mark.parametrize("name", ["allgather", "allreduce", "alltoall"])
def test_on_a_work_clock_the_same_work_proves_the_same(name: str, units: int) -> None:
    """However little it is; and no more is proved than with plenty."""
    node = problem(ndv2_node(), name)
    once, again = (list(proofs(Instance(node), Budget.of_work(units))) for _ in range(2))
    assert once == again
    most_us = with_plenty_us(name)
    assert max((proof.value_us for proof in once), default=0.0) <= most_us * (1 + 1e-9)


def test_more_work_never_proves_less() -> None:
    node = problem(ndv2_node(), "alltoall")
    values = [all_bounds(node, Budget.of_work(units))[0].value_us for units in (1, 50, 500, _PLENTY)]
    assert values == sorted(values)


def test_without_any_time_the_latency_bound_is_there() -> None:
    copies = problem(ring(4), "allgather")
    assert all_bounds(copies, Budget.of_work(1)) == (quick_bound(copies),)


def test_eight_dgx2_nodes_have_their_cut_bound_after_hardly_any_work() -> None:
    """1,792 chunks of 1 MB leave or enter each node; this was once looked for after a quotient of 20 s."""
    stated = make_problem("alltoall", topology="dgx2", nodes=8, size="128MB").problem
    instance = Instance(stated)
    best = _best(proofs(instance, Budget.of_work(1_000), [bound for bound in BOUNDS if bound.is_quick]))
    assert best["cut"] == pytest.approx(23522.6)
    assert "quotient" not in instance.__dict__, "cheap bounds compute no quotient"


def test_the_halves_of_a_large_mesh_are_cut() -> None:
    """32 x 32 chunks go from the upper half of an 8 x 8 mesh to the lower one over 8 links of 1 us each."""
    links = [
        (a, b, 0.0, 1.0)
        for a in range(64)
        for b in range(64)
        if (a // 8 == b // 8 and abs(a - b) == 1) or abs(a - b) == 8
    ]
    mesh = Problem(machine(64, links), alltoall(64), 1.0)
    quick = [bound for bound in BOUNDS if bound.is_quick]
    best = _best(proofs(Instance(mesh), Budget.of_work(_PLENTY), quick))
    assert best["cut"] == pytest.approx(32 * 32 / 8, rel=1e-6)


def test_what_is_there_later_and_what_follows_lengthen_a_path() -> None:
    """0 -> 1 -> 2, 2 us a link: the part of rank 0 is there at 5, and comes to rank 2 at 9; 3 us follow."""
    plain = problem(ring(3), "allgather")
    collective = plain.collective
    ready = np.where(collective.inputs.rank == 0, 5.0, 0.0)
    tail = np.where((collective.outputs.chunk == 0) & (collective.outputs.rank == 2), 3.0, 0.0)
    late = replace(plain, ready_us=ready, tail_us=tail)
    assert arrival_bound(Instance(late)).value_us == pytest.approx(5.0 + 4.0 + 3.0)
    assert lower_bound(late).value_us == pytest.approx(12.0)


def test_a_sum_waits_for_the_contribution_that_is_there_last() -> None:
    plain = problem(ring(3), "allreduce")
    late = replace(plain, ready_us=np.where(plain.collective.inputs.rank == 1, 50.0, 0.0))
    assert arrival_bound(Instance(late)).value_us == pytest.approx(50.0 + 2 * 2.0), "round the ring to rank 0"
    # Its parts of all three sums leave rank 1 by one link, together at best, and then have a link to go.
    assert lower_bound(late).value_us == pytest.approx(50.0 + (1.0 + 3 * 1.0) + 2.0)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_chunks_that_are_twice_as_large_are_as_if_the_size_were_twice_as_large(name: str) -> None:
    plain = problem(full(3, alpha_us=2.0), name)
    doubled, larger = (
        replace(plain, sizes=np.full(plain.num_chunks, 2.0)),
        replace(plain, chunk_mb=2 * plain.chunk_mb),
    )
    assert lower_bound(doubled).value_us == pytest.approx(lower_bound(larger).value_us)


def test_unequal_chunks_fill_links_by_their_sizes() -> None:
    """Rank 0 sends 1 MB to rank 1 and 9 MB to rank 2, both over one link of 1 us per MB to rank 1."""
    line = machine(3, [(0, 1, 0.0, 1.0), (1, 2, 0.0, 1.0), (2, 0, 0.0, 1.0)])
    plain = problem(line, "scatter")
    unequal = replace(plain, sizes=np.where(plain.collective.destination == 2, 9.0, 1.0))
    cut, *_ = all_bounds(unequal, bounds=[CUT], any_chunks=True)
    assert cut.value_us == pytest.approx(10.0)
    assert lower_bound(unequal).value_us == pytest.approx(18.0), "9 MB over two links, after each other"


def test_what_a_bound_said_is_not_proved_again() -> None:
    views: list[View] = []

    def prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
        views.append(view)
        yield quick.proof(1.0, "for any", any_chunks=True)
        yield quick.proof(2.0, "for this number")

    quick = Bound("said", "it is said", "nothing", prove, has_any_chunks=True)
    instance, budget = Instance(problem(ring(4), "allgather")), Budget.of_work(1000)
    assert [each.value_us for each in proofs(instance, budget, (quick,), any_chunks=True)] == [1.0]
    assert [each.value_us for each in proofs(instance, budget, (quick,))] == [1.0, 2.0]
    asked = len(views)
    assert [each.value_us for each in proofs(instance, budget, (quick,))] == [1.0, 2.0]
    assert [each.value_us for each in proofs(instance, budget, (quick,), any_chunks=True)] == [1.0]
    assert len(views) == asked


def test_what_a_budget_cut_short_is_proved_again() -> None:
    def prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
        yield quick.proof(1.0, "soon")
        if budget.remaining_s():
            yield quick.proof(2.0, "later")

    quick = Bound("said", "it is said", "nothing", prove)
    instance = Instance(problem(ring(4), "allgather"))
    assert [each.value_us for each in proofs(instance, Budget.of_work(3), (quick,))] == [1.0]
    assert [each.value_us for each in proofs(instance, Budget.of_work(4), (quick,))] == [1.0], "no more time"
    assert [each.value_us for each in proofs(instance, Budget.of_work(100), (quick,))] == [1.0, 2.0]


@pytest.mark.parametrize(("own", "listed"), [(0.5, [1.0]), (1.0, [1.0, 1.0]), (2.0, [2.0, 1.0])])
def test_nothing_weaker_is_said_of_this_number_than_of_any(own: float, listed: list[float]) -> None:
    """As where a bound has no time for the second of the two."""

    def prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
        yield said.proof(1.0, "for any", any_chunks=True)
        yield said.proof(own, "for this number")

    said = Bound("said", "it is said", "nothing", prove, has_any_chunks=True)
    proved = all_bounds(problem(ring(4), "allgather"), bounds=(said,))
    assert [each.value_us for each in proved] == listed

"""Cells as large as the actions allow: a file is right in them where it is right element by element."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import examples

import taccl
from taccl.backend.flat_json import actions_to_json, parse_actions_document
from taccl.backend.flat_json.cells import buffer_elements, cells_of
from taccl.backend.flat_json.document import ActionsProgram
from taccl.backend.flat_json.lowering import lower_flat
from taccl.backend.flat_json.reader import ActionsDocument
from taccl.backend.flat_json.unfolded import Flat, call_of_actions
from taccl.backend.flat_json.verify import verify_actions
from taccl.backend.flat_json.wanted import holds_standard
from taccl.backend.machine.expected import Value, expectation_of, specification
from taccl.backend.machine.unequal import Requested, UnequalCollective, in_equal_chunks
from taccl.backend.target import LoweringOptions

STANDARD = ("allgather", "reducescatter", "allreduce", "alltoall")
Content = dict[str, Any]


@cache
def made(name: str) -> str:
    """A file for four ranks in a ring, that of `unequal` with parts of 1 to 7 bytes that others pass on."""
    sizes = np.array([[0, 3, 7, 1], [2, 0, 1, 6], [1, 5, 0, 4], [3, 1, 2, 0]])
    schedule = taccl.synthesize(
        "alltoall" if name == "unequal" else name,
        topology="ring:4",
        size=None if name == "unequal" else "1MB",
        sizes=sizes if name == "unequal" else None,
        file=False,
        effort=20,
    ).schedule
    return actions_to_json(lower_flat(schedule, LoweringOptions()))


def enlarged(name: str, times: int) -> Content:
    """A file with as many elements for each, where its offsets and counts are."""
    content: Content = json.loads(made(name))
    listed = content["chunk_elements"]
    content["chunk_elements"] = (
        [each * times for each in listed] if isinstance(listed, list) else listed * times
    )
    for key in ("call_elements", "min_bytes", "max_bytes"):
        content[key] *= times
    for rank in content["ranks"]:
        rank["scratch"] *= times
        for action in rank["actions"]:
            action["elements"] *= times
            for key in {"from", "to"} & set(action):
                action[key][1] *= times
    return content


def change(content: Content, dice: random.Random) -> None:
    """Leave out a wait, touch other elements, take fewer with a message, or say that chunks lie elsewhere."""
    rank = dice.choice(content["ranks"])
    action = dice.choice(rank["actions"])
    kind = dice.randrange(4)
    if kind == 0 and action["after"]:
        action["after"].pop(dice.randrange(len(action["after"])))
    elif kind == 1:
        key = dice.choice([key for key in ("from", "to") if key in action])
        action[key] = [dice.choice([action[key][0], "output", "scratch"]), dice.randrange(6)]
    elif kind == 2:
        action["elements"] = max(1, action["elements"] - dice.randrange(3))
        for other in content["ranks"][action["peer"]]["actions"] if "peer" in action else ():
            if other.get("message") == action["message"] and other["do"] != action["do"]:
                other["elements"] = action["elements"]
    else:
        dice.shuffle(rank[dice.choice(["input", "output"])])


def in_units(program: ActionsProgram) -> ActionsProgram:
    """The same, each element a chunk of its own."""
    sizes = program.chunk_elements
    starts = np.cumsum(sizes) - sizes

    def held(chunks: tuple[int, ...]) -> tuple[int, ...]:
        pieces = ((each, k) for each in chunks for k in range(sizes[each] if each >= 0 else 1))
        return tuple(int(starts[each]) + k if each >= 0 else -1 for each, k in pieces)

    return replace(
        program,
        chunk_elements=(1,) * sum(sizes),
        sums=tuple(np.repeat(program.sums, sizes).tolist()),
        ranks=tuple(
            replace(rank, input=held(rank.input), output=held(rank.output)) for rank in program.ranks
        ),
    )


def verdict(program: ActionsProgram, wanted: Requested | None = None) -> tuple[object, ...]:
    report = verify_actions(ActionsDocument(program, (), ""), collective=wanted)
    facts = report.facts
    said = {(finding.rule, finding.severity) for finding in report.findings}
    return report.ok, said, facts.out_of_place, facts.deadlock, bool(facts.races)


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from([*STANDARD, "unequal"]), st.integers(1, 4), st.integers(0, 3), st.integers(0, 2**32))
def test_a_file_has_the_verdict_that_it_has_element_by_element(
    name: str, times: int, changes: int, seed: int
) -> None:
    content, dice = enlarged(name, times), random.Random(seed)
    for _ in range(changes):
        change(content, dice)
    program = parse_actions_document(json.dumps(content)).program
    assert verdict(program) == verdict(in_units(program))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(1, 8), min_size=12, max_size=12), st.integers(1, 3), st.integers(0, 2))
def test_a_file_is_for_the_sizes_that_it_is_for_element_by_element(
    sizes: list[int], times: int, others: int
) -> None:
    program = parse_actions_document(json.dumps(enlarged("unequal", times))).program
    elements = np.array(program.chunk_elements, dtype=np.int64) // times
    elements[:others] = sizes[:others]
    wanted = UnequalCollective(Flat.of(program).computed, elements // np.gcd.reduce(elements))
    cut = in_equal_chunks(wanted)
    assert verdict(program, wanted) == verdict(program, cut) == verdict(in_units(program), cut)
    assert verdict(program, wanted) == verdict(in_units(program), wanted)
    assert verdict(program, wanted)[0] == (elements * times == program.chunk_elements).all()


def meant(program: ActionsProgram, size: int) -> bool:
    """Whether outputs are standard, looked up element by element."""
    standard = specification(program.collective, len(program.ranks), size, program.root)
    own = expectation_of(Flat.of(in_units(program)).computed, 1)

    def wants(some: Any) -> dict[tuple[int, int], tuple[Value, ...]]:
        rows = zip(
            some.wanted_rank.tolist(), some.wanted_offset.tolist(), some.wanted_value.tolist(), strict=True
        )
        return {(rank, offset): some.values[value] for rank, offset, value in rows}

    return wants(standard) == wants(own)


def with_room(program: ActionsProgram, room: int) -> ActionsProgram:
    """The same with room for as many elements more at the end of each input."""
    ranks = tuple(replace(rank, input=rank.input + (-1,) * room) for rank in program.ranks)
    return replace(program, ranks=ranks)


def test_a_reducescatter_may_have_room_behind_the_equal_parts_of_its_inputs() -> None:
    program = with_room(parse_actions_document(made("reducescatter")).program, 1)
    program = replace(program, call_elements=program.call_elements + 1)
    assert program.call_elements % len(program.ranks)
    assert verdict(program)[:2] == (True, set())


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(STANDARD), st.integers(1, 3), st.integers(0, 2), st.booleans(), st.integers(0, 2**32))
def test_chunks_are_standard_where_every_element_is(
    name: str, times: int, room: int, swaps: bool, seed: int
) -> None:
    program = with_room(parse_actions_document(json.dumps(enlarged(name, times))).program, room)
    dice = random.Random(seed)
    if swaps:  # chunks lie elsewhere in one buffer
        number = dice.randrange(4)
        rank = program.ranks[number]
        inputs, outputs = (tuple(dice.sample(held, len(held))) for held in (rank.input, rank.output))
        ranks = (
            *program.ranks[:number],
            replace(rank, input=inputs, output=outputs),
            *program.ranks[number + 1 :],
        )
        program = replace(program, ranks=ranks)
    size = int(buffer_elements(program)[:, :2].max())
    assert holds_standard(program, size) == meant(program, size)


def test_cells_are_as_many_as_the_actions_need_whatever_the_sizes_are() -> None:
    small, large = (
        parse_actions_document(json.dumps(enlarged("unequal", times))).program for times in (1, 10**6)
    )
    few, many = cells_of(small), cells_of(large)
    assert few is not None and many is not None
    assert few.layout.num_cells == many.layout.num_cells
    assert verify_actions(ActionsDocument(large, (), "")).ok


def test_a_call_in_other_words_has_cells_of_one_size() -> None:
    counts = []
    for times in (1, 10**6):
        document = parse_actions_document(json.dumps(enlarged("unequal", times)))
        call = call_of_actions(document, None, None)
        counts.append(call.machine.layout.num_cells)
    assert counts[0] == counts[1]

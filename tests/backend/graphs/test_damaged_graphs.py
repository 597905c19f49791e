"""Files of rings and trees, right and damaged, each with the verdict that it deserves."""

from __future__ import annotations

import random

import pytest
from damage import HARMLESS, OF_FILES, OF_LINES, OF_RINGS, OF_TREES, Damage, graph_file, rings, trees
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl import make_collective
from taccl.backend.graphs.verify import verify_graphs
from taccl.backend.targets.registry import find_target, known_target
from taccl.errors import TacclError

KINDS = {
    "rccl-trees": (trees, OF_LINES | OF_TREES),
    "rccl-rings": (rings, OF_LINES | OF_RINGS),
    "nccl-graph": (graph_file, OF_FILES),
}


def is_right(name: str, text: str, ranks: int) -> bool:
    """The verdict on a file for a node of so many GPUs; one that is refused is not right."""
    target = find_target(name)
    try:
        document = target.read(text.encode(), "file")
    except TacclError as refused:
        assert refused.hint
        return False
    report = verify_graphs(document, collective=make_collective("allreduce", ranks))
    assert all(finding.hint for finding in report.findings)
    return report.ok


@pytest.mark.parametrize("name", KINDS)
@given(seed=st.integers(0, 2**32), ranks=st.integers(2, 16), way=st.sampled_from(sorted(HARMLESS)))
@settings(max_examples=30, deadline=None)
def test_what_is_right_is_taken_whoever_wrote_it(name: str, seed: int, ranks: int, way: str) -> None:
    make, _ = KINDS[name]
    text = HARMLESS[way](make(ranks, random.Random(seed)), ranks, random.Random(seed))
    known = known_target(text.encode())
    assert known is not None and known.runtimes == find_target(name).runtimes
    assert is_right(name, text, ranks)
    assert not is_right(name, text, ranks + 1)


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data(), seed=st.integers(0, 2**32), ranks=st.integers(5, 16))
@settings(max_examples=120, deadline=None)
def test_what_is_damaged_is_found(name: str, data: st.DataObject, seed: int, ranks: int) -> None:
    make, damages = KINDS[name]
    damage: Damage = damages[data.draw(st.sampled_from(sorted(damages)))]
    text = damage(make(ranks, random.Random(seed)), ranks, random.Random(seed + 1))
    assert not is_right(name, text, ranks), text


@pytest.mark.parametrize(("name", "what"), [(n, w) for n, (_, of) in KINDS.items() for w in of])
def test_each_kind_of_damage_is_found(name: str, what: str) -> None:
    make, damages = KINDS[name]
    assert not is_right(name, damages[what](make(8, random.Random(3)), 8, random.Random(4)), 8)


def test_too_many_elements_are_more_than_nccl_has_room_for() -> None:
    channel = "<channel>" + "".join(f'<gpu dev="{rank}" rank="{rank}"/>' for rank in range(8)) + "</channel>"
    for many, right in ((7000, True), (7300, False)):
        text = graph_file(8, random.Random(1)).splitlines()
        graph = [
            text[0],
            text[1].rsplit(' nchannels="', 1)[0] + f' nchannels="{many}" ' + text[1].split('" ', 4)[4],
        ]
        assert is_right("nccl-graph", "\n".join([*graph, channel * many, "</graph></graphs>"]), 8) is right


def test_a_value_longer_than_linux_takes_is_found() -> None:
    ring = " ".join(map(str, range(16)))
    for many, right in ((3000, True), (4000, False)):
        assert is_right("rccl-rings", f"NCCL_RINGS='{'|'.join([ring] * many)}'", 16) is right

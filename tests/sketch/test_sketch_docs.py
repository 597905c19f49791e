import re
from pathlib import Path

import pytest

from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.sketch import apply_sketch, parse_sketch, published_sketches
from taccl.topologies import build_topology

PAGE = (Path(__file__).parents[2] / "docs" / "sketches.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
SKETCHES = [text for kind, text in BLOCKS if kind == "yaml"]


def test_the_page_has_sketches() -> None:
    assert len(SKETCHES) >= 4


@pytest.mark.parametrize("text", SKETCHES)
def test_each_sketch_of_the_page_applies_to_its_machine(text: str) -> None:
    sketch = parse_sketch(text)
    machine = build_topology(str(sketch.topology), nodes=sketch.nodes)
    for collective in COLLECTIVES:
        demand = make_collective(collective, machine.num_ranks, sketch.chunks_per_rank)
        problem = apply_sketch(sketch, machine, demand, 1.0).problem
        assert len(problem.symmetry) in (0, len(sketch.symmetry))


@pytest.mark.parametrize("code", [text for kind, text in BLOCKS if kind == "python"])
def test_each_piece_of_python_of_the_page_runs(code: str) -> None:
    names: dict[str, object] = {}
    exec(compile(code, "docs/sketches.md", "exec"), names)
    assert "applied" in names


def test_every_published_sketch_is_listed() -> None:
    for sketch in published_sketches():
        assert f"`{sketch.name}`" in PAGE

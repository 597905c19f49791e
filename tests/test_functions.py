"""No function or module of the package is longer, or has more branches, than a reader can follow."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks.structure import COMPLEXITY, LINES, complexity_of, functions_of, length_of

PACKAGE = Path(__file__).parents[1] / "taccl"
#: Of a module, which has one subject.
MODULE_LINES = 400


def too_much(text: str) -> list[str]:
    """Names of the functions of a module that exceed a limit."""
    return [
        node.name
        for node in functions_of(ast.parse(text))
        if length_of(node) > LINES or complexity_of(node) > COMPLEXITY
    ]


def test_functions_are_short_and_have_few_branches() -> None:
    found = {
        str(path.relative_to(PACKAGE)): names
        for path in sorted(PACKAGE.rglob("*.py"))
        if (names := too_much(path.read_text(encoding="utf-8")))
    }
    assert not found


def test_modules_are_short() -> None:
    lengths = {
        str(path.relative_to(PACKAGE)): len(path.read_text(encoding="utf-8").splitlines())
        for path in PACKAGE.rglob("*.py")
    }
    assert lengths
    assert not {name: length for name, length in lengths.items() if length > MODULE_LINES}


@pytest.mark.parametrize(
    "body",
    ["    a = 1\n" * (LINES + 1), "    if a and b or c: pass\n" * (COMPLEXITY // 2)],
    ids=["lines", "branches"],
)
def test_the_limits_are_seen(body: str) -> None:
    assert too_much(f"def f(a, b, c):\n{body}") == ["f"]
    assert not too_much("def f(a):\n" + '    """Docs."""\n' + "    a = 1\n" * 9)

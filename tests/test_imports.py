"""The import rule of docs/architecture.md: nouns know no verbs, and verbs know each other only as said."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import taccl

ROOT = Path(taccl.__file__).parent

NOUNS = (
    *("errors", "arguments", "buildable", "units", "schemas", "notebook"),
    *("chunk_maps", "collectives", "problem", "automorphism", "schedule"),
)
VERBS: dict[str, tuple[str, ...]] = {
    "topologies": (),
    "sketch": ("topologies",),
    "encoding": (),
    "backend": (),
}
TOP = (
    "testing",
    "files",
    "collective_file",
    "search",
    "chunking",
    "result",
    "api",
    "proofs",
    "claims",
    "simulated_subject",
    "simulated",
    "frontier",
    "explained",
    "cli",
    "__main__",
)


def allowed(room: str) -> set[str]:
    if room in NOUNS:
        return {*NOUNS[: NOUNS.index(room)], room}
    if room in VERBS:
        return {*NOUNS, *VERBS[room], room}
    return {*NOUNS, *VERBS, *TOP[: TOP.index(room)], room}


def modules() -> list[Path]:
    return [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imported_rooms(path: Path) -> Iterator[tuple[int, str]]:
    """The line and room of each import of this package, also those inside functions."""
    package = ["taccl", *path.relative_to(ROOT).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [module] if module != "taccl" else [f"taccl.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "taccl" and len(parts) > 1:
                yield node.lineno, parts[1]


def test_every_module_belongs_to_a_room() -> None:
    assert {room_of(path) for path in modules()} == {*NOUNS, *VERBS, *TOP}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_imports_only_what_the_rule_allows(path: Path) -> None:
    wrong = [
        f"line {line} imports {room}"
        for line, room in imported_rooms(path)
        if room not in allowed(room_of(path))
    ]
    assert not wrong, f"{path.relative_to(ROOT)}: {wrong}"


def test_only_the_command_line_prints_or_knows_click() -> None:
    outside = [path for path in modules() if room_of(path) != "cli"]
    for path in outside:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "print", f"{path}:{node.lineno}"
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                assert not {"click", "rich"} & {name.split(".")[0] for name in names}, f"{path}:{node.lineno}"


def test_the_rule_finds_an_import_that_breaks_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    module = tmp_path / "schedule" / "bad.py"
    module.parent.mkdir()
    module.write_text(
        "def f():\n    from taccl.encoding import greedy\n    from ..sketch.model import Sketch\n"
    )
    assert list(imported_rooms(module)) == [(2, "encoding"), (3, "sketch")]
    assert not {"encoding", "sketch"} & allowed("schedule")

"""The import rules of docs/architecture.md: nouns know no verbs, and verbs know each other only as said.

Inside `encoding`, the rooms know each other only as said: nothing that is proved or derived knows an engine,
and engines know each other only through the registry.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import taccl

ROOT = Path(taccl.__file__).parent

NOUNS = (
    *(
        "errors",
        "plugins",
        "arguments",
        "compiled",
        "collector",
        "reading",
        "buildable",
        "units",
        "tolerance",
        "schemas",
        "notebook",
        "xml_elements",
        "pasted",
    ),
    *("chunk_maps", "collective", "collectives", "executor", "network", "engine_costs"),
    *("problem", "automorphism", "schedule"),
)
VERBS: dict[str, tuple[str, ...]] = {
    "topologies": (),
    "dumps": ("topologies",),
    "fabrics": ("topologies", "dumps"),
    "measurements": ("topologies",),
    "sketch": ("topologies",),
    "encoding": (),
    "backend": (),
}
TOP = (
    "testing",
    "files",
    "folders",
    "collective_file",
    "request",
    "resolved",
    "stated",
    "search",
    "cluster",
    "chunking",
    "output_options",
    "executed",
    "choosing",
    "searching",
    "output_file",
    "result",
    "lowered",
    "api",
    "compiling",
    "proofs",
    "machine_check",
    "claims",
    "measured_fit",
    "measured",
    "simulated_subject",
    "simulated_result",
    "simulated",
    "frontier",
    "explained",
    "converted",
    "deployed",
    "probe",
    "fitted",
    "cli",
    "__main__",
)


#: Rooms of `encoding`, and which of them each may import. An engine's package is a room of its own.
ENCODING: dict[str, tuple[str, ...]] = {
    "core": ("symmetry",),
    "symmetry": ("core",),
    "instance": ("core", "symmetry"),
    "bounds": ("core", "symmetry", "instance"),
    "conflicts": ("core", "symmetry", "instance"),
    "frontier": ("core", "symmetry", "instance", "bounds"),
    "engines.engine": ("core", "instance"),
    "engines.by_phases": ("core", "symmetry", "instance", "engines.engine"),
    "engines.pipelined": ("core", "instance", "engines.engine"),
    "portfolio": (
        *("core", "symmetry", "instance", "bounds"),
        *("engines.engine", "engines.by_phases", "engines.registry"),
    ),
}
#: What an engine may import beside its own package.
OF_AN_ENGINE = ("core", "symmetry", "instance", "engines.engine", "engines.pipelined")
#: The one place that knows all engines.
REGISTRY = "engines.registry"


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
    return ((line, module.split(".")[1]) for line, module in imported_modules(path))


def imported_modules(path: Path) -> Iterator[tuple[int, str]]:
    """The line and module of each import of this package, such as `taccl.encoding.core`.

    What is imported from a package may be a module of it, so it counts: `taccl.support.budget`.
    """
    package = ["taccl", *path.relative_to(ROOT).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.startswith("taccl."):
                yield node.lineno, name


def test_the_page_tells_the_rule_that_is_tested() -> None:
    page = (ROOT.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    rule = page[page.index("    nouns   ") : page.index("`errors` stands first")]
    nouns = rule.split("    nouns ")[1].split("import each other")[0]
    assert re.findall(r"\w+", nouns) == list(NOUNS)
    top = rule.split("    top ")[1].split("import nouns")[0]
    assert re.findall(r"\w+", top) == [room for room in TOP if room != "__main__"]


@pytest.mark.parametrize("room", [room for room in (*NOUNS, *VERBS, *TOP) if room != "__main__"])
def test_the_page_says_what_lives_in_a_room(room: str) -> None:
    page = (ROOT.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert f"`{room}.py`" in page or f"`{room}/`" in page


@pytest.mark.parametrize("room", [room.split(".")[0] for room in ENCODING])
def test_the_page_says_what_lives_in_a_room_of_encoding(room: str) -> None:
    page = (ROOT.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = page.split("## The rooms of `encoding`")[1]
    assert f"| `{room}.py` |" in rooms or f"| `{room}/` |" in rooms


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


def encoding_room(parts: Sequence[str]) -> str:
    """The room of a module of `encoding`, by the parts of its name after `taccl.encoding`."""
    return ".".join(parts[:2]) if parts[0] == "engines" else parts[0]


def wrong_in_encoding(path: Path) -> list[str]:
    """Imports that the rule of the rooms of `encoding` forbids."""
    own = encoding_room(path.relative_to(ROOT / "encoding").with_suffix("").parts)
    if own == REGISTRY:
        return []
    others = ENCODING.get(own, OF_AN_ENGINE if own.startswith("engines.") else ())
    wrong: dict[str, None] = {}
    for line, module in imported_modules(path):
        _, verb, *rest = module.split(".")
        room = encoding_room(rest) if verb == "encoding" and rest else own
        if room not in (own, *others):
            wrong[f"line {line} imports {room}"] = None
    return list(wrong)


@pytest.mark.parametrize(
    "path",
    [path for path in modules() if path.parent != ROOT and room_of(path) == "encoding"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_a_room_of_encoding_imports_only_what_the_rule_allows(path: Path) -> None:
    assert not wrong_in_encoding(path), path.relative_to(ROOT)


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


def test_the_rule_finds_a_bound_and_an_engine_that_know_another_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    for folder in ("bounds", "engines/trees"):
        module = tmp_path / "encoding" / folder / "bad.py"
        module.parent.mkdir(parents=True)
        module.write_text(
            "from taccl.support.budget import Budget\n"
            "from taccl.encoding.engines import greedy\n"
            "from taccl.encoding import bounds\n"
        )
    said = {path.parent.name: wrong_in_encoding(path) for path in tmp_path.rglob("*.py")}
    assert said == {
        "bounds": ["line 2 imports engines.greedy"],
        "trees": ["line 2 imports engines.greedy", "line 3 imports bounds"],
    }

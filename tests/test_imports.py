"""Who may import whom: the tables of `rooms`, held against the source."""

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import networkx as nx
import pytest
from rooms import ENCODING, PAGE, ROOMS, TABLES, Room, reach, with_tables

import taccl

ROOT = Path(taccl.__file__).parent
#: The one module that may import every engine.
REGISTRY = "engines.registry"


def modules(package: str = "taccl") -> list[Path]:
    """The modules of a package, but for its own `__init__`, and those of folders that only hold rooms."""
    folder = ROOT.joinpath(*package.split(".")[1:])
    own = {
        folder,
        *(folder / room.name.split(".")[0] for room in TABLES.get(package, ()) if "." in room.name),
    }
    return [path for path in sorted(folder.rglob("*.py")) if path.parent not in own or path.stem[0] != "_"]


@cache
def imports_of(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Imports of a module in the order of lines. Several tests look at them: it is read once."""
    found, rest = list[ast.Import | ast.ImportFrom](), [ast.parse(path.read_text(encoding="utf-8"))]
    while rest:
        node = rest.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            rest += getattr(node, part, [])
    return sorted(found, key=lambda node: node.lineno)


def calls_of_print(path: Path) -> list[int]:
    """The lines in which a module calls `print`."""
    text = path.read_text(encoding="utf-8")
    nodes = ast.walk(ast.parse(text)) if "print" in text else ()
    calls = (node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name))
    return [call.lineno for call in calls if call.func.id == "print"]


def imported_modules(path: Path) -> Iterator[tuple[int, str]]:
    """The line and module of each import of this package, also inside functions and for type checkers.

    What is imported from a package may be a module of it, so it counts: `taccl.support.budget`.
    """
    package = ["taccl", *path.relative_to(ROOT).parent.parts]
    for node in imports_of(path):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        yield from ((node.lineno, name) for name in names if name.startswith("taccl."))


def room_of(module: str, package: str, rooms: Sequence[Room]) -> str | None:
    """The row of a module in the table of a package; None: it lies outside, or is the package itself."""
    if not module.startswith(f"{package}."):
        return None
    first, *rest = module.removeprefix(f"{package}.").split(".")
    names = {room.name for room in rooms}
    if first not in names and "*" in names:
        return "*"
    if first in names or not rest:
        return first
    own = f"{first}.{rest[0]}"
    return own if own in names else f"{first}.*"


def wrong(path: Path, package: str) -> list[str]:
    """The imports of a module that the table of this package forbids."""
    rooms = TABLES[package]
    module = ".".join(["taccl", *path.relative_to(ROOT).with_suffix("").parts])
    own = room_of(module, package, rooms)
    assert own in {room.name for room in rooms}, f"{module} is in no room"
    allowed, found = reach(rooms, own), {}
    outside = next(room.outside for room in rooms if room.name == own)
    allowed_outside = {package.rsplit(".", maxsplit=1)[-1]}.union(*(reach(ROOMS, name) for name in outside))
    for line, imported in imported_modules(path):
        if outside and room_of(imported, "taccl", ROOMS) not in allowed_outside:
            found[f"line {line} imports {imported}"] = None
        room = room_of(imported, package, rooms)
        if room == "engines.*" and room == own:
            room = own if imported.split(".")[3] == module.split(".")[3] else "another engine"
        if room is not None and room not in allowed and not (own == REGISTRY and room == "engines.*"):
            found[f"line {line} imports {imported}"] = None
    return list(found)


@pytest.mark.parametrize("package", TABLES)
def test_a_room_imports_only_what_its_row_allows(package: str) -> None:
    paths = modules(package)
    assert paths
    found = {str(path.relative_to(ROOT)): wrong(path, package) for path in paths}
    assert not {path: lines for path, lines in found.items() if lines}


@pytest.mark.parametrize("package", TABLES)
def test_every_row_imports_only_rows_above_it(package: str) -> None:
    seen: set[str] = set()
    for room in TABLES[package]:
        assert seen.issuperset(room.imports), room.name
        seen.add(room.name)


@pytest.mark.parametrize("package", TABLES)
def test_every_row_is_a_room(package: str) -> None:
    folder = ROOT.joinpath(*package.split(".")[1:])
    for room in TABLES[package]:
        path = folder.joinpath(*room.name.removesuffix("*").strip(".").split("."))
        assert path.is_dir() or path.with_suffix(".py").is_file(), room.name


def test_the_page_shows_the_tables() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_tables(page), "python -m tests.rooms writes them"


def test_no_files_import_each_other_in_a_circle() -> None:
    files = {".".join(["taccl", *path.relative_to(ROOT).with_suffix("").parts]): path for path in modules()}
    known = nx.DiGraph()
    for module, path in files.items():
        for _, imported in imported_modules(path):
            parts = imported.split(".")
            found = [".".join(parts[:count]) for count in range(len(parts), 1, -1)]
            other = next((name for name in found if name in files), None)
            if other is not None and other != module:
                known.add_edge(module, other)
    circles = [sorted(circle) for circle in nx.strongly_connected_components(known) if len(circle) > 1]
    assert not circles


def test_outside_their_room_engines_are_known_by_the_registry_only() -> None:
    of_all = {"taccl.encoding.engines." + name for name in ("by_phases", "engine", "needs", "registry")}
    for path in modules():
        if path.relative_to(ROOT).parts[0] != "encoding":
            found = {name for _, name in imported_modules(path) if name.startswith("taccl.encoding.engines")}
            assert {".".join(name.split(".")[:4]) for name in found} <= of_all, path


def test_only_the_command_line_prints_or_knows_click() -> None:
    for path in modules():
        if path.relative_to(ROOT).parts[0] == "cli":
            continue
        assert not calls_of_print(path), path
        for node in imports_of(path):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            assert not {"click", "rich"} & {name.split(".")[0] for name in names}, f"{path}:{node.lineno}"


def test_the_rule_finds_an_import_that_breaks_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    module = tmp_path / "model" / "bad.py"
    module.parent.mkdir()
    module.write_text(
        "def f():\n    from taccl.encoding import engines\n    from ..sketch.model import Sketch\n"
    )
    assert wrong(module, "taccl") == [
        "line 2 imports taccl.encoding.engines",
        "line 3 imports taccl.sketch.model.Sketch",
    ]


def test_the_rule_finds_a_bound_and_an_engine_that_know_another_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    reported = {}
    for folder in ("bounds", "engines/routes"):
        module = tmp_path / "encoding" / folder / "bad.py"
        module.parent.mkdir(parents=True)
        module.write_text(
            "from taccl.encoding.engines import greedy\nfrom taccl.encoding.bounds import registry\n"
        )
        reported[folder] = wrong(module, "taccl.encoding")
    assert reported == {
        "bounds": ["line 1 imports taccl.encoding.engines.greedy"],
        "engines/routes": [
            "line 1 imports taccl.encoding.engines.greedy",
            "line 2 imports taccl.encoding.bounds.registry",
        ],
    }


def test_the_rule_finds_a_room_inside_another_one_that_imports_more_than_its_row_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    module = tmp_path / "analysis" / "baselines" / "bad.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        "from taccl.api import synthesize\nfrom taccl.analysis.pareto import pareto\n"
        "from taccl.topologies import catalogue\nfrom taccl.analysis.baselines import rccl\n"
    )
    assert wrong(module, "taccl.analysis") == [
        "line 1 imports taccl.api.synthesize",
        "line 2 imports taccl.analysis.pareto.pareto",
    ]


def test_only_the_row_of_errors_may_be_imported_by_all() -> None:
    assert all("errors" in reach(ROOMS, room.name) for room in ROOMS)
    assert "symmetry" in reach(ENCODING, "portfolio") and "engines.*" not in reach(ENCODING, "portfolio")

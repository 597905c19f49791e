"""The structure of the source, counted: entries, modules, imports, long functions, pages, words to avoid.

python -m benchmarks.structure f09c082 HEAD        a table with a column for each revision
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import deque
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import networkx as nx

#: A function with more lines (without its docstring), or more branches, is split.
LINES, COMPLEXITY = 60, 20
#: Words of the private dialect, in names and prose.
WORDS = (
    *("at hand", "so many", "told", "asked", "alike", "beside", "as engines see", "collector_at_rest"),
    *("must not know", "anomalies", "ways"),
)
#: What has statements among its parts.
_WITH_STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)
_BRANCHES = (
    *(ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.comprehension),
    *(ast.Assert, ast.match_case),
)


def unpacked(revision: str, folder: Path) -> Path:
    """The tree of a revision of this repository."""
    archive = subprocess.run(["git", "archive", revision], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return folder


def counts(root: Path) -> dict[str, int]:
    """All figures of a tree, by their names."""
    package = root / "taccl"
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in sources.items()}
    arrows = set(_arrows(package, trees))
    functions = [node for tree in trees.values() for node in functions_of(tree)]
    pages = sorted((root / "docs").rglob("*.md"))
    prose = "\n".join([*sources.values(), *(page.read_text(encoding="utf-8") for page in pages)])
    names = {name for pair in arrows for name in pair}
    return {
        "entries of taccl/": len(_entries(package)),
        "modules": len(sources),
        "lines": sum(text.count("\n") for text in sources.values()),
        "arrows between entries": len(arrows),
        "layers of entries": _layers(nx.DiGraph(sorted(arrows))) if names else 1,
        "circles of entries": sum(
            len(part) > 1 for part in nx.strongly_connected_components(nx.DiGraph(arrows))
        ),
        "modules of fewer than 45 lines": sum(text.count("\n") < 45 for text in sources.values()),
        "private constants": sum(_private_constants(tree) for tree in trees.values()),
        f"functions above {LINES} lines": sum(length_of(node) > LINES for node in functions),
        f"functions above complexity {COMPLEXITY}": sum(
            complexity_of(node) > COMPLEXITY for node in functions
        ),
        "pages": len(pages) + 1,
        "lines of the README": (root / "README.md").read_text(encoding="utf-8").count("\n"),
        "words of the dialect": sum(len(re.findall(rf"\b{word}\b", prose)) for word in WORDS),
    }


def _entries(package: Path) -> list[str]:
    return [
        path.stem
        for path in package.iterdir()
        if path.suffix == ".py" or (path.is_dir() and any(path.rglob("*.py")))
    ]


def _arrows(package: Path, trees: dict[Path, ast.Module]) -> Iterator[tuple[str, str]]:
    """Pairs of entries of which the first imports the second."""
    for path, tree in trees.items():
        own = path.relative_to(package).parts[0].removesuffix(".py")
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
                parts = name.split(".")
                if parts[0] == "taccl" and len(parts) > 1 and own not in ("__init__", parts[1]):
                    yield own, parts[1]


def _layers(graph: nx.DiGraph) -> int:
    """Entries on the longest chain of imports; entries that import each other are one."""
    return nx.dag_longest_path_length(nx.condensation(graph)) + 1


def functions_of(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """All functions and methods of a module: statements, so no expression is looked into."""
    waiting = deque[ast.AST]([tree])
    while waiting:
        node = waiting.popleft()
        waiting.extend(part for part in ast.iter_child_nodes(node) if isinstance(part, _WITH_STATEMENTS))
        if isinstance(node, ast.FunctionDef):
            yield node


def length_of(node: ast.FunctionDef) -> int:
    """Its lines without its docstring."""
    first = node.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    own = (node.end_lineno or node.lineno) - node.lineno + 1
    return own - ((first.end_lineno or first.lineno) - first.lineno + 1 if is_docstring else 0)


def complexity_of(node: ast.FunctionDef) -> int:
    """McCabe's number: 1, and 1 for each branch and each further operand of `and` and `or`."""
    inside = list(ast.walk(node))
    operands = sum(len(part.values) - 1 for part in inside if isinstance(part, ast.BoolOp))
    return 1 + sum(isinstance(part, _BRANCHES) for part in inside) + operands


def _private_constants(tree: ast.Module) -> int:
    names = [
        name.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    ]
    return sum(bool(re.fullmatch(r"_[A-Z][A-Z0-9_]*", name)) for name in names)


def main() -> None:
    """Print the table."""
    revisions = sys.argv[1:] or ["HEAD"]
    columns = []
    for revision in revisions:
        with tempfile.TemporaryDirectory() as folder:
            columns.append(counts(unpacked(revision, Path(folder))))
    print(f"| | {' | '.join(revisions)} |\n|---|{'---|' * len(revisions)}")
    for name in columns[0]:
        print(f"| {name} | {' | '.join(f'{column[name]:,}' for column in columns)} |")


if __name__ == "__main__":
    main()

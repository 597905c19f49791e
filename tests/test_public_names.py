import ast
import subprocess
import sys
from pathlib import Path

import pytest

import taccl


def test_every_public_name_is_there() -> None:
    assert all(getattr(taccl, name) is not None for name in taccl.__all__)
    with pytest.raises(AttributeError, match="no attribute 'synthesise'"):
        taccl.synthesise  # noqa: B018


def test_dir_lists_the_public_names_and_no_tool_of_this_module() -> None:
    shown = [name for name in dir(taccl) if not name.startswith("__")]
    assert shown == sorted(taccl.__all__)
    assert "__version__" in dir(taccl)


def test_a_star_import_brings_exactly_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from taccl import *", names)
    del names["__builtins__"]
    assert names == {name: getattr(taccl, name) for name in taccl.__all__}


def test_type_checkers_are_told_of_the_same_names() -> None:
    assert sorted(taccl._HOME) == sorted(taccl.__all__) == sorted(_reported_to_type_checkers())


def _reported_to_type_checkers() -> list[str]:
    module = ast.parse(Path(taccl.__file__).read_text())
    (block,) = (node for node in module.body if isinstance(node, ast.If))
    return [alias.name for each in block.body if isinstance(each, ast.ImportFrom) for alias in each.names]


def test_listing_the_names_loads_nothing() -> None:
    requested = "import sys, taccl; dir(taccl); print([m for m in sys.modules if m.startswith('taccl.')])"
    done = subprocess.run([sys.executable, "-c", requested], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

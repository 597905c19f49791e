"""What lies around the benchmarks in a checkout: helpers of its tests, their data, and data next to it."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: Files of the tests.
DATA = ROOT / "tests" / "data"
#: Files that are not of the project; they need not be there.
SHARED = ROOT.parent / "shared" / "data"


def test_helper(room: str, name: str) -> Any:
    """The module `name` of tests/`room`, where modules import each other by their names alone."""
    for folder in (ROOT / "tests" / room, ROOT / "tests"):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    return import_module(name)

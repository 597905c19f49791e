"""What `--json` prints and `to_dict()` returns, by name and version, each with a JSON Schema document.

The documents lie next to this module. A version stays as long as no key goes away or changes its meaning;
new keys may come without a new one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Literal, get_args

from taccl.errors import TacclError

#: The words of the command, joined by dots, and the version.
SchemaName = Literal[
    "taccl.synthesize/1",
    "taccl.requests/1",
    "taccl.explain/1",
    "taccl.bench/1",
    "taccl.bound/1",
    "taccl.baseline/1",
    "taccl.baseline.library/1",
    "taccl.bound.helpers/1",
    "taccl.placement/1",
    "taccl.order/1",
    "taccl.stall/1",
    "taccl.repair/1",
    "taccl.rank-placements/1",
    "taccl.lower/1",
    "taccl.pareto/1",
    "taccl.explore/1",
    "taccl.bundle/1",
    "taccl.bundle.check/1",
    "taccl.cache.list/1",
    "taccl.verify/1",
    "taccl.simulate/1",
    "taccl.run/1",
    "taccl.convert/1",
    "taccl.deploy/1",
    "taccl.testbed/1",
    "taccl.topology.list/1",
    "taccl.topology.show/1",
    "taccl.topology.check/1",
    "taccl.topology.cluster/1",
    "taccl.topology.fit/1",
    "taccl.topology.import/1",
    "taccl.topology.fit.runs/1",
    "taccl.probe/1",
    "taccl.sketch.list/1",
    "taccl.sketch.check/1",
]
SCHEMA_NAMES: tuple[SchemaName, ...] = get_args(SchemaName)


def stamped(name: SchemaName, values: Mapping[str, object]) -> dict[str, object]:
    """The values with the name and version of their schema before them."""
    return {"schema": name, **values}


def finite(value: float) -> float | None:
    """JSON has no infinity, which is the bandwidth where nothing has to move: None stands for it."""
    return value if math.isfinite(value) else None


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of an output, as a fresh dictionary.

    Parameters
    ----------
    name : what the output says under `schema`, such as `taccl.synthesize/1`.

    Raises
    ------
    TacclError : there is no output of that name and version.
    """
    if name not in SCHEMA_NAMES:
        raise TacclError(f"there is no schema {name!r}", hint="one of " + ", ".join(SCHEMA_NAMES))
    text = files(__package__).joinpath(file_name(name)).read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def file_name(name: str) -> str:
    """The document's file next to this module: `synthesize-1.json`."""
    return f"{name.removeprefix('taccl.').replace('/', '-')}.json"

"""The YAML language as a JSON Schema (draft-07): the one description of its keys, in `schema.json`.

The loader takes the keys it knows and those it needs from here; editors complete and check with it
(`taccl sketch schema`). The words are those of `model`.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

Schema = dict[str, Any]


@cache
def _text() -> str:
    return files(__package__).joinpath("schema.json").read_text(encoding="utf-8")


def sketch_schema() -> Schema:
    """The JSON Schema (draft-07) of a YAML sketch, as a fresh dictionary."""
    schema: Schema = json.loads(_text())
    return schema


SKETCH = sketch_schema()
INTRANODE: Schema = SKETCH["properties"]["intranode"]
SWITCH: Schema = INTRANODE["properties"]["switches"]["items"]
INTERNODE: Schema = SKETCH["properties"]["internode"]
ROTATION: Schema = SKETCH["properties"]["symmetry"]["items"]["anyOf"][0]

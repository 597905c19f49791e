"""Where an error points to the command that says more."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields

from taccl.backend.target import Target
from taccl.backend.targets.registry import DEFAULT_TARGET
from taccl.errors import InfeasibleError
from taccl.synthesis.request import Request

#: What `taccl explain` is requested about: all of a request but what is no line of a sketch.
_STATING = tuple(field.name for field in fields(Request) if field.name != "symmetry")


@contextmanager
def pointing_to_explain(request: Mapping[str, object]) -> Iterator[None]:
    """Where no schedule exists, the error also says how to ask `taccl explain` about the same request."""
    try:
        yield
    except InfeasibleError as fault:
        given = {name: request.get(name) for name in _STATING}
        words = [
            word
            for name, value in given.items()
            if value is not None and value != "auto" and value is not DEFAULT_TARGET
            for each in (value if isinstance(value, tuple) else (value,))
            for word in _option(name.replace("_", "-"), each)
        ]
        asking = f"`{shlex.join(['taccl', 'explain', *words])}` names every line that is in the way"
        fault.hint = asking if fault.hint is None else f"{fault.hint}; {asking}"
        raise


def _option(name: str, value: object) -> tuple[str, ...]:
    """An option as it is written: a flag, or a name and a value."""
    if isinstance(value, bool):
        return (f"--{name}" if value else f"--no-{name}",)
    return f"--{name}", value.name if isinstance(value, Target) else str(value)

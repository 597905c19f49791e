"""Where an error points to the command that says more."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from taccl.errors import InfeasibleError

#: The options that state a problem, and not how it is solved.
_STATING = (
    *("collective", "sketch", "topology", "nodes", "profile", "occupancy"),
    *("nic_sharing", "size", "chunks", "root"),
)


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
            if value is not None and value != "auto"
            for word in (f"--{name.replace('_', '-')}", str(value))
        ]
        asking = f"`{shlex.join(['taccl', 'explain', *words])}` names every line that is in the way"
        fault.hint = asking if fault.hint is None else f"{fault.hint}; {asking}"
        raise

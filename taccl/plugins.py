"""What other packages add: values that they name as entry points of a group, such as `taccl.engines`."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TypeVar

from taccl.errors import TacclError

_Kind = TypeVar("_Kind")


def added(group: str, kind: type[_Kind]) -> tuple[_Kind, ...]:
    """The values of that kind that installed packages add to a group, by the names of their entry points.

    Raises
    ------
    TacclError : a value cannot be loaded, or is of another kind.
    """
    values = []
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            value = point.load()
        except Exception as fault:  # whatever the other package does
            raise TacclError(
                f"{point.value!r}, which an installed package adds to {group}, cannot be loaded: {fault}",
                hint="repair or remove that package",
            ) from fault
        if not isinstance(value, kind):
            raise TacclError(
                f"{point.value!r}, which an installed package adds to {group}, is no {kind.__name__}",
                hint="repair or remove that package",
            )
        values.append(value)
    return tuple(values)

"""What follows from something that does not change, derived once, however many ask for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

_Source = TypeVar("_Source", bound="Deriving")
_Derived = TypeVar("_Derived")


class Deriving:
    """Something that keeps what others derive from it.

    >>> class Length(Deriving):
    ...     metres = 2.5
    >>> def centimetres(length):
    ...     print("once")
    ...     return 100 * length.metres
    >>> length = Length()
    >>> length.once(centimetres), length.once(centimetres)
    once
    (250.0, 250.0)
    """

    @cached_property
    def _derived(self) -> dict[object, Any]:
        return {}

    def once(self: _Source, derive: Callable[[_Source], _Derived]) -> _Derived:
        """`derive(self)`, computed the first time only."""
        return self._once(derive, lambda: derive(self))

    def _once(self, key: object, make: Callable[[], _Derived]) -> _Derived:
        if key not in self._derived:
            self._derived[key] = make()
        derived: _Derived = self._derived[key]
        return derived

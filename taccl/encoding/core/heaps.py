"""Binary heaps in columns of numbers; several may lie in one pair of columns.

A heap with `size` members lies from `base` on; the least (key, item) stands first. Lists of tuples would do
the same and take seconds to compile. Compiled functions contain them; elsewhere they are plain functions.
"""

from __future__ import annotations

from typing import Any

from numba.extending import register_jitable


@register_jitable(forceinline=True)
def push(keys: Any, items: Any, base: int, size: int, key: float, item: int) -> None:
    """Add a member to a heap that had `size` before."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        other = keys[base + above]
        if other < key or (other == key and items[base + above] <= item):
            break
        keys[base + at], items[base + at] = other, items[base + above]
        at = above
    keys[base + at], items[base + at] = key, item


@register_jitable(forceinline=True)
def pop(keys: Any, items: Any, base: int, size: int) -> None:
    """Take the first member from a heap that had `size` before; read it before."""
    key, item = keys[base + size - 1], items[base + size - 1]
    left = size - 1
    at = 0
    while True:
        below = 2 * at + 1
        if below >= left:
            break
        other = below + 1
        if other < left and (
            keys[base + other] < keys[base + below]
            or (keys[base + other] == keys[base + below] and items[base + other] < items[base + below])
        ):
            below = other
        if key < keys[base + below] or (key == keys[base + below] and item <= items[base + below]):
            break
        keys[base + at], items[base + at] = keys[base + below], items[base + below]
        at = below
    keys[base + at], items[base + at] = key, item

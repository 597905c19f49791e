"""Lists as people write and read them: the first few words, spans of numbers, names with numbers in order,
and what is equal or joined in groups.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

_Key = TypeVar("_Key", bound=Hashable)


def few(words: Iterable[object], most: int = 8, separator: str = ", ") -> str:
    """`a, b, c and 5 more`: the first of many words, and how many follow."""
    listed = [str(word) for word in words]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return separator.join(listed[:most]) + more


def spans(numbers: Iterable[int]) -> list[str]:
    """`0-3` and `5` for 0, 1, 2, 3, 5: runs of numbers in their order."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return [f"{first}" if first == last else f"{first}-{last}" for first, last in runs]


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts numbers in names by their value: `mlx5_2` before `mlx5_10`."""
    return tuple(
        (0, int(part), part) if part.isdecimal() and part.isascii() else (1, 0, part)
        for part in re.findall(r"[0-9]{1,18}|[^0-9]+", name)
    )


def grouped(count: int, key: Callable[[int], _Key]) -> dict[_Key, list[int]]:
    """The indices below `count` by their key, in the order of the first of each group."""
    groups: dict[_Key, list[int]] = {}
    for index in range(count):
        groups.setdefault(key(index), []).append(index)
    return groups


def equal(keys: Sequence[_Key]) -> list[list[int]]:
    """The indices of equal keys, in the order of the first of each."""
    return list(grouped(len(keys), keys.__getitem__).values())


def joined(items: Iterable[_Key], pairs: Iterable[tuple[_Key, _Key]]) -> list[list[_Key]]:
    """The items in the parts that pairs of them make, in the order of the first of each part."""
    above = {item: item for item in items}

    def top(item: _Key) -> _Key:
        while above[item] != item:
            above[item] = item = above[above[item]]
        return item

    for a, b in pairs:
        above[top(a)] = top(b)
    parts: dict[_Key, list[_Key]] = {}
    for item in above:
        parts.setdefault(top(item), []).append(item)
    return list(parts.values())

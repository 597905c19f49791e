"""Numbers that are equal for what looks alike: rows of columns, and what is next to something."""

from __future__ import annotations

import numpy as np

from taccl.model.collective import IntArray


def numbered(*columns: np.ndarray) -> IntArray:
    """Equal rows get equal numbers, from 0 on; shape (num_rows,)."""
    order = np.lexsort(columns[::-1])
    differs = np.zeros(len(order), dtype=np.bool_)
    for column in columns:
        differs[1:] |= column[order][1:] != column[order][:-1]
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(differs)
    return number


def sums(many: int, row: IntArray, class_of: IntArray) -> np.ndarray:
    """For each row a number that is equal where it has equally many of each class, shape (many,).

    A sum of 64 mixed bits for each (splitmix64), so two that differ get equal numbers once in 10^19 pairs.
    """
    bits = class_of.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    total = np.zeros(many, dtype=np.uint64)
    np.add.at(total, row, bits ^ (bits >> np.uint64(31)))
    return total


def first_of_each(class_of: IntArray) -> IntArray:
    """One of each class, by class."""
    return np.unique(class_of, return_index=True)[1]

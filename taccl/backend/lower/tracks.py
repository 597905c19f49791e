"""Runs of values that must lie at consecutive offsets, merged while they agree.

A *track* is a stretch of scratch. `Tracks.place` asks for some values side by side, in order. Where that
agrees with what was requested before, tracks grow or are joined; where it does not, the values
get a second place in a track of their own, to be filled by local copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

#: Stands for an empty place in a private track; no value has this number.
_NOBODY = -1


@dataclass(slots=True)
class Tracks:
    """Tracks of one rank. A value has at most one shared place, and any number of private ones."""

    tracks: list[list[int]] = field(default_factory=list)
    shared: dict[int, tuple[int, int]] = field(default_factory=dict)

    def place(self, values: Sequence[int]) -> int | None:
        """Put the values side by side in a shared track.

        Returns
        -------
        None if they are; else the number of the private track made for them.
        """
        segments = self._segments(values)
        if segments is None:
            return self.reserve(len(values))
        if len(segments) > 1 or isinstance(segments[0], list):
            self._join(segments)
        return None

    def add(self, value: int) -> None:
        """Give a single value a place, unless it has one."""
        if value not in self.shared:
            self._join([[value]])

    def reserve(self, size: int) -> int:
        """A private track; its number."""
        self.tracks.append([_NOBODY] * size)
        return len(self.tracks) - 1

    def offsets(self) -> list[int]:
        """The scratch offset at which each track starts, and at the end the size of all."""
        starts = [0]
        for track in self.tracks:
            starts.append(starts[-1] + len(track))
        return starts

    def _segments(self, values: Sequence[int]) -> list[list[int] | int] | None:
        """The values as new values (lists) and whole or touched tracks (numbers); None if impossible."""
        segments: list[list[int] | int] = []
        at = 0
        while at < len(values):
            if values[at] not in self.shared:
                fresh = []
                while at < len(values) and values[at] not in self.shared:
                    fresh.append(values[at])
                    at += 1
                segments.append(fresh)
                continue
            number, start = self.shared[values[at]]
            track = self.tracks[number]
            stop = start
            begin = at
            while at < len(values) and stop < len(track) and track[stop] == values[at]:
                at, stop = at + 1, stop + 1
            enters = begin == 0 or start == 0
            leaves = at == len(values) or stop == len(track)
            if not (enters and leaves) or number in segments:
                return None
            segments.append(number)
        return segments

    def _join(self, segments: Sequence[list[int] | int]) -> None:
        joined: list[int] = []
        for segment in segments:
            if isinstance(segment, int):
                joined += self.tracks[segment]
                self.tracks[segment] = []
            else:
                joined += segment
        number = len(self.tracks)
        self.tracks.append(joined)
        for index, value in enumerate(joined):
            self.shared[value] = (number, index)

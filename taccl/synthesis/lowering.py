"""What a target makes of schedules under any configuration, and the files that come of it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from taccl.backend.target import AnyTarget, Lowered, LoweringOptions
from taccl.backend.targets.registry import all_targets
from taccl.errors import TacclError
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.files import ensure_writable, write_atomically
from taccl.synthesis.configurations import Configuration


@dataclass(frozen=True)
class OutputFile:
    """The text of a file, the program that it spells, and the runtimes of its target that it is verified for.

    `program` is whatever the target lowers to; of MSCCL-XML, a `taccl.backend.program.Program`.
    """

    text: str
    program: Any
    readers: tuple[str, ...]
    target: AnyTarget

    @property
    def format(self) -> str:
        """The kind of file in a word: `xml`."""
        return self.target.format


def paths_of(files: Sequence[OutputFile], path: str | Path) -> tuple[Path, ...]:
    """Where `write_files` puts each: the first at `path`, others at `NAME.READER.xml`."""
    path = Path(path)
    others = (path.with_name(f"{path.stem}.{file.readers[0]}{path.suffix}") for file in files[1:])
    return (path, *others) if files else ()


def write_files(files: Sequence[OutputFile], path: str | Path) -> tuple[Path, ...]:
    """Write all of them, or, where one cannot be written (`FileError`), none; returns where they are."""
    paths = paths_of(files, path)
    for each in paths:
        ensure_writable(each)
    for file, each in zip(files, paths, strict=True):
        write_atomically(each, file.text)
    return paths


class Lowering:
    """What a target makes of schedules, under any configuration.

    Whether a file can hold a schedule is checked before the file is made, and takes as long. So what was
    made last is not made again, and whatever was refused is refused again at once.
    """

    def __init__(self, target: AnyTarget, options: LoweringOptions) -> None:
        """`options` : what is the same under all configurations."""
        self._target, self._options = target, options
        self._last = lru_cache(maxsize=1)(self._lowered)
        self._refusals: dict[tuple[Schedule, Configuration], TacclError] = {}

    def named(self, name: str) -> Lowering:
        """The same with another name for the programs."""
        return Lowering(self._target, replace(self._options, name=name))

    def check(self, problem: Problem) -> None:
        """Raise TacclError, which names targets that may have one, for a problem that has no file here."""
        others = partial(all_targets, lambda _name, _fault: None)  # one that cannot be loaded is not named
        self._target.check_problem(problem, self._options, others)

    def allows(self, problem: Problem) -> bool:
        """Whether nothing is known that keeps a problem from having a file."""
        try:
            self._target.check_problem(problem, self._options)
        except TacclError:
            return False
        return True

    def __call__(self, schedule: Schedule, configuration: Configuration) -> Sequence[Lowered[Any]]:
        """The programs of a schedule. Raises TacclError where there are none."""
        if (schedule, configuration) in self._refusals:
            raise copy(self._refusals[schedule, configuration])
        try:
            return self._last(schedule, configuration)
        except TacclError as fault:
            self._refusals[schedule, configuration] = copy(fault)  # without what was made so far
            raise

    def _lowered(self, schedule: Schedule, configuration: Configuration) -> Sequence[Lowered[Any]]:
        options = replace(
            self._options,
            protocol=configuration.protocol,
            instances=configuration.instances,
            thread_blocks=configuration.thread_blocks,
        )
        return self._target.lower(schedule, options)

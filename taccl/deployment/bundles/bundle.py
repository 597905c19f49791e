"""`bundle()`: an exploration becomes a folder that a runtime is pointed at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from taccl.analysis.baseline import baseline
from taccl.analysis.baseline_size import BaselineSize
from taccl.analysis.exploration.explore import explore
from taccl.analysis.exploration.explored import Explored
from taccl.analysis.exploration.question import Question
from taccl.backend.target import AnyTarget
from taccl.backend.targets.registry import DEFAULT_TARGET, find_target
from taccl.deployment.bundles.files import BundleFile, files_of_windows
from taccl.deployment.bundles.folder import folder_texts, status_of
from taccl.deployment.bundles.room import with_room
from taccl.deployment.bundles.texts import CHECK
from taccl.deployment.bundles.windows import windows_of
from taccl.errors import NoScheduleInTime, TacclError
from taccl.model import units
from taccl.support.arguments import shown
from taccl.support.files import write_folder
from taccl.support.lists import few
from taccl.support.report import Report, Reported, Table
from taccl.topologies import PhysicalTopology

#: For NCCL's estimates alone: the bounds are there already.
_NO_BOUNDS_S = 1e-3
_COLUMNS = ("path", "collective", "min_bytes", "max_bytes", "time_us", "lower_bound_us", "kind", "reason")
_HEADER = ("collective", "from", "to", "at", "time (us)", "bound (us)", "file")


@dataclass(frozen=True, eq=False)
class Bundle(Reported):
    """Files that tile the sizes of each collective, with all that it takes to run and check them.

    Parameters
    ----------
    explored : the table that they were chosen from.
    target : what they are for.
    files : by collective, from small calls to large ones.
    texts : the contents of the folder, by paths in it.
    notes : sizes, collectives and files that are left out, and why.
    """

    explored: Explored
    target: AnyTarget
    files: tuple[BundleFile, ...]
    texts: dict[str, str | bytes]
    notes: tuple[str, ...] = ()

    def write(self, folder: str | Path) -> None:
        """Write all of it into a new or empty folder, or nothing.

        Raises
        ------
        FileError : the folder is not empty, or cannot be written.
        """
        write_folder(Path(folder), self.texts)
        (Path(folder) / CHECK).chmod(0o755)

    @property
    def is_interrupted(self) -> bool:
        """Whether the user ended the exploration: what was not looked at has no file."""
        return self.explored.interrupted

    def report(self) -> Report:
        """What each call takes, one row for each window of sizes, and a table."""
        rows = [file.figures() for file in self.files]
        figures = {
            "target": self.target.name,
            "topologies": [envelope.question.machine.name for envelope in self.explored.envelopes],
            "files": rows,
            "status": status_of(self.explored),
            "notes": list(self.notes),
        }
        return Report("taccl.bundle/1", figures, _COLUMNS, rows, Table(self._title, self._cells(), _HEADER))

    @property
    def _title(self) -> str:
        names = ", ".join(envelope.question.name for envelope in self.explored.envelopes)
        plans = sum(len(file.outputs) for file in self.files)
        return f"{names}: {plans} files for {self.target.name}; times are of {self.explored.times_of}"

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (
                file.collective,
                units.format_size(file.window.min_bytes),
                units.format_size(file.window.max_bytes),
                units.format_size(row["size_bytes"]),
                "-" if row["time_us"] is None else f"{row['time_us']:.2f}",
                f"{row['lower_bound_us']:.2f}",
                _taken(file),
            )
            for file in self.files
            for row in [file.figures()]
        ]


def _taken(file: BundleFile) -> str:
    """What calls of a window take."""
    if file.kind == "fallback":
        return f"fallback: {file.reason}"
    without = f" (not {few(map(units.format_size, file.unserved))})" if file.unserved else ""
    return ", ".join(file.paths.values()) + without


def bundle(
    collective: str | Sequence[str] = "allgather",
    *,
    topology: str | Path | PhysicalTopology,
    target: str | None = None,
    **requested: Any,
) -> Bundle:
    """Explore a machine, and make the files that tile the sizes, with scripts that run and check them.

    Every file is verified. A window of sizes is left to the library where no file can be made, or where what
    the library does is expected to be faster: NCCL's own estimate, times what published
    measurements are of such estimates, next to files whose times have launch in them.

    Parameters
    ----------
    collective, topology, requested : as in `taccl.explore`, of one machine.
    target : what files are for.

    Raises
    ------
    TacclError : as `taccl.explore`, or several machines, or a target whose files no runtime finds by itself.
    """
    if not isinstance(topology, (str, Path, PhysicalTopology)):
        raise TacclError(
            f"a bundle is for one machine, not {shown(topology)}",
            hint="a bundle for each of several machines",
        )
    wanted = find_target(DEFAULT_TARGET.name if target is None else target)
    if wanted.environment is None and not wanted.is_one_sided:
        raise TacclError(
            f"no runtime finds files for {wanted.name} by itself", hint="--target all, or mscclpp"
        )
    return bundle_of(explore(collective, topology=[topology], target=wanted.name, **requested), wanted)


def bundle_of(explored: Explored, target: AnyTarget) -> Bundle:
    """The bundle of an exploration of one machine for a target.

    Raises
    ------
    TacclError : not even one file can be made.
    """
    files: list[BundleFile] = []
    for envelope in explored.envelopes:
        library = partial(_library_us, envelope.question)
        library_us = library(envelope.question.sizes)
        best = [
            None if curve is None or _is_faster(expected, curve.times_us[place]) else curve
            for place, (curve, expected) in enumerate(zip(envelope.best(), library_us, strict=True))
        ]
        files += files_of_windows(envelope, windows_of(envelope, best, library), library_us)
    if not any(file.kind == "plan" for file in files):
        reasons = dict.fromkeys(f"{file.collective}: {file.reason}" for file in files)
        raise NoScheduleInTime(
            f"there is no file to deploy; {'; '.join(reasons)}",
            hint="a larger --time-limit, or what the library does by itself",
        )
    files, said = with_room(files, target.most_files)
    notes = (*explored.notes, *said)
    return Bundle(explored, target, tuple(files), folder_texts(files, target, explored, notes), notes)


def _library_us(question: Question, sizes: Sequence[int]) -> tuple[float | None, ...]:
    """What NCCL expects of itself at each size; None: it says nothing, or our times leave out launch."""
    if question.machine.executor is None:
        return (None,) * len(sizes)
    try:
        found = baseline(question.collective, topology=question.machine, sizes=sizes, time_limit=_NO_BOUNDS_S)
    except TacclError:
        return (None,) * len(sizes)
    return tuple(_expected_us(each) for each in found.sizes)


def _expected_us(size: BaselineSize) -> float | None:
    """NCCL's own estimate, times what published measurements near this size are of such estimates."""
    if size.time_us is None:
        return None
    return size.time_us * (median(size.ratios) if size.ratios else 1.0)


def _is_faster(expected_us: float | None, time_us: float) -> bool:
    return expected_us is not None and expected_us < time_us

"""Measured runs: programs in MSCCL-XML files, and what each took at which sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from taccl.analysis.simulated_subject import Subject, of_file
from taccl.backend.program import Program, Protocol
from taccl.backend.verify.msccl_xml import verify_program
from taccl.calibration.benchmarks.facts import Point
from taccl.calibration.benchmarks.file_times import (
    TIMES,
    FileTime,
    FileTimes,
    looks_like_file_times,
    read_file_times,
)
from taccl.calibration.benchmarks.registry import parse_measured
from taccl.calibration.runs.least_deviation import IntArray
from taccl.errors import FileError, TacclError
from taccl.model import units
from taccl.model.network import FloatArray
from taccl.support.files import MOST_BYTES, read_bytes
from taccl.support.lists import few

_HINT = f"a folder with MSCCL-XML files and {TIMES}, or FILE.xml=TIMES"
#: What a folder may hold in place of a table, next to the program of the same name.
_LOGS = (".txt", ".log", ".out")
#: Benchmarks measure floats, and a chunk has a whole number of them.
_ELEMENT_BYTES = 4


@dataclass(frozen=True, eq=False)
class MeasuredFile:
    """A program and its times.

    Parameters
    ----------
    name : as tables show it: the file's name without its folder.
    program : what is in it.
    size_bytes, time_us : shape (sizes,), sizes rising; the median where one was measured several times.
    hangs_above_bytes : calls of more bytes never end; None where all end.
    """

    name: str
    subject: Subject
    program: Program
    size_bytes: IntArray
    time_us: FloatArray
    hangs_above_bytes: int | None = None

    @property
    def protocol(self) -> Protocol:
        """As the file says."""
        return self.program.protocol


@dataclass(frozen=True, eq=False)
class MeasuredRuns:
    """All files with a time, in the order of their names, and what was left out."""

    files: tuple[MeasuredFile, ...]
    notes: tuple[str, ...] = ()


def load_runs(sources: Sequence[str | Path]) -> MeasuredRuns:
    """Programs and their times from folders and FILE.xml=TIMES.

    A folder holds programs and `times.csv` (file, size_bytes, and in_place_us or time_us), or next to
    NAME.xml the text of nccl-tests as NAME.txt, .log or .out. TIMES is either. Sizes at which a program
    hangs are left out with a note, and so are rows without a time, with wrong results, or of a program that
    is not there.

    Raises
    ------
    FileError : a file that cannot be read or is no table, or no times of any program.
    TacclError : the subclass says why a program cannot be timed.
    """
    rows: dict[Path, list[FileTime]] = {}
    notes: list[str] = []
    for source in sources:
        for program, times in _from(str(source), notes):
            rows.setdefault(program, []).extend(times)
    files = [_measured(path, times, notes) for path, times in sorted(rows.items()) if times]
    found = tuple(file for file in files if len(file.size_bytes))
    if not found:
        raise FileError(f"no measured times in {', '.join(map(str, sources)) or 'nothing'}", hint=_HINT)
    return MeasuredRuns(found, tuple(notes))


def _from(source: str, notes: list[str]) -> Iterator[tuple[Path, list[FileTime]]]:
    """Each program of a source, with the rows that are its own."""
    program, equals, times = source.partition(".xml=")
    if equals:
        path = Path(f"{program}.xml")
        table = _read_times(Path(times), path, notes)
        yield path, [row for row in table if row.file is None or _named(row.file) == path.name]
        return
    folder = Path(source)
    if not folder.is_dir():
        raise FileError("is no folder of measured runs", path=source, hint=_HINT)
    yield from _from_folder(folder, notes)


def _from_folder(folder: Path, notes: list[str]) -> Iterator[tuple[Path, list[FileTime]]]:
    programs = {path.name: path for path in sorted(folder.glob("*.xml"))}
    rows: dict[str, list[FileTime]] = {name: [] for name in programs}
    if (folder / TIMES).exists():
        absent: dict[str, FileTime] = {}
        for row in _read_times(folder / TIMES, None, notes):
            if row.file is None:
                raise FileError("the table has no column file", path=row.path, hint="FILE.xml=TIMES")
            name = _named(row.file)
            if name in rows:
                rows[name].append(row)
            else:
                absent.setdefault(row.file, row)
        if absent and not any(rows.values()):
            name, row = next(iter(absent.items()))
            raise FileError(f"there is no {name!r} in this folder", path=row.path, line=row.line, hint=_HINT)
        if absent:
            notes.append(f"{folder}: no program here for the times of {', '.join(absent)}: left out")
    for name, program in programs.items():
        for log in (program.with_suffix(ending) for ending in _LOGS):
            if log.exists():
                rows[name] += _read_times(log, program, notes)
    without = [name for name, times in rows.items() if not times]
    if without and len(without) < len(rows):
        notes.append(f"{folder}: no times of {', '.join(without)}")
    for name, program in programs.items():
        yield program, rows[name]


def _named(file: str) -> str:
    """The name of a program's file, as a table may say it: with its folder, or without its ending."""
    name = file.replace("\\", "/").rpartition("/")[2]
    return name if name.lower().endswith(".xml") else f"{name}.xml"


def _read_times(path: Path, program: Path | None, notes: list[str]) -> Sequence[FileTime]:
    content = read_bytes(path)
    if len(content) > MOST_BYTES:
        raise FileError(f"has more than {units.format_size(MOST_BYTES)}", path=path)
    text = content.decode("utf-8", errors="replace")
    if program is None or looks_like_file_times(text):
        read = read_file_times(text, path)
    else:
        read = _of_benchmark(text, path)
    notes += read.notes
    return read.rows


def _of_benchmark(text: str, path: Path) -> FileTimes:
    """The times in place, which are the second of each row; the first are those of another algorithm.

    Raises
    ------
    FileError : the tool found wrong results, or printed nothing of the kind.
    """
    measured = parse_measured(text, str(path))
    rows: list[FileTime] = []
    single: list[int] = []
    for sweep in measured.sweeps:
        if sweep.fault is not None:
            what, line = sweep.fault
            raise FileError(f"the results were wrong: {what}", path=path, line=line)
        by_line: dict[int, list[Point]] = {}
        for point in sweep.points:
            by_line.setdefault(point.line, []).append(point)
        for line, points in by_line.items():
            if len(points) < 2:
                single.append(line)
            elif points[1].size_bytes > 0:
                rows.append(FileTime(None, points[1].size_bytes, points[1].time_us, str(path), line))
    notes = list(measured.warnings)
    if single:
        notes.append(f"{path}: no time in place on line {', '.join(map(str, single[:5]))}: left out")
    return FileTimes(tuple(rows), tuple(notes))


def _measured(path: Path, rows: Sequence[FileTime], notes: list[str]) -> MeasuredFile:
    """A program with the median time of each size at which it ends."""
    try:
        subject = of_file(path, read_bytes(path), None, None)
        program = subject.file.two_sided
        if program is None:
            raise TacclError("an executor is fitted to programs of sends and receives, and this is a plan")
    except TacclError as fault:
        fault.path = str(path)
        raise
    limit = _hangs_above(program)
    times: dict[int, list[float]] = {}
    for row in rows:
        times.setdefault(row.size_bytes, []).append(row.time_us)
    hung = sorted(size for size in times if limit is not None and size > limit)
    if hung:
        sizes = ", ".join(map(units.format_size, hung))
        notes.append(f"{path.name} hangs above {units.format_size(limit or 0)}: left out {sizes}")
    unit = _ELEMENT_BYTES * subject.num_chunks
    uneven = sorted(size for size in times if size % unit and size not in hung)
    if uneven:
        sizes = few(map(units.format_size, uneven), 4)
        notes.append(
            f"{path.name}: calls of {sizes} do not divide into its {subject.num_chunks} chunks, so the "
            "runtime used an algorithm of its own: left out"
        )
    kept = sorted(set(times) - set(hung) - set(uneven))
    return MeasuredFile(
        path.name,
        subject,
        program,
        np.array(kept, dtype=np.int64),
        np.array([float(np.median(times[size])) for size in kept]),
        limit,
    )


def _hangs_above(program: Program) -> int | None:
    """The largest call that ends, in bytes; 0 where none does, None where all do."""
    facts = verify_program(program, targets=None).facts
    return (facts.safe_bytes or 0) if facts.deadlock else None

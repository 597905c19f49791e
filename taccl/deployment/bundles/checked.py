"""What nccl-tests printed, next to what a bundle promised: which files were taken, how far times are off.

The folder itself is checked too: a file that is not as the manifest says is not what was verified.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from taccl.calibration.benchmarks.facts import Measured, Point, Sweep
from taccl.calibration.benchmarks.registry import parse_measured
from taccl.deployment.bundles.manifest import MANIFEST, Manifest, ManifestWindow, read_manifest
from taccl.deployment.bundles.texts import NAMES_FAILED, NAMES_RUNTIME
from taccl.errors import FileError
from taccl.model import units
from taccl.model.collectives import plain_name
from taccl.support.lists import few
from taccl.support.reading import bytes_of, utf8_text
from taccl.support.report import Report, Reported, Table

#: No manifest and no log has more bytes.
_MOST_BYTES = 2**28
#: Times that are off by more than this fraction in the median call for a fit of the machine.
_OFF = 0.2
#: What nccl-tests calls a collective where its log does not name the test.
_UNNAMED = "unnamed"
_NONE_SEEN = (
    "no plan of the bundle is named in the output, so these may be times of the library's own algorithms: "
    "only programs that import taccl_plans take plans, which nccl-tests does not; MSCCLPP_LOG_LEVEL=INFO "
    "names those that are executed"
)
_RUNTIME = re.compile(rf"^{re.escape(NAMES_RUNTIME)}(\S+)", re.MULTILINE)
_FAILED = re.compile(rf"^{re.escape(NAMES_FAILED)}(\S+)", re.MULTILINE)
_PLACES = {True: "in place", False: "out of place", None: "-"}
_HEADER = ("collective", "size", "calls", "take", "predicted (us)", "measured (us)", "measured/predicted")
_COLUMNS = (
    *("collective", "size_bytes", "in_place", "path", "kind", "predicted_us", "measured_us", "ratio"),
    "wrong",
)


@dataclass(frozen=True)
class CheckedSize:
    """One time that was measured.

    Parameters
    ----------
    in_place : whether it is of calls in place; None: nothing says so, and the file is taken to serve them.
    path : of the file that these calls take; None: the library's own algorithm, or outside of the bundle.
    kind : `plan`, `fallback` or `outside`.
    predicted_us, measured_us : microseconds; nothing is predicted of sizes that are not in the table, and of
        calls that take no file where others do.
    wrong : values that were wrong; None: they were not checked.
    error : by how much the larger of both may be larger, a fraction; None: nothing was promised.
    """

    collective: str
    size_bytes: int
    in_place: bool | None
    path: str | None
    kind: str
    predicted_us: float | None
    measured_us: float
    wrong: int | None
    error: float | None = None

    @property
    def is_as_promised(self) -> bool | None:
        """Whether the time is within the error; None: nothing was promised."""
        if not self.predicted_us or self.error is None:
            return None
        less, more = sorted((self.predicted_us, self.measured_us))
        return more <= less * (1 + self.error)

    @property
    def ratio(self) -> float | None:
        """Measured over predicted."""
        return None if not self.predicted_us else self.measured_us / self.predicted_us


@dataclass(frozen=True, eq=False)
class CheckedBundle(Reported):
    """A bundle next to measurements.

    Parameters
    ----------
    runtime : that ran the files.
    seen : names of plans of the bundle that the output says were executed; runtimes that write no log say
        nothing.
    faults : files that are not as the manifest says, tables with wrong values, and tests that failed: the
        files, or what runs them, must not be used.
    notes : what was not measured or not checked, and what follows.
    """

    folder: str
    runtime: str
    sizes: tuple[CheckedSize, ...]
    seen: tuple[str, ...]
    faults: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the files are those of the manifest, and nothing that was measured came out wrong."""
        return not self.faults

    def report(self) -> Report:
        """A row for each measured size, and a table."""
        rows: list[dict[str, Any]] = [
            {
                "collective": each.collective,
                "size_bytes": each.size_bytes,
                "in_place": each.in_place,
                "path": each.path,
                "kind": each.kind,
                "predicted_us": each.predicted_us,
                "measured_us": each.measured_us,
                "ratio": each.ratio,
                "wrong": each.wrong,
            }
            for each in self.sizes
        ]
        cells = [
            (
                *(each.collective, units.format_size(each.size_bytes), _PLACES[each.in_place]),
                each.path or each.kind,
                "-" if each.predicted_us is None else f"{each.predicted_us:.2f}",
                f"{each.measured_us:.2f}",
                "-" if each.ratio is None else f"{each.ratio:.2f}",
            )
            for each in self.sizes
        ]
        figures = {
            "folder": self.folder,
            "runtime": self.runtime,
            "ok": self.ok,
            "sizes": rows,
            "seen": list(self.seen),
            "faults": list(self.faults),
            "notes": list(self.notes),
        }
        return Report("taccl.bundle.check/1", figures, _COLUMNS, rows, Table(self.folder, cells, _HEADER))


def check_bundle(folder: str | Path, results: str | Path) -> CheckedBundle:
    """Compare what nccl-tests printed of a bundle's collectives with its manifest, and the folder with it.

    Raises
    ------
    FileError : there is no manifest in the folder, or a file cannot be read; a table does not name its
        collective; the results are of a runtime that the bundle has no files for.
    MeasurementError : the results are no output of nccl-tests, or of none of the collectives.
    """
    manifest = read_manifest(Path(folder) / MANIFEST)
    text = utf8_text(str(results), _MOST_BYTES, FileError)
    measured = parse_measured(text, str(results))
    sweeps = _named(measured, results)
    runtime, *notes = _runtime(manifest, text, results)
    sizes = tuple(
        _checked(manifest, runtime, plain_name(str(sweep.collective)), point)
        for sweep in sweeps
        for point in sweep.points
    )
    names = dict.fromkeys(name for window in manifest.windows for name in window.names.values())
    seen = tuple(name for name in names if _is_in(text, name))
    wrong = tuple(
        f"{sweep.collective}, line {sweep.fault[1]}: {sweep.fault[0]}"
        for sweep in sweeps
        if sweep.fault is not None
    )
    if manifest.needs_module and not seen:
        notes.append(_NONE_SEEN)
    notes += [*measured.warnings, *_notes(manifest, runtime, sizes, (sweep.ranks for sweep in sweeps))]
    failed = (f"{name}: its test failed" for name in dict.fromkeys(_FAILED.findall(text)))
    faults = (*_changed(Path(folder), manifest), *wrong, *failed)
    return CheckedBundle(str(folder), runtime, sizes, seen, faults, tuple(notes))


def _named(measured: Measured, results: str | Path) -> list[Sweep]:
    """The tables of collectives."""
    sweeps = [sweep for sweep in measured.sweeps if sweep.collective is not None]
    if not sweeps:
        raise FileError("no table of a collective is in it", path=results, hint="what check.sh prints")
    for sweep in sweeps:
        if sweep.collective == _UNNAMED:
            raise FileError(
                "this table does not name its collective, and nccl-tests does not either",
                path=results,
                line=sweep.line,
                hint="a line such as `# all_gather_perf` above each table, as check.sh prints it",
            )
    return sweeps


def _runtime(manifest: Manifest, text: str, results: str | Path) -> tuple[str, ...]:
    """The runtime that the results are of, and perhaps a note."""
    known = tuple(dict.fromkeys(name for window in manifest.windows for name in window.files))
    named = tuple(dict.fromkeys(_RUNTIME.findall(text)))
    if len(named) > 1:
        raise FileError(
            f"the results are of several runtimes, {', '.join(named)}", path=results, hint="a file for each"
        )
    if named and named[0] not in known:
        raise FileError(
            f"the results are of {named[0]}; the bundle is for {', '.join(known) or 'none'}", path=results
        )
    if named or len(known) == 1:
        return named or known
    return (
        known[0],
        f"the results do not name their runtime, and are taken for those of {known[0]}; check.sh names it in "
        f"a line `{NAMES_RUNTIME}NAME`",
    )


def _is_in(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


def _checked(manifest: Manifest, runtime: str, collective: str, point: Point) -> CheckedSize:
    size, path, kind = point.size_bytes, None, "outside"
    promised = error = None
    for window in manifest.windows:
        if window.collective == collective and window.min_bytes <= size <= window.max_bytes:
            path = _taken(window, runtime, point)
            kind = "fallback" if path is None else "plan"
            is_own = window.kind == "fallback" or size in window.unserved  # of every runtime
            if path is not None or is_own:
                promised, error = window.time_us.get(size), window.error.get(size)
            break
    return CheckedSize(
        collective, size, point.in_place, path, kind, promised, point.time_us, point.wrong, error
    )


def _taken(window: ManifestWindow, runtime: str, point: Point) -> str | None:
    """The file that a call takes; of a call of which nothing says whether it is in place, any of them."""
    if point.size_bytes in window.unserved:
        return None
    files = window.files.get(runtime, {})
    return next(iter(files.values()), None) if point.in_place is None else files.get(point.in_place)


def _changed(folder: Path, manifest: Manifest) -> Iterator[str]:
    """A sentence for each file of the folder that is not as the manifest says, or is not in it."""
    for path, digest in manifest.sha256.items():
        if not (folder / path).resolve().is_relative_to(folder.resolve()):
            raise FileError(f"the path {path} leaves the folder", path=folder / MANIFEST)
        if not (folder / path).is_file():
            yield f"{path} is missing"
        elif sha256(bytes_of(folder / path)).hexdigest() != digest:
            yield f"{path} is not what was verified: its SHA-256 is not that of the manifest"
    files = {Path(path) for window in manifest.windows for path in window.paths}
    for parent, ending in sorted({(path.parent, path.suffix) for path in files}):
        for found in sorted((folder / parent).glob(f"*{ending}")):
            if str(parent / found.name) not in manifest.sha256:
                yield f"{parent / found.name} is not in the manifest, and runtimes may take it"


def _notes(
    manifest: Manifest, runtime: str, sizes: Sequence[CheckedSize], ranks: Iterable[int | None]
) -> Iterator[str]:
    if manifest.is_interrupted:
        yield "the exploration of this bundle was interrupted"
    for other in sorted({many for many in ranks if many is not None} - {manifest.ranks}):
        yield f"the results are of {other} ranks, and the bundle is for {manifest.ranks}"
    yield from _not_measured(manifest, runtime, sizes)
    unchecked = [each for each in sizes if each.wrong is None]
    if unchecked:
        shown = few(
            dict.fromkeys(f"{each.collective} {units.format_size(each.size_bytes)}" for each in unchecked)
        )
        yield f"values were not checked (#wrong has no number): {shown}"
    ratios = [each.ratio for each in sizes if each.ratio is not None]
    if not ratios:
        yield "nothing was predicted of the sizes that were measured"
        return
    median = statistics.median(ratios)
    yield f"measured over predicted: {median:.2f} in the median, {min(ratios):.2f} to {max(ratios):.2f}"
    promised = [each.is_as_promised for each in sizes if each.is_as_promised is not None]
    if promised:
        yield f"{sum(promised)} of {len(promised)} times are within the error that was promised"
    if "links alone" in manifest.times_of:
        yield "predicted times are of links alone: real calls have launch and steps in them as well"
    if abs(median - 1) > _OFF:
        yield (
            "a fit would tell what executing costs here: taccl topology fit --runs FILE.xml=TIMES.csv "
            "--topology NAME -o machine.yaml, then the bundle anew with --topology machine.yaml"
        )


def _not_measured(manifest: Manifest, runtime: str, sizes: Sequence[CheckedSize]) -> Iterator[str]:
    """Sizes of the bundle of which no call was measured that takes what the manifest says."""
    done = {(each.collective, each.size_bytes, each.kind) for each in sizes}
    every: dict[str, list[tuple[int, str]]] = {}
    for window in manifest.windows:
        wanted = [(size, window.kind_for(runtime, size)) for size in window.sizes]
        every.setdefault(window.collective, []).extend(wanted)
    for collective, wanted in every.items():
        missing = [size for size, kind in wanted if (collective, size, kind) not in done]
        if len(missing) == len(wanted) and not any(each.collective == collective for each in sizes):
            yield f"{collective} was not measured"
        elif missing:
            yield (
                f"{collective}: {len(missing)} of {len(wanted)} sizes were not measured with what they take: "
                f"{few(map(units.format_size, missing))}"
            )

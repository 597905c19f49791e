"""What nccl-tests printed, next to what a bundle promised: which files were taken, how far times are off."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taccl.bundles.manifest import MANIFEST, Manifest, read_manifest
from taccl.calibration.benchmarks.registry import parse_measured
from taccl.errors import FileError
from taccl.model import units
from taccl.model.collectives import plain_name
from taccl.support.reading import utf8_text
from taccl.support.report import Report, Reported, Table

#: No manifest and no log has more bytes.
_MOST_BYTES = 2**28
#: Times that are off by more than this fraction in the median call for a fit of the machine.
_OFF = 0.2
_HEADER = ("collective", "size", "calls take", "predicted (us)", "measured (us)", "measured/predicted")
_COLUMNS = ("collective", "size_bytes", "path", "kind", "predicted_us", "measured_us", "ratio")


@dataclass(frozen=True)
class CheckedSize:
    """One size that was measured.

    Parameters
    ----------
    path : of the file that calls of this size take; None: a fallback, or outside of the bundle.
    predicted_us, measured_us : microseconds; nothing is predicted of sizes that are not in the table.
    error : by how much the larger of both may be larger, a fraction; None: nothing was promised.
    """

    collective: str
    size_bytes: int
    path: str | None
    kind: str
    predicted_us: float | None
    measured_us: float
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
    seen : names of plans of the bundle that the output says were executed; runtimes that write no log say
        nothing.
    faults : tables with wrong values: the files, or what runs them, must not be used.
    notes : what follows.
    """

    folder: str
    sizes: tuple[CheckedSize, ...]
    seen: tuple[str, ...]
    faults: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing that was measured came out wrong."""
        return not self.faults

    def report(self) -> Report:
        """A row for each measured size, and a table."""
        rows: list[dict[str, Any]] = [
            {
                "collective": each.collective,
                "size_bytes": each.size_bytes,
                "path": each.path,
                "kind": each.kind,
                "predicted_us": each.predicted_us,
                "measured_us": each.measured_us,
                "ratio": each.ratio,
            }
            for each in self.sizes
        ]
        cells = [
            (
                *(each.collective, units.format_size(each.size_bytes), each.path or each.kind),
                "-" if each.predicted_us is None else f"{each.predicted_us:.2f}",
                f"{each.measured_us:.2f}",
                "-" if each.ratio is None else f"{each.ratio:.2f}",
            )
            for each in self.sizes
        ]
        figures = {
            "folder": self.folder,
            "ok": self.ok,
            "sizes": rows,
            "seen": list(self.seen),
            "faults": list(self.faults),
            "notes": list(self.notes),
        }
        return Report("taccl.bundle.check/1", figures, _COLUMNS, rows, Table(self.folder, cells, _HEADER))


def check_bundle(folder: str | Path, results: str | Path) -> CheckedBundle:
    """Compare what nccl-tests printed of a bundle's collectives with its manifest.

    Raises
    ------
    FileError : there is no manifest in the folder, or a file cannot be read.
    MeasurementError : the results are no output of nccl-tests, or of none of the collectives.
    """
    manifest = read_manifest(Path(folder) / MANIFEST)
    text = utf8_text(str(results), _MOST_BYTES, FileError)
    measured = parse_measured(text, str(results))
    sweeps = [sweep for sweep in measured.sweeps if sweep.collective is not None]
    sizes = tuple(
        _checked(manifest, plain_name(str(sweep.collective)), point.size_bytes, point.time_us)
        for sweep in sweeps
        for point in sweep.points
    )
    if not sizes:
        raise FileError("no table of a collective is in it", path=results, hint="what check.sh prints")
    names = [path for window in manifest.windows for path in window.paths]
    seen = tuple(dict.fromkeys(Path(name).stem for name in names if f"taccl-{Path(name).stem}-" in text))
    faults = tuple(
        f"{sweep.collective}, line {sweep.fault[1]}: {sweep.fault[0]}"
        for sweep in sweeps
        if sweep.fault is not None
    )
    return CheckedBundle(str(folder), sizes, seen, faults, tuple(_notes(manifest, sizes, sweeps[0].ranks)))


def _checked(manifest: Manifest, collective: str, size_bytes: int, time_us: float) -> CheckedSize:
    for window in manifest.windows:
        if window.collective == collective and window.min_bytes <= size_bytes <= window.max_bytes:
            predicted_us = window.time_us.get(size_bytes)
            path = window.paths[0] if window.paths else None
            error = window.error.get(size_bytes)
            return CheckedSize(collective, size_bytes, path, window.kind, predicted_us, time_us, error)
    return CheckedSize(collective, size_bytes, None, "outside", None, time_us)


def _notes(manifest: Manifest, sizes: Sequence[CheckedSize], ranks: int | None) -> Iterator[str]:
    if ranks is not None and ranks != manifest.ranks:
        yield f"the results are of {ranks} ranks, and the bundle is for {manifest.ranks}"
    ratios = [each.ratio for each in sizes if each.ratio is not None]
    if not ratios:
        yield "nothing was predicted of the sizes that were measured"
        return
    median = statistics.median(ratios)
    yield f"measured over predicted: {median:.2f} in the median, {min(ratios):.2f} to {max(ratios):.2f}"
    promised = [each.is_as_promised for each in sizes if each.is_as_promised is not None]
    if promised:
        yield f"{sum(promised)} of {len(promised)} sizes are within the error that was promised"
    if "links alone" in manifest.times_of:
        yield "predicted times are of links alone: real calls have launch and steps in them as well"
    if abs(median - 1) > _OFF:
        yield (
            "a fit would tell what executing costs here: taccl topology fit --runs FILE.xml=TIMES.csv "
            "--topology NAME -o machine.yaml, then the bundle anew with --topology machine.yaml"
        )

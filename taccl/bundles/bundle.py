"""`bundle()`: an exploration becomes a folder that a runtime is pointed at."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

import taccl
from taccl.analysis.baseline import baseline
from taccl.analysis.baseline_size import BaselineSize
from taccl.backend.target import AnyTarget
from taccl.backend.targets.registry import DEFAULT_TARGET, find_target
from taccl.bundles.files import BundleFile, files_of_windows
from taccl.bundles.manifest import MANIFEST
from taccl.bundles.texts import CHECK, ENVIRONMENT, check_script, environment_script, read_me
from taccl.bundles.windows import windows_of
from taccl.deployment import deploy
from taccl.deployment.first_run import torchrun_commands
from taccl.errors import NoScheduleInTime, TacclError
from taccl.exploration.explore import explore
from taccl.exploration.explored import Explored
from taccl.exploration.question import Question
from taccl.model import units
from taccl.support.files import write_folder
from taccl.support.report import Report, Reported, Table
from taccl.synthesis.lowering import OutputFile
from taccl.topologies import PhysicalTopology

#: For NCCL's estimates alone: the bounds are there already.
_NO_BOUNDS_S = 1e-3
_COLUMNS = ("path", "collective", "min_bytes", "max_bytes", "time_us", "lower_bound_us", "kind", "reason")
_HEADER = ("collective", "from", "to", "time (us)", "bound (us)", "file")


@dataclass(frozen=True, eq=False)
class Bundle(Reported):
    """Files that tile the sizes of each collective, with all that it takes to run and check them.

    Parameters
    ----------
    explored : the table that they were chosen from.
    target : what they are for.
    files : by collective, from small calls to large ones.
    texts : the contents of the folder, by paths in it.
    """

    explored: Explored
    target: AnyTarget
    files: tuple[BundleFile, ...]
    texts: dict[str, str | bytes]

    def write(self, folder: str | Path) -> None:
        """Write all of it into a new or empty folder, or nothing.

        Raises
        ------
        FileError : the folder is not empty, or cannot be written.
        """
        write_folder(Path(folder), self.texts)
        (Path(folder) / CHECK).chmod(0o755)

    def report(self) -> Report:
        """What each call takes, one row for each window of sizes, and a table."""
        rows = [_figures(file) for file in self.files]
        figures = {
            "target": self.target.name,
            "topologies": [envelope.question.machine.name for envelope in self.explored.envelopes],
            "files": rows,
            "notes": list(self.explored.notes),
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
                "-" if row["time_us"] is None else f"{row['time_us']:.2f}",
                f"{row['lower_bound_us']:.2f}",
                ", ".join(_paths(file).values()) or f"fallback: {file.reason}",
            )
            for file in self.files
            for row in [_figures(file)]
        ]


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
    TacclError : as `taccl.explore`, or a target whose files no runtime finds by itself.
    """
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
    texts = _texts(files, target, explored)
    return Bundle(explored, target, tuple(files), texts)


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


def _texts(files: Sequence[BundleFile], target: AnyTarget, explored: Explored) -> dict[str, str | bytes]:
    """The contents of the folder."""
    machine = explored.envelopes[0].question.machine
    by_runtime: dict[str, dict[str, OutputFile]] = {}
    for file in files:
        for output in file.outputs:
            for reader in output.readers:
                by_runtime.setdefault(reader, {})[file.file_name(output)] = output
    texts: dict[str, str | bytes] = {
        f"{runtime}/{name}": output.text
        for runtime, outputs in by_runtime.items()
        for name, output in outputs.items()
    }
    lines: dict[str, Sequence[str]] = {}
    for runtime, outputs in by_runtime.items():
        if target.environment is not None:
            lines[runtime] = target.environment(
                runtime, {name: each.program for name, each in outputs.items()}
            )
        else:
            module, lines[runtime] = _module(outputs, machine)
            texts |= {f"{runtime}/{name}": text for name, text in module.items()}
    use = [
        f"Point a runtime at it, in this folder: `RUNTIME=NAME; . ./{ENVIRONMENT}`",
        f"with NAME one of {', '.join(lines)}.",
    ]
    title = f"Collectives of {machine.name}"
    texts |= {
        ENVIRONMENT: environment_script(lines),
        CHECK: check_script(files, list(lines)),
        "README.md": read_me(title, files, use),
    }
    hashes = {
        path: sha256(text.encode() if isinstance(text, str) else text).hexdigest()
        for path, text in texts.items()
    }
    texts[MANIFEST] = json.dumps(_manifest(files, target, explored, hashes), indent=2) + "\n"
    return texts


def _module(
    outputs: dict[str, OutputFile], machine: PhysicalTopology
) -> tuple[dict[str, str | bytes], Sequence[str]]:
    """The module that registers plans, and how a program is started that imports it."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in outputs]
        for path, output in zip(paths, outputs.values(), strict=True):
            path.write_text(output.text, encoding="utf-8")
        deployment = deploy(paths, topology=machine)
        module = {name: text for name, text in deployment.folder_texts().items() if name not in outputs}
    lines = [
        'export PYTHONPATH="$HERE:$PYTHONPATH"  # in the program: import taccl_plans; taccl_plans.register()',
        *(f"# {line}" for line in torchrun_commands(deployment.plans)),
    ]
    return module, lines


def _manifest(
    files: Sequence[BundleFile], target: AnyTarget, explored: Explored, hashes: Mapping[str, str]
) -> dict[str, object]:
    machine = explored.envelopes[0].question.machine
    return {
        "schema": "taccl.bundle.manifest/1",
        "taccl": taccl.__version__,
        "topology": machine.name,
        "ranks": machine.num_members,
        "nodes": machine.num_nodes,
        "target": target.name,
        "times_of": explored.times_of,
        "files": [
            _figures(file)
            | {
                "paths": _paths(file),
                "verified_for": [list(output.readers) for output in file.outputs],
                "sizes": [
                    {"size_bytes": size, "time_us": time_us, "lower_bound_us": bound_us}
                    | {"error": _error(file, machine, size)}
                    for size, time_us, bound_us in file.sizes
                ],
            }
            for file in files
        ],
        "sha256": dict(hashes),
        "notes": list(explored.notes),
    }


def _error(file: BundleFile, machine: PhysicalTopology, size_bytes: int) -> float | None:
    """How far the time of a file may be off, a fraction; None: it is of links alone, or the library's."""
    return None if file.kind != "plan" or machine.executor is None else machine.executor.error(size_bytes)


def _paths(file: BundleFile) -> dict[str, str]:
    """The path of the file for each runtime."""
    return {
        reader: f"{reader}/{file.file_name(output)}" for output in file.outputs for reader in output.readers
    }


def _figures(file: BundleFile) -> dict[str, Any]:
    """A window as plain values; the time is that of its largest size in the table."""
    size_bytes, time_us, bound_us = file.sizes[-1]
    curve = file.window.curve if file.kind == "plan" else None
    return {
        "path": next(iter(_paths(file).values()), None),
        "collective": file.collective,
        "root": file.root,
        "min_bytes": file.window.min_bytes,
        "max_bytes": file.window.max_bytes,
        "size_bytes": size_bytes,
        "time_us": time_us,
        "lower_bound_us": bound_us,
        "kind": file.kind,
        "reason": file.reason,
        "protocol": None if curve is None else curve.answer.configuration.protocol,
        "instances": None if curve is None else curve.answer.configuration.instances,
        "chunks_per_rank": None if curve is None else curve.chunks,
    }

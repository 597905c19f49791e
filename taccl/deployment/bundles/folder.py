"""The contents of the folder of a bundle: files for each runtime, scripts, a page and the manifest."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import taccl
from taccl.analysis.exploration.explored import Explored
from taccl.backend.target import AnyTarget
from taccl.deployment.bundles.files import BundleFile
from taccl.deployment.bundles.manifest import CALLS, MANIFEST, SCHEMA
from taccl.deployment.bundles.texts import (
    CHECK,
    ENVIRONMENT,
    Served,
    check_script,
    environment_script,
    read_me,
)
from taccl.deployment.deployment import deploy
from taccl.deployment.first_run import cautions, placeholders, torchrun_commands
from taccl.synthesis.lowering import OutputFile
from taccl.topologies import PhysicalTopology

_NEEDS_MODULE = (
    "",
    "Plans run only in programs that import `taccl_plans`. nccl-tests does not import it: its times are",
    "those of the algorithms that MSCCL++ and NCCL have. Time your own program, with",
    "`MSCCLPP_LOG_LEVEL=INFO`, which names the plans in the log.",
)


@dataclass(frozen=True)
class _Runtime:
    """What a runtime is given.

    Parameters
    ----------
    texts : besides the files, by their paths in the folder.
    lines : of the script that points the runtime at its files.
    serves : by the path of each file, the calls that take it: True for those in place.
    cautions : what has to be kept in mind, by the names of files.
    """

    texts: Mapping[str, str | bytes]
    lines: Sequence[str]
    serves: Mapping[str, Sequence[bool]]
    cautions: Mapping[str, Sequence[str]] = field(default_factory=dict)


def status_of(explored: Explored) -> str:
    """How the exploration ended."""
    return "interrupted" if explored.interrupted else "finished"


def folder_texts(
    files: Sequence[BundleFile], target: AnyTarget, explored: Explored, notes: Sequence[str]
) -> dict[str, str | bytes]:
    """The contents of the folder, by their paths in it."""
    machine = explored.envelopes[0].question.machine
    outputs = {path: output for file in files for path, output in file.by_path.items()}
    runtimes = {
        runtime: _runtime(runtime, own, target, machine)
        for runtime in target.runtimes
        if (own := {path: each for path, each in outputs.items() if path.startswith(f"{runtime}/")})
    }
    texts: dict[str, str | bytes] = {path: output.text for path, output in outputs.items()}
    for each in runtimes.values():
        texts |= each.texts
    served = [_served(file, target, runtimes) for file in files]
    use = [
        f"Point a runtime at it, in this folder: `RUNTIME=NAME; . ./{ENVIRONMENT}`",
        f"with NAME one of {', '.join(runtimes)}.",
    ]
    if target.environment is None:
        use += _NEEDS_MODULE
    for each in runtimes.values():
        use += _listed(each.cautions)
    interrupted = ["**The exploration was interrupted.**"] if explored.interrupted else []
    of_files = list(zip(files, served, strict=True))
    texts |= {
        ENVIRONMENT: environment_script({name: each.lines for name, each in runtimes.items()}),
        CHECK: check_script(files, list(runtimes)),
        "README.md": read_me(f"Collectives of {machine.name}", of_files, use, [*interrupted, *notes]),
    }
    hashes = {
        path: sha256(text.encode() if isinstance(text, str) else text).hexdigest()
        for path, text in texts.items()
    }
    manifest = _manifest(of_files, target, explored, hashes) | {"notes": list(notes)}
    texts[MANIFEST] = json.dumps(manifest, indent=2) + "\n"
    return texts


def _runtime(
    runtime: str, outputs: Mapping[str, OutputFile], target: AnyTarget, machine: PhysicalTopology
) -> _Runtime:
    """What one of the runtimes is given with its files."""
    if target.environment is None or target.serves is None:
        return _module(runtime, outputs, machine)
    programs = {Path(path).name: output.program for path, output in outputs.items()}
    serves = {path: target.serves(output.program, runtime) for path, output in outputs.items()}
    return _Runtime({}, target.environment(runtime, programs), serves)


def _module(runtime: str, outputs: Mapping[str, OutputFile], machine: PhysicalTopology) -> _Runtime:
    """The module that registers plans and chooses one for each call, and how a program is started with it."""
    names = {Path(path).name: path for path in outputs}
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in names]
        for path, output in zip(paths, outputs.values(), strict=True):
            path.write_text(output.text, encoding="utf-8")
        deployment = deploy(paths, topology=machine)
        texts = {
            f"{runtime}/{name}": text for name, text in deployment.folder_texts().items() if name not in names
        }
    lines = [
        'export PYTHONPATH="$HERE:$PYTHONPATH"  # in the program: import taccl_plans; taccl_plans.register()',
        *(f"# {line}" for line in (*torchrun_commands(deployment.plans), *placeholders(deployment.plans))),
    ]
    serves = {names[plan.path.name]: plan.in_place for plan in deployment.plans}
    return _Runtime(
        texts, lines, serves, {plan.path.stem: tuple(cautions(plan)) for plan in deployment.plans}
    )


def _listed(said: Mapping[str, Sequence[str]]) -> list[str]:
    """Each caution once, with the files that it is for."""
    files: dict[str, list[str]] = {}
    for name, of_file in said.items():
        for caution in of_file:
            files.setdefault(caution, []).append(name)
    return [line for caution, names in files.items() for line in ("", f"- {', '.join(names)}: {caution}")]


def _served(file: BundleFile, target: AnyTarget, runtimes: Mapping[str, _Runtime]) -> Served:
    """For each runtime, the paths of the files that calls in place and others take; None: no file."""
    return {
        runtime: {
            name: path if path is not None and way in runtimes[runtime].serves[path] else None
            for name, way in CALLS.items()
        }
        for runtime in target.runtimes
        for path in [file.paths.get(runtime)]
    }


def _manifest(
    files: Sequence[tuple[BundleFile, Served]],
    target: AnyTarget,
    explored: Explored,
    hashes: Mapping[str, str],
) -> dict[str, Any]:
    machine = explored.envelopes[0].question.machine
    return {
        "schema": SCHEMA,
        "taccl": taccl.__version__,
        "status": status_of(explored),
        "topology": machine.name,
        "ranks": machine.num_members,
        "nodes": machine.num_nodes,
        "target": target.name,
        "needs_module": target.environment is None,
        "times_of": explored.times_of,
        "files": [
            file.figures()
            | {
                "paths": file.paths,
                "calls": served,
                "names": {path: output.program.name for path, output in file.by_path.items()},
                "verified_for": [list(output.readers) for output in file.outputs],
                "sizes": [
                    {"size_bytes": size, "time_us": time_us, "lower_bound_us": bound_us}
                    | {"error": _error(file, machine, size)}
                    for size, time_us, bound_us in file.sizes
                ],
            }
            for file, served in files
        ],
        "sha256": dict(hashes),
    }


def _error(file: BundleFile, machine: PhysicalTopology, size_bytes: int) -> float | None:
    """How far the time of a file may be off, a fraction; None: it is of links alone, or the library's."""
    if file.kind != "plan" or size_bytes in file.unserved or machine.executor is None:
        return None
    return machine.executor.error(size_bytes)

"""The published sketches: the repository's folder `sketches/`, or its copy in an installation."""

from __future__ import annotations

import os
from functools import cache
from importlib import metadata
from pathlib import Path, PurePosixPath

from taccl.errors import SketchError
from taccl.sketch.load import load_sketch
from taccl.sketch.model import Sketch
from taccl.support.arguments import file_path, shown
from taccl.topologies.strict_yaml import nearest

#: Where setup.cfg installs the sketches, below the prefix.
_INSTALLED = PurePosixPath("share/taccl/sketches")
_SUFFIXES = (".yaml", ".yml", ".json")


def published_sketches() -> tuple[Sketch, ...]:
    """The published sketches, by name."""
    return tuple(load_sketch(path) for path in published_files())


@cache
def published_files() -> tuple[Path, ...]:
    """The files of the published sketches, by name; none if the installation lacks them."""
    next_to_package = Path(__file__).parents[2]
    folders = (next_to_package / "sketches", next_to_package / _INSTALLED, *_recorded_folders())
    return next((tuple(found) for folder in folders if (found := sorted(folder.glob("*.yaml")))), ())


def _recorded_folders() -> list[Path]:
    """Where the installer says that it put the files."""
    try:
        files = metadata.files("taccl") or []
    except metadata.PackageNotFoundError:
        return []
    return list(
        {Path(str(file.locate())).resolve().parent for file in files if file.parent.match(str(_INSTALLED))}
    )


def find_sketch(name_or_path: str | Path) -> Path:
    """The file of a sketch: a published name such as `ndv2-sk-1`, or a path, which is returned as it is.

    A published name goes before a file or folder of that name in the working directory.

    Raises
    ------
    SketchError : a bare name that is neither published nor there as a file.
    """
    text = os.fspath(file_path(name_or_path, SketchError))
    published = {path.stem: path for path in published_files()}
    if text in published:
        return published[text]
    path = Path(text)
    if path.suffix in _SUFFIXES or path.name != text or _is_there(path):
        return path
    raise SketchError(
        f"there is no sketch {shown(text)}",
        hint=f"{nearest(text, published)} (published), or the path of a file" if published else None,
    )


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # no name of a file at all
        return False

"""The manifest of a bundle as it is read back: which calls take which file, and what was predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from taccl.errors import FileError
from taccl.support.arguments import is_number, is_whole
from taccl.support.json_text import parse_json
from taccl.support.reading import bytes_of

MANIFEST = "manifest.json"
SCHEMA = "taccl.bundle.manifest/1"
#: How calls are made, as the manifest spells it: whether their buffers are one.
CALLS = {"out_of_place": False, "in_place": True}
_ANEW = "make the bundle anew: this version of taccl writes it"


@dataclass(frozen=True)
class ManifestWindow:
    """Calls of some sizes.

    Parameters
    ----------
    files : by runtime, the paths of the files that calls take, by whether these are in place. A call that has
        none takes what the library does by itself.
    names : of the programs in its files, by their paths, as logs have them.
    sizes : of the table, bytes.
    unserved : those that no file takes.
    time_us : what was predicted, by these sizes; those of which nothing is known are left out.
    error : by how much the larger of a predicted and a measured time may be larger, a fraction, by the same
        sizes.
    """

    collective: str
    min_bytes: int
    max_bytes: int
    kind: str
    files: Mapping[str, Mapping[bool, str]]
    names: Mapping[str, str]
    sizes: tuple[int, ...]
    unserved: frozenset[int]
    time_us: Mapping[int, float]
    error: Mapping[int, float]

    @property
    def paths(self) -> tuple[str, ...]:
        """Of its files."""
        return tuple(dict.fromkeys(path for of_calls in self.files.values() for path in of_calls.values()))

    def kind_for(self, runtime: str, size_bytes: int) -> str:
        """`plan` if one of the runtimes has a file for some of the calls of a size, else `fallback`."""
        return "plan" if self.files.get(runtime) and size_bytes not in self.unserved else "fallback"


@dataclass(frozen=True)
class Manifest:
    """What a bundle promises.

    Parameters
    ----------
    needs_module : whether only programs that import a module take the files.
    times_of : what its times are of, and what they leave out.
    is_interrupted : whether the exploration was.
    sha256 : of the files of the folder, by their paths in it.
    """

    needs_module: bool
    ranks: int
    times_of: str
    is_interrupted: bool
    windows: tuple[ManifestWindow, ...]
    sha256: Mapping[str, str]


def read_manifest(path: Path) -> Manifest:
    """The manifest in a file.

    Raises
    ------
    FileError : it cannot be read, or is no manifest; a path in it leaves the folder.
    """
    values, _ = parse_json(bytes_of(path), str(path), FileError, "what taccl bundle wrote")
    try:
        return _manifest(values)
    except KeyError as missing:
        raise FileError(
            f"this manifest of a bundle has no {missing.args[0]!r}", path=path, hint=_ANEW
        ) from missing
    except (TypeError, ValueError, AttributeError) as fault:
        why = f": {fault.args[0]}" if isinstance(fault, _NotSo) else ""
        raise FileError(
            f"this is no manifest of a bundle{why}", path=path, hint="what taccl bundle wrote"
        ) from fault


class _NotSo(ValueError):
    """What the manifest must not say, in words."""


def _manifest(values: Any) -> Manifest:
    if values["schema"] != SCHEMA:
        raise _NotSo(f"its schema is not {SCHEMA}")
    if not isinstance(values["files"], list) or values["status"] not in ("finished", "interrupted"):
        _refuse()
    hashes = {_inside(path): _text(digest) for path, digest in values["sha256"].items()}
    windows = tuple(map(_window, values["files"]))
    for window in windows:
        for path in window.paths:
            if path not in hashes:
                raise _NotSo(f"no hash of {path}")
    return Manifest(
        _truth(values["needs_module"]),
        _whole(values["ranks"]),
        _text(values["times_of"]),
        values["status"] == "interrupted",
        windows,
        hashes,
    )


def _window(values: Any) -> ManifestWindow:
    files = {runtime: _of_calls(of_calls) for runtime, of_calls in values["calls"].items()}
    if values["kind"] != ("plan" if any(files.values()) else "fallback"):
        _refuse()
    return ManifestWindow(
        _text(values["collective"]),
        _whole(values["min_bytes"]),
        _whole(values["max_bytes"]),
        values["kind"],
        files,
        {_inside(path): _text(name) for path, name in values["names"].items()},
        tuple(_whole(each["size_bytes"]) for each in values["sizes"]),
        frozenset(_whole(each["size_bytes"]) for each in values["unserved"]),
        _by_size(values["sizes"], "time_us"),
        _by_size(values["sizes"], "error"),
    )


def _of_calls(paths: Any) -> dict[bool, str]:
    return {way: _inside(paths[name]) for name, way in CALLS.items() if paths[name] is not None}


def _by_size(sizes: Any, key: str) -> dict[int, float]:
    return {_whole(each["size_bytes"]): _amount(each[key]) for each in sizes if each[key] is not None}


def _inside(path: object) -> str:
    """A path that stays in the folder, whatever it is a path of."""
    parts = PurePosixPath(_text(path)).parts
    if not parts or parts[0] == "/" or ".." in parts:
        raise _NotSo(f"the path {path} leaves the folder")
    return str(path)


def _text(value: object) -> str:
    if not isinstance(value, str):
        _refuse()
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        _refuse()
    return value


def _whole(value: object) -> int:
    if not is_whole(value) or value < 0:
        _refuse()
    return value


def _amount(value: object) -> float:
    if not is_number(value) or value < 0:
        _refuse()
    return float(value)


def _refuse() -> NoReturn:
    raise ValueError

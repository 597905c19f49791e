"""The manifest of a bundle as it is read back: which calls take which file, and what was predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from taccl.errors import FileError
from taccl.support.arguments import is_number, is_whole
from taccl.support.json_text import parse_json
from taccl.support.reading import bytes_of

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class ManifestWindow:
    """Calls of some sizes.

    Parameters
    ----------
    paths : of their file, one for each runtime; none: what the library does by itself.
    time_us : what was predicted, by the sizes of the table; sizes of which nothing is known are left out.
    error : by how much the larger of a predicted and a measured time may be larger, a fraction, by the same
        sizes.
    """

    collective: str
    min_bytes: int
    max_bytes: int
    kind: str
    paths: tuple[str, ...]
    time_us: Mapping[int, float]
    error: Mapping[int, float]


@dataclass(frozen=True)
class Manifest:
    """What a bundle promises.

    Parameters
    ----------
    times_of : what its times are of, and what they leave out.
    """

    ranks: int
    times_of: str
    windows: tuple[ManifestWindow, ...]


def read_manifest(path: Path) -> Manifest:
    """The manifest in a file.

    Raises
    ------
    FileError : it cannot be read, or is no manifest.
    """
    values, _ = parse_json(bytes_of(path), str(path), FileError, "what taccl bundle wrote")
    try:
        return _manifest(values)
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise FileError(
            "this is no manifest of a bundle", path=path, hint="what taccl bundle wrote"
        ) from fault


def _manifest(values: Any) -> Manifest:
    if not isinstance(values["files"], list):
        _refuse()
    return Manifest(_whole(values["ranks"]), str(values["times_of"]), tuple(map(_window, values["files"])))


def _window(values: Any) -> ManifestWindow:
    paths = tuple(values["paths"].values())
    if not all(isinstance(each, str) for each in (values["collective"], values["kind"], *paths)):
        _refuse()
    return ManifestWindow(
        values["collective"],
        _whole(values["min_bytes"]),
        _whole(values["max_bytes"]),
        values["kind"],
        paths,
        _by_size(values["sizes"], "time_us"),
        _by_size(values["sizes"], "error"),
    )


def _by_size(sizes: Any, key: str) -> dict[int, float]:
    return {_whole(each["size_bytes"]): _amount(each[key]) for each in sizes if each.get(key) is not None}


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

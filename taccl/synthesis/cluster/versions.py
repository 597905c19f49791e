"""What a process is made of, so that workers with another taccl or Python are distinguished.

It loads nothing else of this package, so a worker says it at once.
"""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path


@dataclass(frozen=True)
class About:
    """What a worker is made of, reported before it gets a task: version of taccl, of Python and of NumPy.

    `source` tells copies of taccl with the same version and other contents apart.
    """

    taccl: str
    source: str
    python: str
    numpy: str

    def __str__(self) -> str:
        return f"taccl {self.taccl} ({self.source}), Python {self.python}, NumPy {self.numpy}"


def about() -> About:
    """What this process is made of."""
    return About(
        taccl=metadata.version("taccl"),
        source=_source(),
        python=".".join(platform.python_version_tuple()[:2]),
        numpy=metadata.version("numpy"),
    )


def _source() -> str:
    """A few letters that are others where a line of this package is another."""
    root, digest = Path(__file__).parents[2], hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]

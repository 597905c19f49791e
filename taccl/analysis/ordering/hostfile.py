"""Files that tell launchers the order of hosts, and lists of host names.

hostfile : `name slots=8`, one line a host, as Open MPI and horovodrun take it.
rankfile : `rank 3=name slot=1`, one line a rank, of Open MPI (`--rankfile`): it does not sort these.
slurm : one line a task, for `SLURM_HOSTFILE` with `srun --distribution=arbitrary`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from taccl.errors import FileError
from taccl.support.arguments import word
from taccl.support.files import read_bytes

Format = Literal["hostfile", "rankfile", "slurm"]
FORMATS: tuple[Format, ...] = get_args(Format)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,252}")


def host_names(path: str | Path, count: int) -> tuple[str, ...]:
    """The first word of each line, one for each host; `#` begins a comment.

    Raises
    ------
    FileError : it cannot be read, has another number of hosts, names one twice, or a word that is no name.
    """
    lines = read_bytes(path).decode("utf-8", "replace").splitlines()
    names: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        words = line.split("#")[0].replace(":", " ").split()
        if not words:
            continue
        name = words[0]
        if _NAME.fullmatch(name) is None:
            raise FileError(f"{name[:40]!r} is no name of a host", path=path, line=number)
        if name in names:
            raise FileError(f"{name} is already on line {names[name]}", path=path, line=number)
        names[name] = number
    if len(names) != count:
        raise FileError(
            f"it names {len(names)} hosts, and {count} are ordered", path=path, hint="one line for each host"
        )
    return tuple(names)


def hosts_text(names: Sequence[str], slots: int, format: Format) -> str:
    """The file of hosts in this order, each with as many slots as it has GPUs.

    Raises
    ------
    FileError : no such format.
    """
    word(format, "format", FORMATS, FileError)
    if format == "hostfile":
        lines = [f"{name} slots={slots}" for name in names]
    elif format == "slurm":
        lines = [name for name in names for _ in range(slots)]
    else:
        every = [(name, slot) for name in names for slot in range(slots)]
        lines = [f"rank {rank}={name} slot={slot}" for rank, (name, slot) in enumerate(every)]
    return "\n".join(lines) + "\n"

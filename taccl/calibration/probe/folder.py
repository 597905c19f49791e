"""What stands next to the programs of a probe: how they are run, and what to bring back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

from taccl.model import units

_TESTS = {"allgather": "all_gather_perf", "allreduce": "all_reduce_perf"}


def commands(num_ranks: int) -> list[str]:
    """What to type, in this order."""
    return [
        f"sh run.sh RUNTIME /path/to/nccl-tests/build mpirun -np {num_ranks}",
        "taccl topology fit --runs FOLDER --topology MACHINE -o fitted.yaml",
    ]


def script(rows: Sequence[Mapping[str, object]], num_ranks: int, sizes: tuple[int, int, int]) -> str:
    """The shell script that runs every program and keeps its output."""
    calls = "\n".join(
        f'measure {str(row["file"]).removesuffix(".xml")} {_TESTS[str(row["collective"])]} "$@"'
        for row in rows
    )
    return _filled("run.sh", num_ranks, sizes, {"CALLS": calls})


def readme(
    topology: str,
    rows: Sequence[Mapping[str, object]],
    num_ranks: int,
    sizes: tuple[int, int, int],
    notes: Sequence[str],
) -> str:
    """What the folder is for, and what to bring back."""
    table = "\n".join(
        f"| {row['file']} | {row['tells']} | {row['thread_blocks']} | {', '.join(_names(row['readers']))} |"
        for row in rows
    )
    run, fit = commands(num_ranks)
    more = {"TOPOLOGY": topology, "PROGRAMS": str(len(rows)), "RUN": run, "FIT": fit, "TABLE": table}
    more["NOTES"] = "".join(f"\n\nNote: {note}." for note in notes)
    return _filled("readme.txt", num_ranks, sizes, more)


def _filled(name: str, num_ranks: int, sizes: tuple[int, int, int], more: Mapping[str, str]) -> str:
    """The text of a file next to this module, with values in place of its @WORDS@."""
    least, largest, factor = sizes
    values = {"RANKS": str(num_ranks), "LEAST": str(least), "LARGEST": str(largest), "FACTOR": str(factor)}
    values |= {"SMALLEST_SIZE": units.format_size(least), "LARGEST_SIZE": units.format_size(largest), **more}
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return re.sub("@([A-Z_]+)@", lambda word: values[word[1]], text)


def _names(readers: object) -> list[str]:
    return [str(reader) for reader in readers] if isinstance(readers, list) else []

"""What stands next to the programs of a probe: how they are run, and what to bring back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taccl.model import units

_TESTS = {"allgather": "all_gather_perf", "allreduce": "all_reduce_perf"}

_SCRIPT = """\
#!/bin/sh
# Runs each program of this folder with nccl-tests or rccl-tests, and keeps what that prints next to it.
#
# usage: sh run.sh RUNTIME TESTS [LAUNCHER ...]
#   RUNTIME   msccl, executor or rccl: who reads MSCCL-XML here
#   TESTS     the folder of all_gather_perf and all_reduce_perf, built with MPI
#   LAUNCHER  what starts one process per GPU; without one: mpirun -np {ranks}
#             On several nodes it must pass on the variables set below, as in
#             mpirun -np {ranks} -H a,b -x MSCCL_XML_FILES -x NCCL_ALGO -x MSCCL_ALGO_DIR

if [ $# -lt 2 ]; then
    sed -n '4,9s/^# //p' "$0" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
runtime=$1
tests=$2
shift 2
[ $# -gt 0 ] || set -- mpirun -np {ranks}

measure() {{
    name=$1
    test=$2
    shift 2
    alone="$here/alone/$name"
    mkdir -p "$alone"
    cp "$here/$name.xml" "$alone/"
    case $runtime in
        msccl) export MSCCL_XML_FILES="$alone/$name.xml" NCCL_ALGO=MSCCL,RING,TREE ;;
        executor) export MSCCL_ALGO_DIR="$alone" ;;
        rccl) export MSCCL_ALGO_DIR="$alone" RCCL_MSCCL_FORCE_ENABLE=1 ;;
        *) echo "no runtime $runtime: msccl, executor or rccl" >&2; exit 2 ;;
    esac
    echo "$name"
    timeout 600 "$@" "$tests/$test" -b {least} -e {largest} -f {factor} -g 1 -w 20 -n 100 -c 1 \\
        > "$here/$name.txt" 2> "$here/$name.err" || echo "$name: did not end well, see $name.err" >&2
}}

{calls}
rm -r "$here/alone"
"""


def commands(num_ranks: int) -> list[str]:
    """What to type, in this order."""
    return [
        f"sh run.sh RUNTIME /path/to/nccl-tests/build mpirun -np {num_ranks}",
        "taccl topology fit --runs FOLDER --topology MACHINE -o fitted.yaml",
    ]


def script(rows: Sequence[Mapping[str, object]], num_ranks: int, sizes: tuple[int, int, int]) -> str:
    """The shell script that runs every program and keeps its output."""
    least, largest, factor = sizes
    calls = "\n".join(
        f'measure {str(row["file"]).removesuffix(".xml")} {_TESTS[str(row["collective"])]} "$@"'
        for row in rows
    )
    return _SCRIPT.format(ranks=num_ranks, least=least, largest=largest, factor=factor, calls=calls)


def readme(
    topology: str,
    rows: Sequence[Mapping[str, object]],
    num_ranks: int,
    sizes: tuple[int, int, int],
    notes: Sequence[str],
) -> str:
    """What the folder is for, and what to bring back."""
    least, largest, factor = sizes
    span = f"{units.format_size(least)} to {units.format_size(largest)}, each {factor} times the one before"
    table = ["| file | what its times tell | thread blocks a GPU | runtimes |", "|---|---|---|---|"]
    table += [
        f"| {row['file']} | {row['tells']} | {row['thread_blocks']} | {', '.join(_names(row['readers']))} |"
        for row in rows
    ]
    run, fit = commands(num_ranks)
    lines = [
        f"# Programs that tell what {topology} really takes",
        "",
        f"{len(rows)} small programs in MSCCL-XML, each verified, for {num_ranks} GPUs with a process each.",
        "",
        "1. On the machine, with nccl-tests or rccl-tests built with MPI, and msccl, executor or rccl:",
        "",
        f"       {run}",
        "",
        f"   It measures each program at {span}.",
        "   A runtime replaces a program that it does not take by its own algorithm, without a word: look",
        "   once with NCCL_DEBUG=INFO whether the files are loaded.",
        "",
        "2. Bring back this folder with the .txt files in it. In their place, a table `times.csv` with the",
        "   columns `file`, `size_bytes` and `in_place_us` will do.",
        "",
        "3. Where taccl is:",
        "",
        f"       {fit}",
        "",
        *table,
        *(f"\nNote: {note}." for note in notes),
    ]
    return "\n".join(lines) + "\n"


def _names(readers: object) -> list[str]:
    return [str(reader) for reader in readers] if isinstance(readers, list) else []

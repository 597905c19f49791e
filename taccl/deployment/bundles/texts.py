"""What a bundle says to those who deploy it: how to point a runtime at its files, how to check them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from taccl.deployment.bundles.files import BundleFile, test_program
from taccl.model import units

#: The names of the scripts, and of what the test prints.
ENVIRONMENT, CHECK, RESULTS = "env.sh", "check.sh", "results.txt"
#: How the check begins the line that names its runtime, and one about a test that failed.
NAMES_RUNTIME, NAMES_FAILED = "# taccl bundle: runtime ", "# taccl bundle: failed "
#: By runtime and kind of call (`in_place`, `out_of_place`), the path of the file that is taken, or None.
Served = Mapping[str, Mapping[str, str | None]]


def environment_script(lines: Mapping[str, Sequence[str]]) -> str:
    """A script to be sourced, with the name of a runtime, that makes it take the files.

    Parameters
    ----------
    lines : for each runtime, by its name, what is to be set; its files lie in the folder `$HERE`.
    """
    cases = [
        f'{runtime})\nHERE="$BUNDLE/{runtime}"\n' + "\n".join(each) + "\n;;"
        for runtime, each in lines.items()
    ]
    names = ", ".join(lines)
    return "\n".join(
        [
            f"# Sourced in the folder of the bundle: RUNTIME=NAME; . ./{ENVIRONMENT}",
            'BUNDLE="$(pwd)"',
            'case "$RUNTIME" in',
            *cases,
            f'*) echo "RUNTIME is none of {names}" >&2; return 2 2> /dev/null || exit 2 ;;',
            "esac",
            'if [ ! -d "$HERE" ]; then echo "to be sourced in the folder of the bundle" >&2; '
            "return 2 2> /dev/null || exit 2; fi",
            "",
        ]
    )


def check_script(files: Sequence[BundleFile], runtimes: Sequence[str]) -> str:
    """A script that runs nccl-tests over the sizes of each collective.

    It names the runtime and each test, which nccl-tests leaves out; after a test that failed it goes on, and
    ends with exit code 1.
    """
    sizes: dict[tuple[str, int | None], list[int]] = {}
    for file in files:
        sizes.setdefault((file.collective, file.root), []).extend(size for size, *_ in file.sizes)
    tests = [
        f"run {program} {range_of} -g 1{'' if root is None else f' -r {root}'}"
        for (name, root), each in sizes.items()
        if (program := test_program(name))
        for range_of in _ranges(each)
    ]
    return "\n".join(
        [
            "#!/bin/sh",
            f"# ./check.sh RUNTIME > {RESULTS}: runs nccl-tests over the sizes of this bundle. RUNTIME: "
            + " or ".join(runtimes),
            "# NCCL_TESTS: the folder of its programs; MPIRUN: how they are started, with the variables of",
            f"# {ENVIRONMENT} passed on.",
            'cd "$(dirname "$0")" || exit 2',
            ': "${NCCL_TESTS:?the folder of the programs of nccl-tests}"',
            ': "${MPIRUN:?how programs are started, such as: mpirun -np 16}"',
            f'RUNTIME="$1"; . ./{ENVIRONMENT} || exit 2',
            "FAILED=0",
            "run() {",
            '  echo "# $*"',
            '  TEST="$1"; shift',
            '  $MPIRUN "$NCCL_TESTS/$TEST" "$@" && return',
            f'  FAILED=1; echo "$TEST failed" >&2; echo "{NAMES_FAILED}${{TEST%_perf}}"',
            "}",
            f'echo "{NAMES_RUNTIME}$RUNTIME"',
            *tests,
            'exit "$FAILED"',
            "",
        ]
    )


def _ranges(sizes: Sequence[int]) -> list[str]:
    """The sizes as options of nccl-tests: those that double as one range, others one by one."""
    if all(after == 2 * before for before, after in pairwise(sizes)):
        return [f"-b {sizes[0]} -e {sizes[-1]} -f 2"]
    return [f"-b {size} -e {size}" for size in sizes]


def read_me(
    title: str, files: Sequence[tuple[BundleFile, Served]], use: Sequence[str], notes: Sequence[str]
) -> str:
    """The page for whoever deploys the folder."""
    roots = sorted({f"{file.collective}: {file.root}" for file, _ in files if file.root is not None})
    if roots:
        use = [
            *use,
            "",
            f"**Only for jobs whose calls all have these roots ({', '.join(roots)}).** No runtime compares",
            "the root of a call with that of a file: another one gives wrong data without a word.",
        ]
    return "\n".join(
        [
            f"# {title}",
            "",
            *([*(f"- {' '.join(note.split())}" for note in notes), ""] if notes else []),
            "| collective | from | to | runtime | calls in place | calls out of place |",
            "|---|---|---|---|---|---|",
            *(row for file, served in files for row in _rows(file, served)),
            "",
            "Calls of other sizes, and those whose buffers a file's chunks do not divide, take the library's",
            "own algorithms.",
            "",
            *use,
            "",
            f"Check it: `./{CHECK} RUNTIME > {RESULTS}`, then `taccl bundle check . {RESULTS}` compares with",
            "what was predicted. `manifest.json` has the predicted times, their bounds, which runtimes each",
            "file is verified for, and the SHA-256 of every file.",
            "",
        ]
    )


def _rows(file: BundleFile, served: Served) -> Iterator[str]:
    """What calls of a window take: a row for each runtime, or one where all leave them to the library."""
    sizes = (units.format_size(file.window.min_bytes), units.format_size(file.window.max_bytes))
    if file.kind == "fallback":
        yield _row(file, sizes, "all", f"the library: {file.reason}", "the library")
        return
    for runtime, paths in served.items():
        taken = [_cell(paths[name], has_file=runtime in file.paths) for name in ("in_place", "out_of_place")]
        yield _row(file, sizes, runtime, *taken)
    for size, reason in file.unserved.items():
        yield _row(file, [units.format_size(size)] * 2, "all", f"the library: {reason}", "the library")


def _row(file: BundleFile, sizes: Sequence[str], *cells: str) -> str:
    return f"| {' | '.join([file.collective, *sizes, *cells])} |"


def _cell(path: str | None, *, has_file: bool) -> str:
    if path is not None:
        return f"`{path}`"
    return "the library" if has_file else "the library: no file for this runtime"

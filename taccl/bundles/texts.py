"""What a bundle says to those who deploy it: how to point a runtime at its files, how to check them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from taccl.bundles.files import BundleFile, test_program
from taccl.model import units

#: The names of the scripts, and of what the test prints.
ENVIRONMENT, CHECK, RESULTS = "env.sh", "check.sh", "results.txt"


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
    """A script that runs nccl-tests over the sizes of each collective."""
    sizes: dict[tuple[str, int | None], list[int]] = {}
    for file in files:
        sizes.setdefault((file.collective, file.root), []).extend(size for size, *_ in file.sizes)
    tests = [
        f'$MPIRUN "$NCCL_TESTS/{program}" {range_of} -g 1{"" if root is None else f" -r {root}"}'
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
            *tests,
            "",
        ]
    )


def _ranges(sizes: Sequence[int]) -> list[str]:
    """The sizes as options of nccl-tests: those that double as one range, others one by one."""
    if all(after == 2 * before for before, after in pairwise(sizes)):
        return [f"-b {sizes[0]} -e {sizes[-1]} -f 2"]
    return [f"-b {size} -e {size}" for size in sizes]


def read_me(title: str, files: Sequence[BundleFile], use: Sequence[str]) -> str:
    """The page for whoever deploys the folder."""
    roots = sorted({f"{file.collective}: {file.root}" for file in files if file.root is not None})
    if roots:
        use = [
            *use,
            "",
            f"**Only for jobs whose calls all have these roots ({', '.join(roots)}).** No runtime compares",
            "the root of a call with that of a file: another one gives wrong data without a word.",
        ]
    rows = [
        f"| {file.collective} | {units.format_size(file.window.min_bytes)} | "
        f"{units.format_size(file.window.max_bytes)} | {_what(file)} |"
        for file in files
    ]
    return "\n".join(
        [
            f"# {title}",
            "",
            "| collective | from | to | calls take |",
            "|---|---|---|---|",
            *rows,
            "",
            "Calls of other sizes, and those whose buffers a file's chunks do not divide, take the library's",
            "own algorithms.",
            "",
            *use,
            "",
            f"Check it: `./{CHECK} RUNTIME > {RESULTS}`, then `taccl bundle check . {RESULTS}` compares with",
            "what was predicted. `manifest.json` has the predicted times, bounds, verdicts and hashes.",
            "",
        ]
    )


def _what(file: BundleFile) -> str:
    if file.kind == "fallback":
        return f"the library's own algorithm: {file.reason}"
    return ", ".join(f"`{file.file_name(output)}` ({', '.join(output.readers)})" for output in file.outputs)

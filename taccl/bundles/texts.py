"""What a bundle says to those who deploy it: how to point a runtime at its files, how to check them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
            f'*) echo "RUNTIME is none of {names}" >&2 ;;',
            "esac",
            "",
        ]
    )


def check_script(files: Sequence[BundleFile], runtimes: Sequence[str]) -> str:
    """A script that runs nccl-tests over the sizes of each collective."""
    ranges: dict[str, tuple[int, int]] = {}
    for file in files:
        low, high = ranges.get(file.collective, (file.window.min_bytes, file.window.max_bytes))
        ranges[file.collective] = min(low, file.window.min_bytes), max(high, file.window.max_bytes)
    tests = [
        f'$MPIRUN "$NCCL_TESTS/{test_program(name)}" -b {low} -e {high} -f 2 -g 1'
        for name, (low, high) in ranges.items()
        if test_program(name)
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
            f'RUNTIME="$1"; . ./{ENVIRONMENT}',
            *tests,
            "",
        ]
    )


def read_me(title: str, files: Sequence[BundleFile], use: Sequence[str]) -> str:
    """The page for whoever deploys the folder."""
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

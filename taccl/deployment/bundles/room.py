"""Some runtimes take no more than a few files at once: which of a bundle's they are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from taccl.deployment.bundles.files import BundleFile
from taccl.support.lists import few


def with_room(
    files: Sequence[BundleFile], most_files: Mapping[str, int]
) -> tuple[list[BundleFile], list[str]]:
    """The same, each runtime with no more files than it takes, and a note for each that takes fewer.

    It is given the files that serve the most sizes of the table, of equals the first.

    Parameters
    ----------
    most_files : for runtimes that have a limit, by their names.
    """
    notes = []
    for runtime, most in most_files.items():
        own = [file for file in files if runtime in file.paths]
        ranked = sorted(own, key=lambda file: len(file.unserved) - len(file.sizes))
        left_out = ranked[most:]
        if left_out:
            files = [_without(file, runtime, most) if file in left_out else file for file in files]
            notes.append(
                f"{runtime} takes no more than {most} files, and is given those that serve the most sizes; "
                f"left out: {few(file.name for file in left_out)}. "
                "A bundle of fewer collectives leaves out less"
            )
    return list(files), notes


def _without(file: BundleFile, runtime: str, most: int) -> BundleFile:
    """The same without a file for a runtime; with no file at all, what the library does."""
    kept = (
        replace(output, readers=tuple(reader for reader in output.readers if reader != runtime))
        for output in file.outputs
    )
    outputs = tuple(output for output in kept if output.readers)
    if outputs:
        return replace(file, outputs=outputs)
    return replace(
        file,
        name="",
        kind="fallback",
        reason=f"{runtime} takes no more than {most} files",
        outputs=(),
        unserved={},
        sizes=tuple((size, None, bound_us) for size, _, bound_us in file.sizes),
    )

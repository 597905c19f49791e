"""Every real file as rounds of messages: how many, how few there can be, or why there are none.

    python -m benchmarks.rounds

The files are those of tests/data and, where it is there, of ../shared/data that `taccl verify` calls right.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import report
from taccl.backend.rounds.lowering import lower_to_rounds
from taccl.backend.targets.registry import unfold_file
from taccl.errors import TacclError

ROOT = Path(__file__).parents[1]
FOLDERS = (ROOT / "tests" / "data", ROOT.parent / "shared" / "data", ROOT.parents[1] / "shared" / "data")

_INTRO = """\
Each MSCCL-XML file, plan for MSCCL++ and file of actions that `taccl verify` calls right, as rounds of
matched messages (`taccl lower FILE --rounds`), carried out on values. *Fewest*: the longest chain of
transfers of the file. *Pipelined*: in the order of its thread blocks. *Operations*: sends and receives of
the rank and round that has most; *scratch*: chunks, of the rank that needs most, out of place and in place.
"""


def main() -> None:
    """Write docs/results/rounds.md."""
    rows, refused = [], []
    for path in _files():
        try:
            unfolded = unfold_file(path, path.read_bytes(), "lowered to rounds")
            if not unfolded.verify(None, None).ok:
                continue
        except TacclError:
            continue
        try:
            call = unfolded.one_call(None, None)
            made = [lower_to_rounds(call), lower_to_rounds(call, in_place=True)]
            slow = lower_to_rounds(call, pipelined=True)
        except TacclError as error:
            refused.append([path.name, str(error.message)])
            continue
        rows.append(
            [
                path.name,
                unfolded.collective,
                str(unfolded.num_ranks),
                str(made[0].fewest),
                str(len(made[0].rounds)),
                str(len(slow.rounds)),
                str(max((each.most_operations for each in made[0].rounds), default=0)),
                " / ".join(str(max(size[2] for size in each.sizes)) for each in made),
            ]
        )
    header = ("file", "collective", "ranks", "fewest", "rounds", "pipelined", "operations", "scratch")
    parts = [f"{len(rows)} files become rounds, {len(refused)} do not.", report.table(header, sorted(rows))]
    if refused:
        parts.append(report.table(("refused", "why"), sorted(refused)))
    report.write("rounds", "Files as rounds", _INTRO, "\n\n".join(parts))


def _files() -> Iterator[Path]:
    """Each content once."""
    seen: set[bytes] = set()
    for folder in FOLDERS:
        for path in sorted(folder.rglob("*")) if folder.exists() else ():
            if path.suffix in (".xml", ".json") and path.is_file():
                content = path.read_bytes()
                if content not in seen:
                    seen.add(content)
                    yield path


if __name__ == "__main__":
    main()

"""`taccl verify`: whether a runtime would take a file, and whether it computes what it says."""

from __future__ import annotations

from pathlib import Path

import click

from taccl.backend.graphs.read_environment import line_of
from taccl.backend.machine.report import reports_to_dict
from taccl.backend.target import AnyTarget
from taccl.backend.targets.registry import target_of_file
from taccl.backend.verify.msccl_xml import Facts, Verification
from taccl.cli import completion
from taccl.cli.options import FILE, json_option
from taccl.cli.output import show_json
from taccl.cli.sections import Sectioned
from taccl.cli.targets import target_option
from taccl.deployment.tuners.found import is_tuner_file
from taccl.deployment.tuners.verify import verify_tuner_file
from taccl.errors import CheckError, TacclError
from taccl.model.collectives import make_collective
from taccl.support.arguments import shown
from taccl.support.files import read_bytes
from taccl.synthesis.collective_file import load_requested

#: Words of a file are shown as they are up to this many letters.
LONGEST_WORD = 60


@click.command(cls=Sectioned)
@click.argument("files", nargs=-1, type=FILE)
@click.option(
    "--env",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="Check the value of RCCL_TREES or NCCL_RINGS, without a file.",
)
@click.option(
    "--ranks",
    type=click.IntRange(min=2, max=1024),
    help="GPUs of the node, for rings and trees of a library; of the job, for tuner files. Default: as the "
    "file says.",
)
@target_option("Whose runtimes must take the file. Default: those that take it, and one must.")
@click.option("--root", type=int, help="Root of broadcast, reduce, gather, scatter. Default: any that fits.")
@click.option(
    "--collective",
    shell_complete=completion.files,
    metavar="FILE",
    help="The YAML file of a custom collective, or the table of --sizes, to check against.",
)
@json_option
@click.pass_context
def verify(
    ctx: click.Context,
    files: tuple[Path, ...],
    assignments: tuple[str, ...],
    ranks: int | None,
    target: AnyTarget | None,
    root: int | None,
    collective: str | None,
    as_json: bool,
) -> None:
    """Check MSCCL-XML files and MSCCL++ plans, whoever made them: structure and limits of each runtime, the
    result in every buffer, races and deadlocks in every order of execution that a runtime allows.
    Of rings and trees for a stock library (RCCL_TREES, NCCL_RINGS, NCCL_GRAPH_FILE): every GPU once in each,
    and nothing that the library would silently skip. Of tuner files (CSV) of NCCL, RCCL and NCCLX: words that
    a plugin would read as others, and sizes that no rule has.

    Exit code 0: all files are right; 4: a check failed; 2: a file is of no kind that can be checked.
    """
    if not files and not assignments:
        raise click.UsageError("give a file, or a variable by --env")
    if collective is not None and ranks is not None:
        raise click.UsageError("--collective says how many ranks there are; leave --ranks out")
    wanted = None if collective is None else load_requested(collective)
    if ranks is not None:
        wanted = make_collective("allreduce", ranks)
    texts = [(Path("--env"), line_of(assignment).encode()) for assignment in assignments]
    reports = []
    for path, content in (*texts, *((path, read_bytes(path)) for path in files)):
        if is_tuner_file(content):
            if target is not None:
                raise TacclError("is a tuner file, and no target's", path=path, hint="leave --target out")
            text = content.decode("utf-8", "replace")
            reports.append((path, verify_tuner_file(text, str(path), ranks=ranks)))
            continue
        kind = _kind(path, content, target)
        readers = None if target is None else target.runtimes
        document = kind.read(content, str(path))
        reports.append((path, kind.verify(document, readers=readers, collective=wanted, root=root)))
    ok = all(report.ok for _, report in reports)
    if as_json:
        show_json(reports_to_dict([report for _, report in reports]))
    else:
        for path, report in reports:
            _show(path, report)
    if not ok:
        ctx.exit(CheckError.exit_code)


def _kind(path: Path, content: bytes, target: AnyTarget | None) -> AnyTarget:
    """Who reads a file: the target requested, unless its content says that it is of another format."""
    known = target_of_file(path, content)
    if target is None or known.knows is None or known.format == target.format:
        return known if target is None else target
    raise TacclError(
        f"is a file for {known.described}, and {target.name!r} takes {target.title}",
        path=path,
        hint=f"--target {known.name}",
    )


def _show(path: Path, report: Verification) -> None:
    click.echo(f"{path}: {'ok' if report.ok else 'NOT ok'}")
    for label, value in _rows(report.facts):
        click.echo(f"  {label:<12} {value}")
    for finding in report.findings:
        click.echo(f"  {finding}")


def _rows(facts: Facts) -> list[tuple[str, str]]:
    root = "" if facts.root is None else f" (root {facts.root})"
    if facts.rules is not None:
        of = f" of {facts.collective}" if facts.collective else ""
        return [("tuner file", f"{facts.rules} rules{of}"), ("readers", ", ".join(facts.readers))]
    if facts.channels is not None:
        readers = ", ".join(facts.readers)
        return [
            ("graphs", f"{facts.channels} channel{'s' * (facts.channels != 1)}, {facts.num_ranks} GPUs"),
            ("readers", readers),
        ]
    rows = [
        (
            "collective",
            f"{_word(facts.collective)}{root}, {facts.num_ranks} ranks, {_word(facts.protocol)}",
        ),
        ("program", f"{facts.num_thread_blocks} thread blocks, {facts.num_steps} steps"),
        ("in place", facts.in_place),
        ("out of place", facts.out_of_place),
    ]
    if facts.races is not None:
        rows.append(("races", str(facts.races)))
    if facts.slot_depth is not None:
        rows.append(("slot depth", f"{facts.slot_depth} needed"))
    if facts.readers:
        rows.append(("readers", ", ".join(f"{name} {_READS[can]}" for name, can in facts.readers.items())))
    return rows


_READS = {
    "yes": "yes",
    "no": "no",
    "never": "loads it, but never selects it",
    "launch": "loads it, but refuses at launch",
}


def _word(said: str) -> str:
    """A word of the file; one that would upset a terminal, or is no word, is cut and quoted."""
    return said if said.isprintable() and len(said) <= LONGEST_WORD else shown(said)

"""`taccl synthesize`: from a machine, a sketch and a collective to a verified file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import click

from taccl import api
from taccl.analysis.exploration.compared import Compared, compared, shares_of
from taccl.analysis.server_curve import ServerCurve, searched_with_servers
from taccl.backend.target import THREAD_BLOCKS, AnyTarget
from taccl.backend.targets.registry import DEFAULT_TARGET
from taccl.cli import completion
from taccl.cli.hints import pointing_to_explain
from taccl.cli.kept import keeping, write_schedule
from taccl.cli.options import (
    DIGITS,
    FILE,
    check_ranks,
    helper_counts_option,
    json_option,
    named_ranks,
    request_options,
    symmetry_option,
)
from taccl.cli.output import (
    STDOUT,
    Attempts,
    claim_outputs,
    output_name,
    show_json,
    show_table,
    write_output,
)
from taccl.cli.progress import progress_reports
from taccl.cli.requests import plan_requests, requests_option
from taccl.cli.sections import Sectioned
from taccl.cli.signals import undisturbed
from taccl.cli.targets import protocol_option, target_option
from taccl.encoding.engines.registry import ENGINES
from taccl.model import units
from taccl.model.collectives import COLLECTIVES, plain_name
from taccl.support.arguments import shown
from taccl.support.budget import Budget, check_effort, check_time_limit
from taccl.synthesis.output_options import AUTO, OutputOptions
from taccl.synthesis.request import Request
from taccl.synthesis.result import Result

_REQUEST = {field.name for field in fields(Request)}
_OUTPUT = {field.name for field in fields(OutputOptions)}


def _number_or_auto(ctx: click.Context, option: click.Parameter, value: str | None) -> int | str | None:
    """A whole number from 1 on, or the word auto."""
    if value is None or value == "auto":
        return value
    if not value.isdecimal() or len(value) > DIGITS or not int(value):
        raise click.BadParameter(f"{shown(value)} is neither a whole number from 1 on nor auto")
    return int(value)


@click.command(cls=Sectioned)
@request_options
@helper_counts_option
@symmetry_option
@requests_option
@click.option(
    "--chunks",
    callback=_number_or_auto,
    metavar="N|auto",
    help="Pieces that one rank's part is cut into; auto searches for the fastest number. "
    "Default: the sketch's, else auto.",
)
@click.option(
    "--engine",
    shell_complete=completion.engines,
    default="auto",
    show_default=True,
    help="Which engine searches: auto, " + ", ".join(engine.name for engine in ENGINES) + ".",
)
@click.option(
    "--solver",
    default="highs",
    show_default=True,
    help="MILP solver, by a name that PuLP knows: highs, cbc, gurobi, ...",
)
@click.option(
    "--time-limit",
    type=float,
    metavar="SECONDS",
    help="Time limit in seconds; the best schedule found so far is returned.  [default: until nothing has "
    "improved for as long as the search took to find it, and at most 60; none with --effort]",
)
@click.option(
    "--effort",
    type=int,
    metavar="N",
    help="Units of work in place of seconds, nominally milliseconds: the same seed and effort give the same "
    "answer on an idle or a busy machine. A --time-limit next to it still ends the call.",
)
@click.option(
    "--gap",
    type=float,
    default=0.0,
    show_default=True,
    metavar="FRACTION",
    help="Stop when the schedule is proven to be this close to the best: 0.05 is 5%.",
)
@click.option(
    "--slack",
    type=float,
    metavar="FACTOR",
    help="Longest routes that MILP and CP consider, relative to the shortest. Default: 1, then more.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of every random choice.")
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="A Dask scheduler whose workers search as well, such as tcp://10.0.0.1:8786.",
)
@protocol_option
@click.option(
    "--instances",
    callback=_number_or_auto,
    metavar="N|auto",
    help="Parallel copies of the program that share each chunk. Default: auto, what is predicted fastest "
    "where the machine has an executor, else 1.",
)
@click.option(
    "--thread-blocks",
    type=click.Choice([*THREAD_BLOCKS, AUTO]),
    help="Whether a thread block may both send and receive, or does only one of the two. Default: auto, as "
    "for instances; without an executor, two-way.",
)
@target_option("What the file is for.", default=DEFAULT_TARGET.name)
@click.option(
    "--in-place/--out-of-place",
    default=None,
    help="Which calls a plan for MSCCL++ is for.  [default: allreduce and broadcast in place, others not]",
)
@click.option(
    "--min-size",
    help="Smallest call that the file serves; of gather and scatter, one rank's part of it.  "
    "[default: half of --size]",
)
@click.option("--max-size", help="Largest call that the file serves, likewise.  [default: twice --size]")
@click.option("-o", "--output", type=FILE, help="Where to write the file; - for standard output.")
@click.option(
    "--schedule",
    type=FILE,
    help="Where to write the schedule: as Parquet if the name ends in .parquet, else as JSON; - for standard "
    "output.",
)
@click.option(
    "--compare",
    is_flag=True,
    help="Show the fastest algorithm that libraries have next to the result; it takes a part of the time.",
)
@click.option(
    "--template",
    is_flag=True,
    help="Plan one node of a cluster of equal nodes, whose images are the schedule; what is too large to be "
    "planned whole is planned so anyway.",
)
@click.option(
    "--ranks",
    callback=named_ranks,
    metavar="A-B",
    help="Plan by --template, and write what these ranks do and no others.  [default: all]",
)
@click.option("--no-file", is_flag=True, help="Find the schedule without writing a file.")
@click.option(
    "--explain-stages",
    is_flag=True,
    help="Search nothing; show which engines would run for this problem, for how long, or why not.",
)
@json_option
@click.option("-v", "--verbose", is_flag=True, help="Show every step of the search, and all that was tried.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def synthesize(
    output: Path | None,
    schedule: Path | None,
    requests: Path | None,
    no_file: bool,
    as_json: bool,
    verbose: bool,
    quiet: bool,
    explain_stages: bool,
    compare: bool,
    min_size: str | None,
    max_size: str | None,
    ranks: range | None,
    **request: Any,
) -> None:
    """Find a fast schedule for a collective, with a bound on how fast any could be, and write it
    as a verified file for the target: MSCCL-XML.

    Ctrl-C stops the search and keeps the best schedule so far; so does SIGTERM. Where a file goes to
    standard output, the report goes to standard error.

    \b
    taccl synthesize --sketch ndv2-sk-1 --collective allgather --size 16MB -o ag.xml
    taccl synthesize --topology my-machine.yaml --nodes 2 --size 1GB -o ag.xml
    """
    if requests is not None:
        plan_requests(requests, schedule, as_json=as_json, quiet=quiet, **request)
        return
    _check_outputs(output, ranks, no_file=no_file)
    request["template"] |= ranks is not None  # only a template's file is written rank by rank
    if explain_stages:
        _show_stages(output, schedule, as_json=as_json, **request)
        return
    inputs = [request[name] for name in ("sketch", "topology", "profile", "collective")]
    check_ranks(ranks, **request)
    aside = claim_outputs((output, schedule), inputs, as_json=as_json)
    if output == STDOUT:
        _check_one_file(request["collective"], request["target"])
    of_file = _of_file(min_size, max_size, no_file=no_file)
    for_library: Callable[[], Budget] | None = None
    if compare:
        request["time_limit"], request["effort"], for_library = shares_of(
            request["time_limit"], request["effort"]
        )
    show = partial(_show_without_file, target=request["target"], as_json=as_json, verbose=verbose, err=aside)
    progress = progress_reports(quiet=quiet, verbose=verbose)
    with keeping(schedule, show), pointing_to_explain(request), progress as report:
        result, curve = _searched(request | of_file | {"on_progress": report})
    if curve is not None:
        request["helpers"] = curve.best_count
    for each in result.found.declined if verbose else ():
        click.echo(f"{each.name} did not run: {each.reason}", err=True)
    attempts = Attempts()
    with undisturbed():
        written = () if output is None else attempts.of(lambda: _write(result, output, ranks)) or ()
        kept = None if schedule is None else attempts.of(lambda: write_schedule(result, schedule))
    today = None
    if for_library is not None and result.template is None:  # libraries' algorithms are of whole machines
        today = _compared(result, of_file, for_library(), **request)
    with undisturbed():
        if as_json:
            more = ({} if today is None else today.to_dict()) | _servers(curve)
            attempts.of(lambda: show_json(_as_json(result, request["target"], written, kept) | more))
        else:
            lines = [result.summary(verbose), *(() if today is None else (f"{'today':<12} {today.line}",))]
            what_next = _what_next(result, written, kept, requested=output is not None)
            lines += [*(() if curve is None else ("", str(curve.report().table))), what_next]
            attempts.of(lambda: click.echo("\n".join(lines), err=aside))
        attempts.end()


def _of_file(min_size: str | None, max_size: str | None, *, no_file: bool) -> dict[str, Any]:
    """What is requested of the file, as keywords."""
    return {
        "file": not no_file,
        "min_bytes": None if min_size is None else units.parse_size(min_size),
        "max_bytes": None if max_size is None else units.parse_size(max_size),
    }


def _check_outputs(output: Path | None, ranks: range | None, *, no_file: bool) -> None:
    """Raise UsageError for options of files that contradict each other."""
    if ranks is not None and output in (None, STDOUT):
        raise click.UsageError("--ranks are written to a file: -o FILE")
    if no_file and output is not None:
        raise click.UsageError("--no-file makes no file, and --output asks for one")


def _searched(words: dict[str, Any]) -> tuple[Result, ServerCurve | None]:
    """What is found, and with a range of servers what is with each number, of which it is the fastest."""
    if not isinstance(words["helpers"], range):
        return api.synthesize(**words), None
    curve = _with_servers(**words)
    return curve.best, curve


def _servers(curve: ServerCurve | None) -> dict[str, object]:
    return {} if curve is None else {"servers": curve.rows()}


def _with_servers(*, helpers: range, **words: Any) -> ServerCurve:
    """What is found with each number of servers, which have equal shares of the time."""
    request = Request(**{name: words.pop(name) for name in list(words) if name in _REQUEST})
    many = len(helpers)
    if words["time_limit"] is not None:
        words["time_limit"] = check_time_limit(words["time_limit"]) / many
    if words["effort"] is not None:
        words["effort"] = max(1, check_effort(words["effort"]) // many)
    return searched_with_servers(helpers, request, lambda each: api.synthesize(each, **words))


def _compared(result: Result, of_file: dict[str, Any], budget: Budget, **requested: Any) -> Compared:
    """The result next to what libraries have."""
    request = Request(**{name: requested[name] for name in requested if name in _REQUEST})
    options = {name: requested[name] for name in requested if name in _OUTPUT}
    return compared(result, request, OutputOptions(**options, **of_file), budget)


def _show_stages(*outputs: Path | None, as_json: bool, engine: str, **requested: Any) -> None:
    """The table of engines for a problem, before any search."""
    if as_json or any(output is not None for output in outputs):
        raise click.UsageError("--explain-stages shows a table and searches nothing: it has nothing to write")
    if isinstance(requested["helpers"], range):
        raise click.UsageError("--explain-stages shows one machine: give --helpers a number")
    request = Request(**{name: requested[name] for name in requested if name in _REQUEST})
    with pointing_to_explain(requested):
        stages = api.stages_of(request, engine)
    if request.leaves_chunks_open:
        click.echo("for one chunk in each part; the number is open, and the search tries several")
    header = ["for", "engine", "role", "runs", "needs, or why it does not run"]
    show_table(
        header,
        [
            (
                stage.part,
                stage.engine,
                stage.role,
                "-" if stage.reason else "yes",
                stage.reason or stage.condition,
            )
            for stage in stages
        ],
    )


def _check_one_file(collective: str, target: AnyTarget) -> None:
    """Standard output takes one file, and some collectives need two for all runtimes."""
    name = plain_name(collective)
    if name in COLLECTIVES and len(target.files_for(name)) > 1:
        raise click.UsageError(f"{name} makes two files for all runtimes; give a --target, or a file for -o")


def _write(result: Result, output: Path, ranks: range | None) -> tuple[Path, ...]:
    if ranks is not None and result.by_rank is not None:
        return result.by_rank.write(output, ranks)
    if output != STDOUT:
        return result.write(output)
    write_output(output, result.files[0].text)
    return (output,)


def _show_without_file(
    result: Result, schedule: Path | None, *, target: AnyTarget, as_json: bool, verbose: bool, err: bool
) -> None:
    """The report of what has no file."""
    if as_json:
        show_json(_as_json(result, target, (), schedule))
    else:
        click.echo(result.summary(verbose), err=err)


def _as_json(
    result: Result, target: AnyTarget, written: tuple[Path, ...], schedule: Path | None
) -> dict[str, object]:
    files = [
        {"path": str(path), "format": file.format, "readers": list(file.readers)}
        for file, path in zip(result.files, written, strict=False)
    ]
    return result.to_dict() | {
        "target": target.name,
        "files": files,
        "schedule": None if schedule is None else str(schedule),
    }


def _what_next(result: Result, written: tuple[Path, ...], schedule: Path | None, *, requested: bool) -> str:
    lines = []
    if schedule is not None:
        by_links = "" if result.machine is None else ", with times and bound by links alone"
        lines.append(f"wrote {output_name(schedule)}: the schedule{by_links}")
    for file, path in zip(result.files, written, strict=False):
        lines.append(f"wrote {output_name(path)}: for {', '.join(file.readers)}")
        if file.target.use is not None:
            place = None if path == STDOUT else path
            lines += [f"  {line}" for line in file.target.use(file.program, file.readers, place)]
    for path in () if result.files else written:
        lines.append(f"wrote {output_name(path)}: rank by rank; its template is checked, the file is not")
    if result.files and not requested:
        lines.append("no file written: give one with -o FILE")
    return "\n".join(["", *lines]) if lines else ""

"""The last step of the walk: what a search found becomes a result with verified files.

The schedule is kept even where no file can be made.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from taccl.backend.target import FEWER_CHUNKS, AnyTarget
from taccl.encoding.bounds import NOTHING, Proof
from taccl.encoding.core.options import SearchOptions
from taccl.errors import CheckError, FileInterrupted, ProgramLimitError, TacclError
from taccl.model.network import LogicalTopology
from taccl.model.schedule import Schedule
from taccl.model.slower import is_no_faster
from taccl.model.tolerance import contradicts
from taccl.support.interrupts import ends_what_is_extra, is_interrupt
from taccl.synthesis.autotune.file_choice import FileChoice
from taccl.synthesis.autotune.proofs import Gathered
from taccl.synthesis.autotune.tune import bound_for_any_chunks, fitting_chunks
from taccl.synthesis.configurations import Configuration
from taccl.synthesis.job import Job
from taccl.synthesis.lowering import OutputFile
from taccl.synthesis.result import Result
from taccl.synthesis.search import Found
from taccl.synthesis.searcher import Searcher

#: Reasons that are written out.
_FINDINGS = 8
#: Where a file is too large, the part of the time left in which a number of chunks is looked for that fits.
_TO_TELL_WHAT_FITS = 0.5


def emit(job: Job, choice: FileChoice, options: SearchOptions, searcher: Searcher, began_s: float) -> Result:
    """The result, with the verified files of its schedule if any are requested.

    Parameters
    ----------
    options : of the whole call, which began at `began_s`.
    searcher : who carried out the searches, and has notes on them.

    Raises
    ------
    CheckError : no file could be made, or it failed its own check; the result is kept in it.
    FileInterrupted : the user stopped the making of the file, twice; the result is kept in it.
    """
    left_s = math.inf if options.effort is not None else began_s + options.limit_s - time.monotonic()
    result = _without_files(job, choice, options, searcher, left_s)
    if not result.file_requested:
        return result
    began = time.monotonic()
    try:
        if result.files_tried and result.execution is None:
            raise _no_configuration_fits(result, job.target)
        files = _files_in_spite_of_one_interrupt(job, choice)
    except KeyboardInterrupt as interrupt:
        raise FileInterrupted(result) from interrupt
    except CheckError as fault:
        if isinstance(fault, ProgramLimitError):
            _tell_what_fits(fault, _chunks_that_fit(job, choice, options, began_s))
        fault.kept = result
        raise
    except Exception as fault:  # whatever a target does, and memory that runs out: the schedule is kept
        if is_interrupt(fault):
            raise FileInterrupted(result) from fault
        text = str(fault) or type(fault).__name__
        failed = CheckError(f"no file could be made: {text}", hint="--no-file keeps the schedule")
        if isinstance(fault, TacclError):
            _tell_what_fits(failed, _chunks_that_fit(job, choice, options, began_s))
        failed.kept = result
        raise failed from fault
    return replace(result, files=files, file_seconds=time.monotonic() - began)


def _files_in_spite_of_one_interrupt(job: Job, choice: FileChoice) -> tuple[OutputFile, ...]:
    """The files of what was chosen: an interrupt asks for what there is, which takes a file; not the next."""
    try:
        return files_of(job, choice.found.schedule, choice.configuration)
    except (KeyboardInterrupt, SystemError) as fault:
        if not is_interrupt(fault):
            raise
        return files_of(job, choice.found.schedule, choice.configuration)


def _without_files(
    job: Job, choice: FileChoice, options: SearchOptions, searcher: Searcher, left_s: float
) -> Result:
    network, execution = job.network.topology, choice.execution
    # An executor's thread blocks keep no port busy for alpha: what counts that is no bound of its files.
    ports_as = network if network.executor is None else replace(network, occupancy="pipelined")
    found, any_chunks = _for_any_chunks(choice.found, ports_as, left_s)
    notes = (*choice.notes, *_notes_on(found))
    if execution is not None and contradicts(any_chunks.value_us, execution.time_us):
        notes, any_chunks = (*notes, _refuted(any_chunks)), NOTHING
    if execution is not None:
        execution = execution.with_bound(any_chunks)
    holds = is_no_faster(found.schedule.problem.topology, ports_as)
    on_machine = Gathered(any_chunks if holds else NOTHING)
    found = on_machine.of(found)
    return Result(
        found=found,
        options=options,
        topology=job.inputs.topology.name,
        sums_at=job.inputs.topology.sums_for(job.inputs.collective),
        sketch=None if job.inputs.sketch is None else job.inputs.sketch.name,
        file_requested=job.output.file,
        notes=(*notes, *searcher.notes_on(found, counts_work=options.effort is not None)),
        scheduler=searcher.address,
        tasks=tuple(searcher.runs),
        chunks_tried=on_machine.of_rows(choice.chunks_tried),
        protocol=choice.configuration.protocol,
        instances=choice.configuration.instances,
        thread_blocks=choice.configuration.thread_blocks,
        blocks_per_gpu=choice.blocks_per_gpu,
        execution=execution,
        files_tried=choice.files_tried,
        machine=None if network.executor is None else network,
        any_chunks=any_chunks,
    )


def _for_any_chunks(found: Found, network: LogicalTopology, left_s: float) -> tuple[Found, Proof]:
    """What was found, and what holds for any number of chunks by links alone.

    The search proved that, or, where it ended before or knew other costs, it is what is there in time.
    """
    has_links = _has_links_of(network, found.schedule.problem.topology)
    if found.any_chunks.value_us and has_links:
        return found, found.any_chunks
    by_links = replace(found.schedule.problem, topology=network, symmetry=())
    proof = bound_for_any_chunks(by_links, left_s)
    if has_links:
        found = found.with_any_chunks(proof)
        return found, found.any_chunks
    return found, proof


def _has_links_of(network: LogicalTopology, searched: LogicalTopology) -> bool:
    """Whether a search knew the links as they are, and not as thread blocks serve them."""
    return (
        network.occupancy == searched.occupancy
        and network.port_betas == searched.port_betas
        and np.array_equal(network.alpha_us, searched.alpha_us)
        and np.array_equal(network.beta_us_per_mb, searched.beta_us_per_mb)
    )


def _refuted(any_chunks: Proof) -> str:
    """What is reported of a bound for any number of chunks above the predicted time of a file."""
    bound = f"{any_chunks.value_us:.2f} us for any chunk count ({any_chunks.witness})"
    return f"no bound of the file is {bound}: its predicted time is less, so one of the two is wrong"


def _notes_on(found: Found) -> Iterator[str]:
    """What a search reports with its schedule: what else is proved of it, and what broke down."""
    if found.note:
        yield found.note
    for failure in found.failures:
        yield f"{failure.name} failed, and what was found is kept: {failure.text}"


def _chunks_that_fit(job: Job, choice: FileChoice, options: SearchOptions, began_s: float) -> int:
    """A number of chunks of which there is a file, where there is none; 0: not looked for, or not found."""
    if not (job.target.limits.fewer_chunks_fit and job.has_predictions):
        return 0
    left_s = max(0.0, options.limit_s - (time.monotonic() - began_s))
    budget = replace(options, time_limit_s=left_s).budget().share(_TO_TELL_WHAT_FITS)
    try:
        return fitting_chunks(choice.found.schedule.problem.collective.chunks_per_rank, job, options, budget)
    except BaseException as fault:
        if ends_what_is_extra(fault):  # that there is no file is known
            return 0
        raise


def _no_configuration_fits(result: Result, target: AnyTarget) -> CheckError:
    findings = [f"{each.name}: {each.remark}" for each in result.files_tried[:_FINDINGS]]
    if target.limits.fewer_chunks_fit:
        return ProgramLimitError(
            "no way to make the plan fits", findings=findings, hint="--no-file keeps the schedule"
        )
    return CheckError(
        "no way to make the file fits the machine and ends",
        findings=findings,
        hint="--protocol and --instances make the file all the same",
    )


def _tell_what_fits(fault: CheckError, chunks: int) -> None:
    """Say in a refusal how many chunks would fit; 0: not known."""
    if chunks:
        fault.message += f"; fewer chunks: {chunks} fit{'s' if chunks == 1 else ''}"
        others = [] if fault.hint in (None, FEWER_CHUNKS) else [fault.hint]
        fault.hint = ", or ".join([f"--chunks {chunks}", *others])


def files_of(
    job: Job, schedule: Schedule, configuration: Configuration, left_out: frozenset[str] = frozenset()
) -> tuple[OutputFile, ...]:
    """The verified texts of a schedule's programs, that for most runtimes first.

    Parameters
    ----------
    left_out : runtimes that the files are not for.

    Raises
    ------
    TacclError : no file can hold the schedule, or one failed its own check.
    """
    collective = schedule.problem.collective
    programs = (
        replace(lowered, readers=tuple(reader for reader in lowered.readers if reader not in left_out))
        for lowered in job.lowering(schedule, configuration)
    )
    files = (
        OutputFile(
            job.target.verified_text(lowered, collective), lowered.program, lowered.readers, job.target
        )
        for lowered in programs
        if lowered.readers
    )
    return tuple(sorted(files, key=lambda file: -len(file.readers)))

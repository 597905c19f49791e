"""The targets whose files are MSCCL-XML: each a selection of the runtimes that read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from taccl.backend.limits import LIMITS, limits_of
from taccl.backend.lower import lower
from taccl.backend.lower.carried import XML_FEATURES, XML_REASONS
from taccl.backend.lower.dialects import dialects
from taccl.backend.lower.least import check_problem_fits
from taccl.backend.lower.sizes import sizes_of
from taccl.backend.machine.unequal import Requested, in_equal_chunks
from taccl.backend.msccl_xml.reader import Document, begins_as_program, parse_document, parse_xml
from taccl.backend.msccl_xml.writer import to_xml
from taccl.backend.program import Program, Protocol
from taccl.backend.target import Lowered, LoweringOptions, Target, TargetLimits
from taccl.backend.two_sided import TwoSided
from taccl.backend.verify.msccl_xml import Verification, verify_document
from taccl.model.collectives import calls_served
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule


def _target(name: str, title: str, runtimes: tuple[str, ...]) -> Target[Program, Document]:
    limits = limits_of(runtimes)
    return Target(
        name=name,
        title=title,
        format="xml",
        runtimes=runtimes,
        executed_by="msccl",
        # Each instance has a connection of its own for each link, and each of these takes a channel.
        limits=TargetLimits(max_group=limits.count, ranks=limits.ranks, instances=limits.channels),
        lower=partial(_lower, runtimes=runtimes),
        write=to_xml,
        features=XML_FEATURES,
        reasons=XML_REASONS,
        read=parse_document,
        verify=_verify,
        protocols=tuple(protocol.value for protocol in Protocol),
        readers_of=partial(_readers_of, runtimes=runtimes),
        refuse=partial(_refuse, runtimes=runtimes),
        variants=_variants,
        use=_use,
        environment=_environment,
        most_files={name: most for name, most in _MOST_FILES.items() if name in runtimes},
        takes=lambda program, size_bytes: size_bytes % program.chunks_per_loop == 0,
        serves=_serves,
        leaves_out_largest=frozenset({"msccl"}),
        knows=begins_as_program,
        parse=lambda content, path, look: parse_xml(content, path),
        unfold=TwoSided.of,
        unfold_document=TwoSided.of_document,
    )


def _readers_of(collective: str, *, runtimes: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
    return [dialect.readers for dialect in dialects(collective, runtimes)]


def _refuse(problem: Problem, options: LoweringOptions, *, runtimes: tuple[str, ...]) -> None:
    sizes_of(problem.collective, problem.size_bytes, options.min_bytes, options.max_bytes)
    check_problem_fits(problem, runtimes, options.instances)


def _lower(
    schedule: Schedule, options: LoweringOptions, *, runtimes: tuple[str, ...]
) -> tuple[Lowered[Program], ...]:
    return lower(
        schedule,
        protocol=Protocol(options.protocol),
        runtimes=runtimes,
        instances=options.instances,
        thread_blocks=options.thread_blocks,
        executor=options.executor,
        min_bytes=options.min_bytes,
        max_bytes=options.max_bytes,
        name=options.name,
    )


def _verify(
    document: Document, /, *, readers: Sequence[str] | None, collective: Requested | None, root: int | None
) -> Verification:
    return verify_document(document, targets=readers, collective=in_equal_chunks(collective), root=root)


def _variants(program: Program, readers: tuple[str, ...]) -> list[Program]:
    """Msccl looks at `inplace` alone: of a file for both, a copy with inplace="0" serves the other calls."""
    both = program.in_place and program.out_of_place
    return [replace(program, in_place=False)] if both and readers == ("msccl",) else []


def _serves(program: Program, runtime: str) -> list[bool]:
    """Msccl looks at `inplace` alone; the others take a file for both kinds of calls if it is for both."""
    if runtime == "msccl":
        return [program.in_place]
    return [False] * program.out_of_place + [True] * program.in_place


def _use(program: Program, readers: tuple[str, ...], path: Path | None) -> list[str]:
    """Which calls are served, and by which variables a runtime finds the file."""
    modes = (("in place", program.in_place), ("out of place", program.out_of_place))
    sizes = calls_served(program.collective, program.num_ranks, program.min_bytes, program.max_bytes)
    lines = [f"serves calls of {sizes}, {' and '.join(mode for mode, served in modes if served)}"]
    if path is None:
        return lines
    if "msccl" in readers:
        lines.append(f"msccl: MSCCL_XML_FILES={path.resolve()} NCCL_ALGO=MSCCL,RING,TREE")
    if set(readers) - {"msccl"}:
        lines.append("executor, rccl: alone in a folder, with MSCCL_ALGO_DIR=that folder")
    return lines


def _environment(runtime: str, programs: Mapping[str, Program]) -> list[str]:
    """Msccl reads the files that it is given, others a folder."""
    if runtime != "msccl":
        return [f'export MSCCL_ALGO_DIR="$HERE"{" RCCL_MSCCL_FORCE_ENABLE=1" if runtime == "rccl" else ""}']
    named = ":".join(f'"$HERE/{name}"' for name in programs)
    return ["export NCCL_ALGO=MSCCL,RING,TREE", f"export MSCCL_XML_FILES={named}"]


#: MSCCL_MAX_NUM_ALGOS of microsoft/msccl (src/include/msccl.h): of MSCCL_XML_FILES as of MSCCL_CONFIG, it
#: ignores what comes after this many.
_MOST_FILES = {"msccl": 4}

TARGETS = (
    _target("all", "every runtime of MSCCL-XML that knows the collective", tuple(LIMITS)),
    *(_target(runtime, f"{runtime} alone, with its own limits", (runtime,)) for runtime in LIMITS),
)

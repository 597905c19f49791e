"""A target of one's own in one file: a plain list of the sends of a schedule that only copies.

    allgather 2 ranks, 1 chunks, root -
    0.0 2.0 rank 0 to 1: 0
    0.0 2.0 rank 1 to 0: 1

Each line is one send: when it starts and when its chunks have arrived (microseconds), over which link, and
which chunks it carries.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from taccl.backend.msccl_xml import Document, parse_document, parse_xml, to_xml
from taccl.backend.program import Program
from taccl.backend.target import Lowered, LoweringOptions, Target, TargetLimits
from taccl.backend.targets.registry import find_target
from taccl.backend.two_sided import TwoSided
from taccl.backend.verify.msccl_xml import Facts, Finding, Verification
from taccl.errors import FileError
from taccl.model.collective import Collective
from taccl.model.collectives import make_collective
from taccl.model.schedule import Schedule

_HEADER = re.compile(r"(\w+) (\d+) ranks, (\d+) chunks, root (\d+|-)")
_SEND = re.compile(r"(\S+) (\S+) rank (\d+) to (\d+):((?: \d+)+)")


@dataclass(frozen=True)
class Send:
    start_us: float
    end_us: float
    src: int
    dst: int
    chunks: tuple[int, ...]


@dataclass(frozen=True)
class Listing:
    collective: str
    ranks: int
    chunks: int
    root: int | None
    sends: tuple[Send, ...]


def lower(schedule: Schedule, options: LoweringOptions) -> list[Lowered[Listing]]:
    collective, topology, sends = schedule.problem.collective, schedule.problem.topology, schedule.sends
    listed = []
    for send, link in enumerate(sends.link.tolist()):
        chunks = tuple(sorted(schedule.chunk[sends.of_row == send].tolist()))
        src, dst = int(topology.src[link]), int(topology.dst[link])
        listed.append(Send(float(sends.start_us[send]), float(sends.end_us[send]), src, dst, chunks))
    listed.sort(key=lambda each: (each.start_us, each.src, each.dst))
    name, ranks = collective.name, collective.num_ranks
    program = Listing(name, ranks, collective.chunks_per_rank, collective.root, tuple(listed))
    return [Lowered(program, ("eyes",))]


def write(program: Listing) -> str:
    root = "-" if program.root is None else program.root
    lines = [f"{program.collective} {program.ranks} ranks, {program.chunks} chunks, root {root}"]
    for send in program.sends:
        chunks = " ".join(map(str, send.chunks))
        lines.append(f"{send.start_us!r} {send.end_us!r} rank {send.src} to {send.dst}: {chunks}")
    return "\n".join(lines) + "\n"


def read(text: str | bytes, path: str | None) -> Listing:
    lines = (text if isinstance(text, str) else text.decode("ascii", errors="replace")).splitlines()
    header = _HEADER.fullmatch(lines[0]) if lines else None
    matches = [_SEND.fullmatch(line) for line in lines[1:]]
    if header is None or None in matches:
        raise FileError("this is no list of sends", path=path)
    sends = [
        Send(float(start), float(end), int(src), int(dst), tuple(map(int, chunks.split())))
        for start, end, src, dst, chunks in (match.groups() for match in matches if match is not None)
    ]
    name, ranks, chunks, root = header.groups()
    return Listing(name, int(ranks), int(chunks), None if root == "-" else int(root), tuple(sends))


def verify(
    listing: Listing, /, *, readers: Sequence[str] | None, collective: Collective | None, root: int | None
) -> Verification:
    """Who holds what from when on, by the list alone."""
    requested = collective or make_collective(listing.collective, listing.ranks, listing.chunks, listing.root)
    held = {
        (int(rank), int(chunk)): 0.0
        for chunk, rank in zip(requested.inputs.chunk, requested.inputs.rank, strict=True)
    }
    wrong = []
    for send in sorted(listing.sends, key=lambda each: each.end_us):
        for chunk in send.chunks:
            if held.get((send.src, chunk), float("inf")) > send.start_us + 1e-9:
                wrong.append(f"rank {send.src} sends chunk {chunk} before it has it")
            held.setdefault((send.dst, chunk), send.end_us)
    for chunk, rank in zip(requested.outputs.chunk.tolist(), requested.outputs.rank.tolist(), strict=True):
        if (rank, chunk) not in held:
            wrong.append(f"rank {rank} never gets chunk {chunk}")
    findings = tuple(Finding("meaning", "error", "listing", message) for message in wrong)
    return Verification(findings, Facts(listing.collective, listing.ranks, len(listing.sends), 0, "Simple"))


def use(program: Listing, readers: tuple[str, ...], path: Path | None) -> list[str]:
    return [f"read it: {len(program.sends)} sends"]


#: Two chunks per send at most, so that its limits can be stated from those of MSCCL-XML.
LISTING = Target(
    name="listing",
    title="a plain list of sends",
    format="txt",
    runtimes=("eyes",),
    limits=TargetLimits(max_group=2, ranks=8),
    lower=lower,
    write=write,
    read=read,
    verify=verify,
    reasons={"reductions": "a line says which chunks go where, and nothing of sums"},
    use=use,
)


def unspelled(content: str | bytes) -> bytes:
    text = content if isinstance(content, str) else content.decode()
    try:
        return bytes.fromhex(text.removeprefix("spelled "))
    except ValueError as error:
        raise FileError(f"this is not spelled in hexadecimal digits: {error}") from None


def parse(content: bytes, path: str | None, look: Callable[[], None]) -> Program:
    return parse_xml(unspelled(content), path)


def read_spelled(content: str | bytes, path: str | None) -> Document:
    return parse_document(unspelled(content), path)


#: A whole target whose files are executed: they have thread blocks, and are known by how they begin.
SPELLED = replace(
    find_target("rccl"),
    name="spelled",
    title="programs of sends and receives in hexadecimal digits",
    format="spell",
    write=lambda program: f"spelled {to_xml(program).encode().hex()}",
    read=read_spelled,
    knows=lambda content: content.startswith(b"spelled "),
    parse=parse,
    unfold=TwoSided.of,
    unfold_document=None,
)


def breaks(*given: object, **named: object) -> None:
    raise ZeroDivisionError("of the target")


#: Whatever it is requested, it breaks down.
BREAKS = replace(LISTING, name="breaks", format="break", refuse=breaks, read=breaks, verify=breaks)

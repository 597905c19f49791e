"""What a runtime refuses, misreads or chokes on: rules about the file as a whole and about ranks.

Each rule's name says what holds when it finds nothing.
"""

from __future__ import annotations

from taccl.backend.program import Protocol
from taccl.backend.verify.msccl_xml import limits
from taccl.backend.verify.msccl_xml.columns import IS_NOP
from taccl.backend.verify.msccl_xml.limits import MSCCL, RUNTIMES
from taccl.backend.verify.msccl_xml.subject import Rule, Subject, runtimes_where
from taccl.backend.verify.msccl_xml.unfold import is_alltoall_in_place
from taccl.model.collectives import plain_name

_LATER = runtimes_where(lambda runtime: runtime is not MSCCL)
#: Scratch at start-up, in bytes, that no one can mean.
_SILLY_SCRATCH = 16 * 2**30


def _the_collective_is_known(subject: Subject) -> None:
    name = subject.program.collective
    known = set().union(*(runtime.collectives for runtime in RUNTIMES))
    spellings = sorted(each for each in known if plain_name(each) == plain_name(name) and each != name)
    other = f"; they spell it {' or '.join(spellings)}" if spellings else ""
    subject.file(
        "collective-name",
        f"coll is {name!r}, which these runtimes do not know{other}",
        "write one file for each spelling" if spellings else "use a collective that they know",
        runtimes_where(lambda runtime: name not in runtime.collectives),
        refusal="load",
    )


def _the_name_is_plain(subject: Subject) -> None:
    program = subject.program
    if program.name == "2D" and program.collective == "alltoall":
        message = "the name 2D on an alltoall selects a built-in algorithm instead of these steps"
        subject.file("reserved-name", message, "choose another name", (MSCCL.name,))
    if len(program.name) > 63:
        message = f"the name has {len(program.name)} characters, of which 63 are kept"
        subject.file("long-name", message, "choose a shorter name", (MSCCL.name,), severity="warning")


def _some_mode_is_claimed(subject: Subject) -> None:
    program = subject.program
    if not (program.in_place or program.out_of_place):
        message = "the file is for neither in-place nor out-of-place calls"
        subject.file("no-mode", message, "set inplace or outofplace to 1", _LATER, refusal="select")
    if is_alltoall_in_place(program, MSCCL):
        message = "the file is for alltoall in place, and this runtime refuses all such calls"
        hint = "write a file for calls out of place"
        subject.file("never-selected", message, hint, (MSCCL.name,), refusal="select")


def _the_size_range_is_not_empty(subject: Subject) -> None:
    smallest, largest = subject.program.min_bytes, subject.program.max_bytes
    below = runtimes_where(lambda runtime: not runtime.max_bytes_inclusive)
    if smallest < 0 or largest < 0:
        message = f"minBytes={smallest} and maxBytes={largest} must not be negative"
        subject.file("size-range", message, "use sizes in bytes, from 0 up", refusal="load")
    elif smallest > largest:
        message = f"minBytes={smallest} is over maxBytes={largest}"
        hint = "set maxBytes to the largest call it is for" if largest == 0 else "swap them"
        subject.file("size-range", message, hint, (MSCCL.name,), refusal="load")
        if largest > 0:
            subject.file("never-selected", f"{message}, so no call is served", hint, _LATER, refusal="select")
    elif largest == 0:
        message = "maxBytes is 0, which this runtime takes to mean that the file is for no call"
        never = runtimes_where(lambda runtime: runtime.zero_max_bytes == "never")
        subject.file(
            "never-selected", message, "set maxBytes to the largest call it is for", never, refusal="select"
        )
    elif smallest == largest:
        message = (
            f"minBytes and maxBytes are both {largest}, but this runtime serves calls below maxBytes only"
        )
        subject.file("never-selected", message, f"set maxBytes to {largest + 1}", below, refusal="select")


def _scratch_is_affordable(subject: Subject) -> None:
    program = subject.program
    largest = max(program.ranks, key=lambda rank: rank.scratch_chunks)
    needed = largest.scratch_chunks * program.max_bytes // max(1, program.chunks_per_loop)
    if needed > _SILLY_SCRATCH:
        subject.rank(
            largest,
            "scratch-size",
            f"needs {needed} bytes of scratch at maxBytes={program.max_bytes}, and this runtime sets them "
            "aside when it starts",
            "set maxBytes to the largest call it is for",
            (MSCCL.name,),
            severity="warning",
        )


def _channels_are_within_the_limit(subject: Subject) -> None:
    channels = subject.program.num_channels
    subject.file(
        "channel-limit",
        f"nchannels is {channels}, which is more than there can be"
        if channels > 0
        else f"nchannels is {channels}",
        "use 1 .. 32 channels (RCCL takes up to 128)",
        runtimes_where(lambda runtime: not 1 <= channels <= runtime.channels),
        refusal="load",
    )


def _the_buffer_is_cut_at_all(subject: Subject) -> None:
    if subject.program.chunks_per_loop < 1:
        message = f"nchunksperloop is {subject.program.chunks_per_loop}; the runtimes divide by it"
        subject.file("chunks-per-loop", message, "set it to the number of chunks of the buffer")


def _every_rank_has_thread_blocks(subject: Subject) -> None:
    from_file = any(rank.line is not None for rank in subject.program.ranks)
    for rank in subject.program.ranks:
        if not rank.thread_blocks:
            missing = "<gpu> element" if from_file and rank.line is None else "thread block"
            subject.rank(
                rank,
                "no-thread-block",
                f"has no {missing}, and a kernel without thread blocks cannot be launched",
                "give it one, with a copy of a chunk onto itself if there is nothing to do",
            )


def _thread_block_ids_have_no_holes(subject: Subject) -> None:
    for rank in subject.program.ranks:
        ids = [block.id for block in rank.thread_blocks]
        if ids != list(range(len(ids))):
            shown = ", ".join(map(str, ids[:8])) + (", ..." if len(ids) > 8 else "")
            subject.rank(
                rank,
                "thread-block-ids",
                f"has {len(ids)} thread blocks with the ids {shown}, not 0 .. {len(ids) - 1}",
                "number them from 0 without holes",
                refusal="load",
            )


def _thread_blocks_are_within_the_limit(subject: Subject) -> None:
    most = ", ".join(f"{runtime.title} takes {runtime.thread_blocks}" for runtime in RUNTIMES)
    for rank in subject.program.ranks:
        count = len(rank.thread_blocks)
        subject.rank(
            rank,
            "thread-block-limit",
            f"has {count} thread blocks; {most}",
            "use fewer channels or instances",
            tuple(runtime.name for runtime in RUNTIMES if count > runtime.thread_blocks),
            refusal="load",
        )
        if count > limits.RESIDENT_BLOCKS:
            subject.rank(
                rank,
                "resident-blocks",
                f"has {count} thread blocks, which must all run at once; an A100 has room for "
                f"{limits.RESIDENT_BLOCKS}",
                "use fewer channels or instances",
                severity="warning",
            )


def _the_reader_has_room_for_the_file(subject: Subject) -> None:
    program = subject.program
    if program.num_ranks > limits.MAX_CHILDREN:
        message = f"there are {program.num_ranks} ranks; the readers have room for {limits.MAX_CHILDREN}"
        subject.file("reader-room", message, "use fewer ranks", refusal="load", fatal=True)
    for rank in program.ranks:
        nodes = 1 + program.num_ranks + sum(1 + len(block.steps) for block in rank.thread_blocks)
        widest = max([len(rank.thread_blocks), *(len(block.steps) for block in rank.thread_blocks)])
        if nodes > limits.MAX_NODES or widest > limits.MAX_CHILDREN:
            subject.rank(
                rank,
                "reader-room",
                f"makes its reader keep {nodes} elements, up to {widest} side by side; it has room for "
                f"{limits.MAX_NODES} and {limits.MAX_CHILDREN}",
                "use fewer chunks, steps or instances",
                refusal="load",
            )


def _buffer_sizes_agree_with_the_collective(subject: Subject) -> None:
    program = subject.program
    name, chunks = plain_name(program.collective), program.chunks_per_loop
    for rank in program.ranks:
        for word, size, cut in (
            ("i_chunks", rank.input_chunks, name == "allgather"),
            ("o_chunks", rank.output_chunks, name == "reducescatter"),
        ):
            times = program.num_ranks if cut else 1
            if size > 0 and size * times != chunks:
                subject.rank(
                    rank,
                    "buffer-chunks",
                    f"has {word}={size}, but nchunksperloop={chunks} makes it {chunks // times}",
                    f"set it to {chunks // times}, or to 0 if this rank does not name that buffer",
                    (MSCCL.name,),
                    refusal="load",
                )


def _buffer_sizes_can_be_counted(subject: Subject) -> None:
    for rank in subject.program.ranks:
        sizes = (rank.input_chunks, rank.output_chunks, rank.scratch_chunks)
        if min(sizes) < 0 or max(sizes) > limits.MAX_OFFSET + 1:
            subject.rank(
                rank,
                "buffer-chunks",
                f"has buffers of {', '.join(map(str, sizes))} chunks; the runtimes count up to "
                f"{limits.MAX_OFFSET + 1}",
                "use fewer chunks",
                refusal="load" if rank.scratch_chunks < 0 else None,
            )


def _simple_reaches_across_nodes(subject: Subject) -> None:
    program = subject.program
    if program.protocol is Protocol.SIMPLE and program.collective in ("broadcast", "reduce"):
        subject.file(
            "simple-across-nodes",
            f"a {program.collective} with protocol Simple may hang between nodes: for this collective the "
            "network proxy counts slots differently from the kernel",
            "use LL or LL128 if there is more than one node",
            severity="warning",
        )


def _something_is_executed(subject: Subject) -> None:
    if IS_NOP[subject.columns.op].all():
        subject.file("no-steps", "the program has no steps", "synthesize it again")


HEADER_RULES: tuple[Rule, ...] = (
    _the_collective_is_known,
    _the_name_is_plain,
    _some_mode_is_claimed,
    _the_size_range_is_not_empty,
    _scratch_is_affordable,
    _channels_are_within_the_limit,
    _the_buffer_is_cut_at_all,
    _every_rank_has_thread_blocks,
    _thread_block_ids_have_no_holes,
    _thread_blocks_are_within_the_limit,
    _the_reader_has_room_for_the_file,
    _buffer_sizes_agree_with_the_collective,
    _buffer_sizes_can_be_counted,
    _simple_reaches_across_nodes,
    _something_is_executed,
)

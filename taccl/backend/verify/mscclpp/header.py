"""What the runtime refuses or misreads of a plan as a whole.

Each rule's name says what holds when it is silent.
Sizes of calls are those of the message: of an AllGather the output, of all others the input.
"""

from __future__ import annotations

from taccl.backend.plan import NO_LARGEST, ExecutionPlan
from taccl.backend.verify.mscclpp.signatures import SUMMING, moves_packets
from taccl.backend.verify.mscclpp.subject import Rule, Subject
from taccl.model.collectives import plain_name
from taccl.support.arguments import shown

#: Those that mscclpp's own test or its NCCL library ask for.
COLLECTIVES = ("allgather", "reducescatter", "allreduce", "alltoall", "sendrecv", "broadcast")
_FREE = ("test", "custom")
#: Offsets in bytes have 32 bits.
OFFSETS = 2**32
MAX_THREADS = 1024
WARP = 32
#: What a load of one thread moves, in bytes.
VECTOR = 16


def smallest_unit(plan: ExecutionPlan) -> int | None:
    """The bytes of which every message is a multiple; None where chunks or alignment make no sense."""
    chunks = max((_message_chunks(plan, rank) for rank in range(plan.num_ranks)), default=0)
    return chunks * plan.alignment if chunks > 0 and plan.alignment > 0 else None


def largest_chunk(plan: ExecutionPlan) -> int | None:
    """The bytes of a chunk in the largest call that the plan names; None where it names none."""
    chunks = max((_message_chunks(plan, rank) for rank in range(plan.num_ranks)), default=0)
    return plan.max_bytes // chunks if chunks > 0 and 0 < plan.max_bytes < NO_LARGEST else None


def smallest_chunk(plan: ExecutionPlan) -> int | None:
    """The bytes of a chunk in the smallest call that the plan serves; None where that makes no sense."""
    unit = smallest_unit(plan)
    return None if unit is None else max(1, -(-plan.min_bytes // unit)) * plan.alignment


def _message_chunks(plan: ExecutionPlan, rank: int) -> int:
    chosen = plan.ranks[rank]
    return chosen.output_chunks if plan.collective == "allgather" else chosen.input_chunks


def _the_name_is_there(subject: Subject) -> None:
    if not subject.plan.name:
        message = "the plan has no name; two plans of one name in a process share their state"
        subject.file("plan-name", message, "give each plan a name of its own", severity="warning")


def _the_collective_is_known(subject: Subject) -> None:
    name = subject.plan.collective
    if name not in (*COLLECTIVES, *_FREE):
        plain = plain_name(name)
        hint = f"write {plain}" if plain in COLLECTIVES else f"one of {', '.join(COLLECTIVES)}"
        message = f"collective is {shown(name)}, which no library asks for and mscclpp's test refuses"
        subject.file("collective-name", message, hint, severity="warning")


def _the_protocol_is_one_of_two(subject: Subject) -> None:
    protocol = subject.plan.protocol
    if protocol not in ("Simple", "LL"):
        message = f"protocol is {shown(protocol)}, which the runtime takes for Simple"
        subject.file("protocol", message, "write Simple or LL", severity="warning")


def _packets_have_room(subject: Subject) -> None:
    if subject.plan.moves_packets:
        return
    for at in subject.operations():
        if moves_packets(at.operation.name):
            message = "moves packets in a plan of protocol Simple, whose scratch has no room for their flags"
            subject.operation(at, "packets-in-simple", message, "set protocol to LL")


def _the_number_of_threads_can_be_launched(subject: Subject) -> None:
    threads = subject.plan.threads
    if not WARP <= threads <= MAX_THREADS or threads % WARP:
        message = f"num_threads_per_block is {threads}"
        hint = f"a multiple of {WARP} from {WARP} to {MAX_THREADS}"
        subject.file("thread-count", message, hint, refusal="launch" if threads > MAX_THREADS else None)


def _ranges_are_cut_where_loads_begin(subject: Subject) -> None:
    alignment = subject.plan.alignment
    if alignment < 1:
        message = f"buffer_alignment is {alignment}; the runtime divides by it"
        subject.file("alignment", message, f"set it to {VECTOR}", refusal="load", fatal=True)
    elif alignment % VECTOR:
        names = [at.operation.name for at in subject.operations()]
        is_wrong = any(name in SUMMING or moves_packets(name) for name in names)
        said = "sums and packets address wrongly" if is_wrong else "sums and packets would address wrongly"
        message = f"buffer_alignment is {alignment}, and where it is no multiple of {VECTOR}, {said}"
        subject.file("alignment", message, f"set it to {VECTOR}", severity="error" if is_wrong else "warning")


def _the_sizes_can_be_read(subject: Subject) -> None:
    smallest, largest = subject.plan.min_bytes, subject.plan.max_bytes
    if not 0 <= smallest < 2**31:
        message = f"min_message_size is {smallest}, which the runtime reads as a 32-bit number"
        subject.file("message-size", message, "bytes from 0 to 2147483647")
    if not 0 <= largest <= NO_LARGEST:
        subject.file("message-size", f"max_message_size is {largest}", "bytes from 0 to 2^64 - 1")


def _some_size_is_served(subject: Subject) -> None:
    plan = subject.plan
    unit = smallest_unit(plan)
    if unit is None or plan.min_bytes < 0 or plan.max_bytes < 0:
        return
    least = max(1, -(-plan.min_bytes // unit)) * unit
    if plan.max_bytes < least:
        message = (
            f"no call is served: messages are multiples of {unit} bytes, and none lies in "
            f"{plan.min_bytes} .. {plan.max_bytes}"
        )
        subject.file(
            "no-message-size", message, "widen min_message_size .. max_message_size", refusal="select"
        )


def _offsets_fit(subject: Subject) -> None:
    plan = subject.plan
    if plan.max_bytes == NO_LARGEST:
        message = "max_message_size is left open, and in buffers of 4 GiB and more all offsets wrap silently"
        hint = "set it to the largest call that the plan is for; it also bounds the scratch"
        subject.file("open-size", message, hint, severity="warning")
        return
    chunk = largest_chunk(plan)
    if chunk is None:
        return
    times = (2 if plan.moves_packets else 1) * (2 if plan.double_scratch else 1)
    for number, rank in subject.ranks():
        sizes = {
            "input": rank.input_chunks,
            "output": rank.output_chunks,
            "scratch": 0 if plan.reuse_resources else rank.scratch_chunks * times,
        }
        for word, chunks in sizes.items():
            if chunks * chunk < OFFSETS:
                continue
            message = (
                f"has {chunks * chunk} bytes of {word} in calls of max_message_size={plan.max_bytes}, and "
                f"offsets from {OFFSETS} on wrap silently"
            )
            most = (OFFSETS - 1) // chunks * (plan.max_bytes // chunk)
            subject.rank(number, "offset-range", message, f"set max_message_size to at most {most}")


HEADER_RULES: tuple[Rule, ...] = (
    _the_name_is_there,
    _the_collective_is_known,
    _the_protocol_is_one_of_two,
    _packets_have_room,
    _the_number_of_threads_can_be_launched,
    _ranges_are_cut_where_loads_begin,
    _the_sizes_can_be_read,
    _some_size_is_served,
    _offsets_fit,
)

"""One call of a file under mpirun, by its rounds, compared with NumPy's answer."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taccl.backend.execute.agents import End
from taccl.backend.execute.call import DTYPES, REDUCTIONS, STANDARD, Call, usual_bytes
from taccl.backend.execute.host import Answers, Host
from taccl.backend.execute.outcome import Execution, Subject, conclude
from taccl.backend.execute.requested import RunRequested
from taccl.backend.execute.shared import check_room
from taccl.backend.machine.one_call import OneCall
from taccl.backend.program import Buffer
from taccl.backend.rounds.lowering import lower_to_rounds
from taccl.backend.rounds.rounds import Rounds
from taccl.backend.unfolded import Unfolded
from taccl.deployment.jobs.steps import run_steps, steps_of
from taccl.deployment.mpi.messages import messages_of
from taccl.deployment.mpi.world import World
from taccl.errors import CollectiveError, TacclError
from taccl.model.collective import Collective
from taccl.model.collectives import plain_name, rounding_notes


def run_over_mpi(unfolded: Unfolded, requested: RunRequested, world: World) -> list[Execution]:
    """Run this process's rank in each way that is requested; every process calls this with the same, and all
    return the same outcomes. Without `requested.in_place`: out of place, and then in place.

    Raises
    ------
    TacclError : mpirun has started more or fewer processes than the file has ranks; the call does not fit.
    VerificationError : the file is not right, or it is not at an end in time on some rank.
    """
    modes = (False, True) if requested.in_place is None else (requested.in_place,)

    def lowered() -> list[tuple[Rounds, Call]]:
        _check(requested)
        call = unfolded.one_call(requested.collective, requested.root)
        each_way = [lower_to_rounds(call, in_place=in_place) for in_place in modes]
        if world.size != each_way[0].num_ranks:
            raise TacclError(
                f"the file is for {each_way[0].num_ranks} ranks, and MPI has started {world.size}",
                hint=f"mpirun -n {each_way[0].num_ranks} taccl run FILE --backend mpi",
            )
        sizes = unfolded.min_bytes, unfolded.max_bytes
        return [(rounds, _call(rounds, call, requested, sizes)) for rounds in each_way]

    return [_run(rounds, call, requested, world) for rounds, call in world.all_do(lowered)]


def _check(requested: RunRequested) -> None:
    for name, given in (
        ("--slots", requested.slots),
        ("--piece", requested.piece_bytes),
        ("--calls", requested.calls),
    ):
        if given is not None:
            raise TacclError(f"{name} says nothing of rounds over MPI", hint=f"leave {name} out")
    if requested.dtype not in DTYPES:
        raise TacclError(f"unknown dtype {requested.dtype!r}", hint="one of " + ", ".join(DTYPES))


def _call(rounds: Rounds, made: OneCall, requested: RunRequested, sizes: tuple[int, int]) -> Call:
    """The call that the rounds serve, as the hosts of ranks know calls."""
    collective = requested.collective
    custom = None if collective is None or plain_name(collective.name) in STANDARD else collective
    parts, item = _parts(rounds, custom), np.dtype(requested.dtype).itemsize
    size = requested.size_bytes
    if size is None:
        wanted = usual_bytes(*sizes, parts // rounds.chunks if custom is None else 1)
        chunk = max(1, round(wanted / (parts * item)))
    else:
        chunk = size // (parts * item)
    if not chunk:
        raise CollectiveError(
            f"a size of {size} bytes has no element of {item} bytes for each of this file's {parts} chunks",
            hint=f"--size {parts * item} or more",
        )
    inputs, outputs, _ = np.array(rounds.sizes, dtype=np.int64).T
    return Call(
        num_ranks=rounds.num_ranks,
        collective=rounds.collective,
        custom=custom,
        dtype=requested.dtype,
        op=requested.op,
        in_place=rounds.in_place,
        root=rounds.root,
        seed=requested.seed,
        size_bytes=chunk * parts * item,
        chunk=chunk,
        piece=chunk,
        chunks_per_piece=1,
        slots=1,
        input_size=inputs * chunk,
        output_size=outputs * chunk,
        in_place_shift=np.array(rounds.in_place_shift, dtype=np.int64) * chunk,
        notes=() if size is None else tuple(rounding_notes(size, chunk * item, parts)),
    )


def _parts(rounds: Rounds, custom: Collective | None) -> int:
    """Chunks of the rounds in the size of a call."""
    if custom is None:
        return rounds.chunks * (rounds.num_ranks if rounds.collective in ("gather", "scatter") else 1)
    whole = custom.outputs.buffer_size(custom.num_ranks)
    rank = int(np.argmax(whole))
    return custom.chunks_per_size * (rounds.sizes[rank][1] // int(whole[rank]))


@dataclass(frozen=True, eq=False)
class _Own:
    """The buffers of the one rank that this process has; all of them lie in `data`."""

    data: NDArray[Any]
    inputs: NDArray[Any]
    outputs: NDArray[Any]
    scratch: NDArray[Any]

    def user(self, rank: int, buffer: Buffer) -> NDArray[Any]:
        return self.inputs if buffer is Buffer.INPUT else self.outputs

    def unwritten(self, rank: int) -> NDArray[Any]:
        return self.data


def _laid_out(rounds: Rounds, call: Call, rank: int) -> _Own:
    inputs, outputs = int(call.input_size[rank]), int(call.output_size[rank])
    shift = int(call.in_place_shift[rank])
    at_input, at_output = (max(shift, 0), max(-shift, 0)) if rounds.in_place else (0, inputs)
    user = max(at_input + inputs, at_output + outputs)
    elements = user + rounds.sizes[rank][2] * call.chunk
    check_room(elements * call.item_bytes, 1, "a smaller --size")
    data: NDArray[Any] = np.empty(elements, dtype=call.dtype)
    return _Own(data, data[at_input:][:inputs], data[at_output:][:outputs], data[user:])


def _run(rounds: Rounds, call: Call, requested: RunRequested, world: World) -> Execution:
    began, deadline = time.monotonic(), requested.deadline
    steps = steps_of(rounds, world.rank)
    sent = [0]

    def prepared() -> tuple[_Own, Host]:
        memory = _laid_out(rounds, call, world.rank)
        host = Host(memory, world.rank, Answers(call, deadline.look))
        host.prepare(0)
        return memory, host

    def moved() -> bool:
        buffers = memory.inputs, memory.outputs, memory.scratch
        exchange = messages_of(world, deadline.look)
        run_steps(steps, buffers, call.chunk, REDUCTIONS[call.op], exchange)
        sent[0] = sum(len(each.sends) for each in steps.rounds)
        return True

    def compared() -> bool:
        host.compare(0)
        return True

    messages = sum(len(each.messages) for each in rounds.rounds)
    deadline.counts("making the inputs", messages, lambda: sent[0])
    memory, host = world.all_do(prepared)
    deadline.turns_to("moving data")
    world.all_do(moved)
    known = requested.check and call.checkable
    if known:
        deadline.turns_to("comparing the result")
        world.all_do(compared)
    ends = world.comm.allgather(End(sent[0], ended=True, verdict=host.verdict))
    ends = [end if known else replace(end, verdict=None) for end in ends]
    subject = Subject(call, thread_blocks=0, steps=len(rounds.rounds))
    return conclude(subject, "mpi", ends, known, time.monotonic() - began)

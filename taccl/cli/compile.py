"""`taccl compile`: make machine code of the loops, so that no search and no file has to wait for it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from itertools import chain
from multiprocessing import get_context
from multiprocessing.connection import Connection
from signal import SIG_IGN, SIGINT, signal

import click

from taccl.analysis.ordering import estimate
from taccl.analysis.ordering.plans import traffic_for
from taccl.api import make_problem
from taccl.backend.lower import lower
from taccl.backend.msccl_xml.reader import parse_document
from taccl.backend.msccl_xml.writer import to_xml
from taccl.backend.simulate import simulate_program
from taccl.backend.simulate.executor.executed import is_compiled, simulate_executed
from taccl.backend.verify.msccl_xml.verifier import verify_document
from taccl.encoding.bounds import all_bounds
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.registry import ENGINES, compile_first_trees
from taccl.encoding.instance import Instance
from taccl.support.budget import Budget
from taccl.support.jit import ahead_of_time
from taccl.synthesis.request import Request
from taccl.synthesis.search import search
from taccl.topologies.executors.defaults import default_executor

#: The first is answered by trees, the second by paths.
_COLLECTIVES = ("allreduce", "alltoall", "broadcast")
#: Units of work: enough for a first schedule, and for a search of what is better to begin.
_WORK = 200


@click.command("compile")
def compile() -> None:  # the command's name: nothing here needs the function that it hides
    """Compile the loops of engines and files, once after installing.

    Some engines run loops over millions of rows as machine code. It is made when it is first needed, which
    takes some thirty seconds for an engine; a search with less time goes on without that engine, and says so.
    Bounds of large machines run such loops, too, and so do lowering, verifying and simulating files of many
    steps, and `taccl order`.
    """
    for name, was_there, seconds in _compiled():
        click.echo(f"{name:12} {'cached' if was_there else f'compiled in {seconds:.1f} s'}")


def _compiled() -> Iterator[tuple[str, bool, float]]:
    """What is compiled, whether it was there, and seconds: engines in a process of their own meanwhile.

    No loop is of both, so neither process waits for what the other compiles, nor writes the same file.
    """
    if all(engine.is_compiled() for engine in ENGINES if engine.is_compiled is not None):
        yield from chain(_timed(compile_engines()), _timed(compile_stages()))
        return
    context = get_context("spawn")
    here, there = context.Pipe(duplex=False)
    other = context.Process(target=_send_engines, args=(there,), daemon=True)
    other.start()
    there.close()
    try:
        yield from _timed(compile_stages())
        try:
            yield from here.recv()
        except EOFError:  # the process was killed
            yield from _timed(compile_engines())
    finally:
        other.terminate()
        other.join()


def _send_engines(answers: Connection) -> None:
    """Compile the loops of engines, and send what `_timed` says; the process that waits hears Ctrl-C."""
    signal(SIGINT, SIG_IGN)
    answers.send(list(_timed(compile_engines())))


def _timed(parts: Iterator[tuple[str, bool]]) -> Iterator[tuple[str, bool, float]]:
    began = time.monotonic()
    for name, was_there in parts:
        now = time.monotonic()
        yield name, was_there, now - began
        began = now


def compile_engines() -> Iterator[tuple[str, bool]]:
    """Compile the loops of each engine that has any, once on a computer.

    Yields the engine's name, and whether its loops were machine code already. Compiling takes some thirty
    seconds for an engine; what was compiled is kept next to the package, or where `NUMBA_CACHE_DIR` says.
    """
    problems = [
        make_problem(each, topology="mesh:2x2", size="1MB", chunks=2).problem for each in _COLLECTIVES
    ]
    for engine in ENGINES:
        if engine.is_compiled is None:
            continue
        was_there = engine.is_compiled()
        for instance in () if was_there else map(Instance, problems):
            if engine.can(instance):
                deque(engine.run(instance, SearchOptions(), Budget.of_work(_WORK), None), maxlen=0)
        yield engine.name, was_there


def compile_stages() -> Iterator[tuple[str, bool]]:
    """Compile the loops of bounds, distances, first trees and orders, and those that long files need.

    Yields the stage's name, and whether all its loops were machine code already.
    """
    # Sums and fused steps each have a loop of their own: an AllReduce for msccl meets both, and all others.
    problem = make_problem("allreduce", topology="mesh:2x2", size="1MB", chunks=2).problem
    with ahead_of_time() as loops:
        schedule = search(problem, SearchOptions(engine="greedy", effort=_WORK)).schedule
    # Trees are for large machines alone: no search of a small one comes to their loop.
    of_one_root = make_problem("broadcast", topology="mesh:2x2", size="1MB", chunks=2).problem
    had_trees = compile_first_trees(Instance(of_one_root))
    yield "greedy", all(loops.values()) and had_trees
    with ahead_of_time() as loops:
        for each in (schedule.problem, of_one_root):
            all_bounds(each)
    yield "bounds", all(loops.values())
    with ahead_of_time() as loops:
        program = lower(schedule, runtimes="msccl")[0].program
    yield "lower", all(loops.values())
    with ahead_of_time() as loops:
        verify_document(parse_document(to_xml(program)), targets=None)
    yield "verify", all(loops.values())
    with ahead_of_time() as loops:
        simulate_program(program, schedule.problem.topology, schedule.problem.chunk_mb)
    yield "simulate", all(loops.values())
    was_there, executor = is_compiled(), default_executor("H100", "msccl")
    assert executor is not None, "it is in the table"
    network = schedule.problem.topology
    simulate_executed(program, network, executor, schedule.problem.chunk_mb, program.protocol)
    yield "execute", was_there
    was_there = estimate.is_compiled()
    traffic = traffic_for("ring", Request("allreduce", topology="ring:4", size="1MB", chunks=1))
    estimate.Estimator.of(traffic).estimate_us(traffic.own_order)
    yield "order", was_there

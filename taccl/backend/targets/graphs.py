"""The targets whose files are rings and trees of stock libraries: RCCL's variables, NCCL's graph file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from taccl.backend.graphs.document import Graphs, Shape
from taccl.backend.graphs.found import GraphsDocument
from taccl.backend.graphs.loads import pairs_of
from taccl.backend.graphs.lowering import check_problem, lower_to_graphs
from taccl.backend.graphs.programs import Channels, graphs_in
from taccl.backend.graphs.read_environment import is_environment, read_environment
from taccl.backend.graphs.read_graph_file import is_graph_file, read_graph_file
from taccl.backend.graphs.verify import verify_graphs
from taccl.backend.graphs.writer import environment_line, graph_xml
from taccl.backend.lower.carried import XML_FEATURES, XML_REASONS
from taccl.backend.target import Lowered, LoweringOptions, Target, TargetLimits
from taccl.errors import CollectiveError
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule

_NCCL, _RCCL = ("nccl",), ("rccl",)


def _lower(
    schedule: Schedule, options: LoweringOptions, *, shape: Shape, runtimes: tuple[str, ...]
) -> tuple[Lowered[Graphs], ...]:
    graphs = lower_to_graphs(schedule, shape)
    pairs = {pair for channel in graphs.channels for pair in pairs_of(shape, channel)}
    return (Lowered(replace(graphs, by_nvlink=pairs <= options.nvlinks), runtimes),)


def _readers_of(collective: str, *, runtimes: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
    if collective != "allreduce":
        raise CollectiveError(
            f"the graphs of a library are made from AllReduce, not from {collective}",
            hint="--collective allreduce: its other collectives use the same rings",
        )
    return (runtimes,)


def _refuse(problem: Problem, options: LoweringOptions) -> None:
    check_problem(problem)


def _parse(
    content: bytes,
    path: str | None,
    look: Callable[[], None],
    *,
    read: Callable[[bytes, str | None], GraphsDocument],
) -> Graphs:
    return graphs_in(read(content, path))[0]


def _use(graphs: Graphs, readers: tuple[str, ...], path: Path | None, *, how: Sequence[str]) -> list[str]:
    where = "the graph file" if path is None else str(path.resolve())
    ll128 = "allowed: NVLinks join the GPUs" if graphs.by_nvlink else "off: the links may not be NVLinks"
    return [
        f"{graphs.name} {graphs.origin}: AllReduce moves at most {graphs.gbps:.1f} GB/s by the links",
        *(line.format(path=where, ll128=ll128) for line in how),
    ]


def _sourced(runtime: str, programs: Mapping[str, Graphs]) -> list[str]:
    return [f'. "$HERE/{name}"' for name in programs]


def _named(runtime: str, programs: Mapping[str, Graphs]) -> list[str]:
    return [f'export NCCL_GRAPH_FILE="$HERE/{name}"' for name in programs]


def _target(
    name: str,
    title: str,
    shape: Shape,
    runtimes: tuple[str, ...],
    *,
    ending: str,
    write: Callable[[Graphs], str],
    read: Callable[[str | bytes, str | None], GraphsDocument],
    knows: Callable[[bytes], bool],
    how: Sequence[str],
) -> Target[Graphs, GraphsDocument]:
    return Target(
        name=name,
        title=title,
        format=ending,
        runtimes=runtimes,
        limits=TargetLimits(instances=1),
        lower=partial(_lower, shape=shape, runtimes=runtimes),
        write=write,
        read=read,
        verify=verify_graphs,
        features=XML_FEATURES,
        reasons=XML_REASONS,
        readers_of=partial(_readers_of, runtimes=runtimes),
        refuse=_refuse,
        use=partial(_use, how=how),
        environment=_named if runtimes == _NCCL else _sourced,
        most_files=dict.fromkeys(runtimes, 1),
        knows=knows,
        parse=partial(_parse, read=read),
        unfold=Channels.of_graphs,
    )


TARGETS = (
    _target(
        "rccl-trees",
        "RCCL's trees of one node, for AllReduce",
        "tree",
        _RCCL,
        ending="env",
        write=environment_line,
        read=read_environment,
        knows=is_environment,
        how=(
            "before the job: . {path}",
            "AllReduce then always takes trees; channel c takes tree c modulo their number",
        ),
    ),
    _target(
        "rccl-rings",
        "RCCL's rings of one node",
        "ring",
        _RCCL,
        ending="env",
        write=environment_line,
        read=read_environment,
        knows=is_environment,
        how=("before the job: . {path}",),
    ),
    _target(
        "nccl-graph",
        "NCCL's rings of one node",
        "ring",
        _NCCL,
        ending="graph",
        write=graph_xml,
        read=read_graph_file,
        knows=is_graph_file,
        how=(
            "NCCL_GRAPH_FILE={path}",
            "LL128 is {ll128}",
        ),
    ),
)

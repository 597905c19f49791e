"""The target whose file says where sums are made: for servers that aggregate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from taccl.backend.placement.document import (
    MeetingPlaces,
    PlacementDocument,
    begins_as_placement,
    parse_placement,
    placement_json,
)
from taccl.backend.placement.lowering import check_problem, meeting_places
from taccl.backend.placement.verify import RUNTIME, verify_placement
from taccl.backend.target import Lowered, LoweringOptions, Target, TargetLimits
from taccl.errors import CollectiveError
from taccl.model.problem import FEATURES, Problem
from taccl.model.schedule import Schedule
from taccl.model.units import format_count

_SUMS = ("allreduce", "reducescatter", "reduce")


def _readers_of(collective: str) -> Sequence[tuple[str, ...]]:
    if collective not in _SUMS:
        raise CollectiveError(
            f"a placement says where sums are made, and {collective} makes none",
            hint=f"--collective {', '.join(_SUMS)}",
        )
    return ((RUNTIME,),)


def _refuse(problem: Problem, options: LoweringOptions) -> None:
    check_problem(problem)


def _lower(schedule: Schedule, options: LoweringOptions) -> tuple[Lowered[MeetingPlaces], ...]:
    return (Lowered(meeting_places(schedule), (RUNTIME,)),)


def _use(places: MeetingPlaces, readers: tuple[str, ...], path: Path | None) -> list[str]:
    at_servers = sum(places.ranks[at].is_server for at in places.at)
    servers = format_count(len(places.ranks) - places.num_members, "server")
    return [
        f"{at_servers} of {format_count(len(places.at), 'chunk')} are summed at {servers}, the rest at GPUs"
    ]


TARGETS: tuple[Target[MeetingPlaces, PlacementDocument], ...] = (
    Target(
        name="placement",
        title="which chunk is summed at which server or GPU",
        format="json",
        runtimes=(RUNTIME,),
        limits=TargetLimits(instances=1),
        lower=_lower,
        write=placement_json,
        read=parse_placement,
        verify=verify_placement,
        features=frozenset(FEATURES),
        protocols=("none",),
        readers_of=_readers_of,
        refuse=_refuse,
        use=_use,
        knows=begins_as_placement,
    ),
)

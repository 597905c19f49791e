"""The target whose files are the flat JSON of actions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from taccl.backend.flat_json.document import ActionsProgram
from taccl.backend.flat_json.lowering import lower_flat, refuse_calls
from taccl.backend.flat_json.of_rank import text_of_ranks
from taccl.backend.flat_json.reader import begins_as_actions, parse_actions_document
from taccl.backend.flat_json.unfolded import Flat
from taccl.backend.flat_json.verify import RUNTIME, verify_actions
from taccl.backend.flat_json.writer import actions_to_json
from taccl.backend.lower.carried import FEATURES, REASONS
from taccl.backend.machine.unequal import UnequalCollective
from taccl.backend.target import Lowered, LoweringOptions, Target, TargetLimits
from taccl.model import units
from taccl.model.collectives import calls_served
from taccl.model.schedule import Schedule


def _lower(schedule: Schedule, options: LoweringOptions) -> tuple[Lowered[ActionsProgram], ...]:
    program, collective = lower_flat(schedule, options), None
    elements = np.array(program.chunk_elements, dtype=np.int64)
    elements //= np.gcd.reduce(elements)
    if elements.max() > 1:
        collective = UnequalCollective(schedule.problem.collective, elements)
    return (Lowered(program, (RUNTIME,), collective),)


def _parse(content: bytes, path: str | None, look: Callable[[], None]) -> ActionsProgram:
    return parse_actions_document(content, path).whole()


def _use(program: ActionsProgram, readers: tuple[str, ...], path: Path | None) -> list[str]:
    if len(set(program.chunk_elements)) > 1:
        total = sum(program.chunk_elements) * program.element_bytes
        served = f"calls of the sizes that were requested, {units.format_size(total)} in all"
    else:
        sizes = calls_served(program.collective, len(program.ranks), program.min_bytes, program.max_bytes)
        served = f"calls of {sizes}"
    return [f"serves {served}, out of place", "docs/actions-json.md has the rules of an executor"]


TARGETS = (
    Target(
        name="json",
        title="what each rank does, for any executor",
        format="json",
        runtimes=(RUNTIME,),
        limits=TargetLimits(instances=1),
        refuse=refuse_calls,
        lower=_lower,
        write=actions_to_json,
        read=parse_actions_document,
        verify=verify_actions,
        features=FEATURES,
        reasons=REASONS,
        protocols=("none",),
        use=_use,
        of_ranks=text_of_ranks,
        knows=begins_as_actions,
        parse=_parse,
        unfold=Flat.of,
        unfold_document=Flat.of_document,
    ),
)

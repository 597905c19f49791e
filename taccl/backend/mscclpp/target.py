"""The target whose files are MSCCL++ plans: they are read and verified, whoever made them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from taccl.backend.lower.carried import FEATURES, REASONS
from taccl.backend.mscclpp.reader import PlanDocument, parse_plan, parse_plan_document
from taccl.backend.mscclpp.writer import to_json
from taccl.backend.plan import ExecutionPlan
from taccl.backend.target import Lowered, LoweringOptions, Target, TargetLimits
from taccl.backend.verify.report import Report
from taccl.backend.verify_plan import verify_plan_document
from taccl.backend.verify_plan.versions import NEWEST
from taccl.collective import Collective
from taccl.errors import CollectiveError
from taccl.problem import Problem
from taccl.schedule import Schedule

#: What the first key of a saved schedule says; it is JSON, too.
_SCHEDULE = b'"taccl-schedule"'


def begins_as_plan(content: bytes) -> bool:
    """Whether a file is a JSON object other than a saved schedule, well formed or not."""
    return content[:64].removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{") and _SCHEDULE not in content


def _verify(
    document: PlanDocument,
    /,
    *,
    readers: Sequence[str] | None,
    collective: Collective | None,
    root: int | None,
) -> Report:
    return verify_plan_document(document, targets=readers, collective=collective, root=root)


def _refuse(problem: Problem, options: LoweringOptions) -> NoReturn:
    raise CollectiveError(
        "no schedule becomes an MSCCL++ plan here; such files are read and verified only",
        hint="another --target, or --no-xml for the schedule alone",
    )


def _lower(schedule: Schedule, options: LoweringOptions) -> Sequence[Lowered[ExecutionPlan]]:
    _refuse(schedule.problem, options)


TARGETS: tuple[Target[ExecutionPlan, PlanDocument], ...] = (
    Target(
        name="mscclpp",
        title="plans for microsoft/mscclpp v0.10 (JSON)",
        format="json",
        runtimes=(NEWEST.name,),
        limits=TargetLimits(),
        lower=_lower,
        write=to_json,
        features=FEATURES,
        reasons=REASONS,
        read=parse_plan_document,
        verify=_verify,
        protocols=("Simple", "LL"),
        refuse=_refuse,
        knows=begins_as_plan,
        as_plan=parse_plan,
    ),
)

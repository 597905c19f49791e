"""One-sided programs to MSCCL++'s plans (JSON) and back."""

from taccl.backend.mscclpp.reader import (
    PlanDocument,
    parse_plan,
    parse_plan_document,
    read_plan,
    read_plan_document,
)
from taccl.backend.mscclpp.writer import to_json

__all__ = ["PlanDocument", "parse_plan", "parse_plan_document", "read_plan", "read_plan_document", "to_json"]

"""Whether MSCCL++ takes a plan and does with it what the plan says, in every order of execution.

Shares with the lowering nothing but `taccl.backend.plan`, and with the verifier of two-sided programs the
report, so that each checks the other.
"""

from taccl.backend.verify_plan.verifier import (
    verify_plan,
    verify_plan_document,
    verify_plan_file,
    verify_plan_text,
)

__all__ = ["verify_plan", "verify_plan_document", "verify_plan_file", "verify_plan_text"]

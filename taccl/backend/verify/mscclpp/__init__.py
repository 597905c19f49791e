"""Whether MSCCL++ takes a plan and does with it what the plan says, in every order of execution.

Shares only `taccl.backend.plan` with the lowering. From the verifier of two-sided programs come the report,
the expected outputs, the numbered contributions and the pairs of accesses that need an order; what orders
accesses (meetings, signals, packets, ports) is defined here.
"""

from taccl.backend.verify.mscclpp.verifier import (
    verify_plan,
    verify_plan_document,
    verify_plan_file,
    verify_plan_text,
)

__all__ = ["verify_plan", "verify_plan_document", "verify_plan_file", "verify_plan_text"]

"""Whether a runtime takes a program, and whether it computes its collective in every possible order.

Shares nothing with the lowering but `taccl.backend.program`, so that each checks the other.
"""

from taccl.backend.machine.report import Facts, Finding, Verification
from taccl.backend.verify.msccl_xml.verifier import (
    refusals_of,
    verify_document,
    verify_file,
    verify_program,
    verify_text,
)

__all__ = [
    "Facts",
    "Finding",
    "Verification",
    "refusals_of",
    "verify_document",
    "verify_file",
    "verify_program",
    "verify_text",
]

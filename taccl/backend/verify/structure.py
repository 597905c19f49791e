"""What each named runtime would refuse, silently ignore or choke on, as far as the program shows it.

How the file is written is looked at in `document` and `lexical`.
"""

from __future__ import annotations

from taccl.backend.verify.blocks import BLOCK_RULES
from taccl.backend.verify.columns import Columns
from taccl.backend.verify.executed_steps import ExecutedSteps
from taccl.backend.verify.header import HEADER_RULES
from taccl.backend.verify.report import Collector
from taccl.backend.verify.steps import STEP_RULES
from taccl.backend.verify.subject import Subject


def check_structure(columns: Columns, executed: ExecutedSteps, collector: Collector) -> None:
    """Findings for everything that at least one runtime does not take as it is meant."""
    subject = Subject(columns, executed, collector)
    for rule in (*HEADER_RULES, *BLOCK_RULES, *STEP_RULES):
        rule(subject)

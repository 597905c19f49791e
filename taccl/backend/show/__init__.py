"""What a person wants to see of a schedule or a program: text, a page for the browser, a trace."""

from taccl.backend.show.of_plan import describe_plan
from taccl.backend.show.of_program import program_timeline
from taccl.backend.show.of_schedule import schedule_timeline
from taccl.backend.show.page import to_html
from taccl.backend.show.plan_timeline import plan_timeline
from taccl.backend.show.text import describe_program, describe_schedule
from taccl.backend.show.timeline import Bars, Timeline
from taccl.backend.show.trace import to_trace

__all__ = [
    "Bars",
    "Timeline",
    "describe_plan",
    "describe_program",
    "describe_schedule",
    "plan_timeline",
    "program_timeline",
    "schedule_timeline",
    "to_html",
    "to_trace",
]

"""The answer: a schedule, the rules it keeps, and its file format. It does not know how it was found."""

from taccl.schedule.codec import SavedSchedule, read_schedule, schedule_from_json, schedule_to_json
from taccl.schedule.columns import Schedule, Send, Sends, schedule_from_sends
from taccl.tolerance import TOLERANCE_US

__all__ = [
    "TOLERANCE_US",
    "SavedSchedule",
    "Schedule",
    "Send",
    "Sends",
    "read_schedule",
    "schedule_from_json",
    "schedule_from_sends",
    "schedule_to_json",
]

"""The answer: a schedule, the rules it keeps, and its file formats. It does not know how it was found."""

from taccl.model.schedule.codec import SavedSchedule, schedule_from_json, schedule_to_json
from taccl.model.schedule.columns import Sends
from taccl.model.schedule.parquet import schedule_from_parquet, schedule_to_parquet
from taccl.model.schedule.saved import begins_as_json, begins_as_schedule, read_schedule, schedule_file
from taccl.model.schedule.schedule import Schedule, Send, schedule_from_sends
from taccl.model.tolerance import TOLERANCE_US

__all__ = [
    "TOLERANCE_US",
    "SavedSchedule",
    "Schedule",
    "Send",
    "Sends",
    "begins_as_json",
    "begins_as_schedule",
    "read_schedule",
    "schedule_file",
    "schedule_from_json",
    "schedule_from_parquet",
    "schedule_from_sends",
    "schedule_to_json",
    "schedule_to_parquet",
]

"""The answer: a schedule, the rules it keeps, and its file format. It does not know how it was found."""

from taccl.schedule.columns import TOLERANCE_US, Schedule, Send, Sends, schedule_from_sends

__all__ = ["TOLERANCE_US", "Schedule", "Send", "Sends", "schedule_from_sends"]

"""What one search came to: a schedule and the configuration of its file, as it is kept from run to run."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, replace
from typing import Any

from taccl.backend.target import THREAD_BLOCKS, ThreadBlocks
from taccl.errors import TacclError
from taccl.model.problem import Problem
from taccl.model.schedule import SavedSchedule, schedule_from_json, schedule_to_json
from taccl.support.arguments import number, shown, whole_number, word
from taccl.support.budget import MAX_TIME_LIMIT_S
from taccl.synthesis.cluster.task import TaskColumns
from taccl.synthesis.configurations import Configuration
from taccl.synthesis.result import Result

#: No target knows more.
_MOST_INSTANCES = 2**16


@dataclass(frozen=True, eq=False)
class Answer:
    """A schedule, checked, by links' own costs; and how it becomes a file.

    Parameters
    ----------
    saved : the schedule and its bound at the size that it was searched for.
    configuration : of its file.
    seconds : that the search took.
    status : why the search ended.
    claimed_us : a bound that a worker of a cluster says it proved, and that is not proved here; 0: none.
    """

    saved: SavedSchedule
    configuration: Configuration
    seconds: float
    status: str
    claimed_us: float = 0.0

    @staticmethod
    def of(result: Result) -> Answer:
        """What `synthesize` hands over, without its files."""
        blocks: ThreadBlocks = "one-way" if result.thread_blocks == "one-way" else "two-way"
        configuration = Configuration(result.protocol, result.instances, blocks)
        return Answer(result.saved_schedule(), configuration, result.solve_s, result.status)

    @property
    def size_bytes(self) -> int:
        """The size that it was searched for, as nccl-tests counts it."""
        return self.saved.schedule.problem.size_bytes

    @property
    def is_final(self) -> bool:
        """Whether the search ended by itself, so that it need not be done again."""
        return self.status != "interrupted"

    def believed_for(self, problem: Problem) -> Answer:
        """What is believed of an answer from elsewhere: its sends, checked, for a problem of our own.

        Raises
        ------
        ScheduleError : it is no valid schedule of that problem.
        """
        schedule = TaskColumns.of(self.saved.schedule).as_schedule_of(problem)
        schedule.check()
        return replace(self, saved=SavedSchedule(schedule), claimed_us=self.saved.lower_bound_us)

    def figures(self) -> dict[str, object]:
        """What it is, as plain values."""
        problem = self.saved.schedule.problem
        return {
            "collective": problem.collective.name,
            "topology": problem.topology.name,
            "size_bytes": self.size_bytes,
            "schedule_us": self.saved.schedule.makespan_us,
            "chunks_per_rank": problem.collective.chunks_per_rank,
            "solve_s": round(self.seconds, 3),
            "status": self.status,
        }

    def to_text(self) -> str:
        """The text that `from_text` reads back."""
        saved = self.saved
        schedule = schedule_to_json(
            saved.schedule, lower_bound_us=saved.lower_bound_us, bound_source=saved.bound_source
        )
        values: dict[str, Any] = {
            "configuration": asdict(self.configuration),
            "seconds": self.seconds,
            "status": self.status,
            "claimed_us": self.claimed_us,
            "schedule": schedule,
        }
        return json.dumps(values)

    @staticmethod
    def from_text(text: str) -> Answer | None:
        """The answer in a text, with its schedule checked again; None: there is none that can be used."""
        try:
            values = json.loads(text)
            saved, seconds = schedule_from_json(values["schedule"]), values["seconds"]
            number(seconds, "seconds", TacclError, least=0.0, most=MAX_TIME_LIMIT_S)
            configuration, claimed_us = _configuration(values["configuration"]), values["claimed_us"]
            number(claimed_us, "claimed_us", TacclError, least=0.0, most=sys.float_info.max)
            return Answer(saved, configuration, seconds, str(values["status"]), claimed_us)
        except (ValueError, KeyError, TypeError, TacclError):
            return None


def _configuration(values: Any) -> Configuration:
    """The configuration that `asdict` made these values of. Raises TacclError or TypeError for others."""
    configuration = Configuration(**values)
    word(configuration.thread_blocks, "thread_blocks", THREAD_BLOCKS, TacclError)
    whole_number(configuration.instances, "instances", TacclError, least=1, most=_MOST_INSTANCES)
    if not isinstance(configuration.protocol, str):
        raise TacclError(f"{shown(configuration.protocol)} is no protocol")
    return configuration

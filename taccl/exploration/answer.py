"""What one search came to: a schedule and the configuration of its file, as it is kept from run to run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from taccl.backend.target import THREAD_BLOCKS, ThreadBlocks
from taccl.errors import TacclError
from taccl.model.schedule import SavedSchedule, schedule_from_json, schedule_to_json
from taccl.support.arguments import number, shown, whole_number, word
from taccl.support.budget import MAX_TIME_LIMIT_S
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
    """

    saved: SavedSchedule
    configuration: Configuration
    seconds: float
    status: str

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
            return Answer(saved, _configuration(values["configuration"]), seconds, str(values["status"]))
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

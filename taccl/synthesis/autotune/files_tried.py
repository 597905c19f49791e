"""What was made of a schedule under one configuration, for people and programs to read."""

from __future__ import annotations

from dataclasses import dataclass

from taccl.backend.target import ThreadBlocks
from taccl.model.schedule import Schedule
from taccl.synthesis.configurations import Configuration
from taccl.synthesis.predicted import PredictedCall
from taccl.synthesis.search import relative_gap

#: So begins the remark on a configuration that was left alone.
NOT_TRIED = "not tried"


@dataclass(frozen=True)
class FileTried:
    """What one configuration came to: the fastest of the schedules that were lowered for it.

    Parameters
    ----------
    chunks : in each part of the schedule; None, like the times: there is no such file.
    thread_blocks : `two-way` or `one-way`.
    blocks_per_gpu : the most thread blocks on any GPU.
    predicted_us, lower_bound_us, bound_source : of one call, and what no program with this protocol and this
    many thread blocks beats (of a one-sided plan: however many).
    remark : what became of it.
    """

    protocol: str
    instances: int
    thread_blocks: ThreadBlocks
    chunks: int | None
    blocks_per_gpu: int | None
    predicted_us: float | None
    lower_bound_us: float | None
    bound_source: str | None
    remark: str

    @classmethod
    def skipped(cls, configuration: Configuration, reason: str) -> FileTried:
        """A configuration of which there is no file."""
        names = configuration.protocol, configuration.instances, configuration.thread_blocks
        return cls(*names, None, None, None, None, None, reason)

    @property
    def gap(self) -> float | None:
        """(time - bound) / time, a fraction."""
        if self.predicted_us is None or self.lower_bound_us is None:
            return None
        return relative_gap(self.predicted_us, self.lower_bound_us)

    @property
    def is_reported(self) -> bool:
        """Whether there is more to say of it than that it was left alone."""
        return not self.remark.startswith(NOT_TRIED)

    @property
    def name(self) -> str:
        """The configuration, in a few letters."""
        return str(Configuration(self.protocol, self.instances, self.thread_blocks))

    @property
    def line(self) -> str:
        """Its figures for people."""
        if self.predicted_us is None or self.gap is None:
            return self.remark
        figures = f"{self.predicted_us:.2f} us, bound {self.lower_bound_us:.2f} us, gap {100 * self.gap:.2f}%"
        blocks = f"{self.blocks_per_gpu} thread block{'' if self.blocks_per_gpu == 1 else 's'}"
        return f"{figures}, chunks {self.chunks}, {blocks}: {self.remark}"


@dataclass(frozen=True, eq=False)
class Prediction:
    """A schedule lowered under one configuration, and how long a call of the file takes."""

    configuration: Configuration
    schedule: Schedule
    blocks_per_gpu: int
    execution: PredictedCall

    @property
    def time_us(self) -> float:
        """Of a call, from its beginning, microseconds."""
        return self.execution.time_us

    def tried(self, remark: str) -> FileTried:
        """Its figures, with what became of it."""
        return FileTried(
            self.configuration.protocol,
            self.configuration.instances,
            self.configuration.thread_blocks,
            self.schedule.problem.collective.chunks_per_rank,
            self.blocks_per_gpu,
            self.time_us,
            self.execution.bound.value_us,
            self.execution.bound.witness,
            remark,
        )

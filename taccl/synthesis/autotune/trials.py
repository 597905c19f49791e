"""What is known about one number of chunks, and which number was chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from taccl.encoding.bounds import Proof
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.journal import EngineRun
from taccl.model import units
from taccl.model.tolerance import TOLERANCE_US, contradicts
from taccl.support.interrupts import is_interrupt
from taccl.synthesis.autotune.tuning import TRIALS_FINER_PAYS
from taccl.synthesis.formulated import Formulated
from taccl.synthesis.search import Found, relative_gap


@dataclass(frozen=True)
class ChunksTried:
    """What one number of chunks gave: the best time with the bound for that number.

    `seconds` : that its searches took; nominal ones where work is counted.
    `remark` says what became of it.
    """

    chunks: int
    chunk_bytes: int
    time_us: float
    lower_bound_us: float
    bound_source: str
    seconds: float
    remark: str

    @property
    def gap(self) -> float:
        """(time - bound) / time, a fraction."""
        return relative_gap(self.time_us, self.lower_bound_us)

    def with_bound(self, proof: Proof) -> ChunksTried:
        """The same with that bound, where it is larger; not if the time refutes it."""
        if proof.value_us <= self.lower_bound_us or contradicts(proof.value_us, self.time_us):
            return self
        return replace(self, lower_bound_us=proof.value_us, bound_source=proof.witness)

    @property
    def line(self) -> str:
        """Its figures for people."""
        figures = f"{self.time_us:.2f} us, bound {self.lower_bound_us:.2f} us, gap {100 * self.gap:.2f}%"
        return f"{figures}: {self.remark}"


@dataclass(frozen=True, eq=False)
class Choice:
    """The number of chunks that gave the fastest schedule, and all that were tried.

    `all_found` is the best for each number.
    """

    formulated: Formulated
    found: Found
    tried: tuple[ChunksTried, ...]
    all_found: tuple[tuple[Formulated, Found], ...] = ()

    @staticmethod
    def of(best: Trial, found: Found, trials: Sequence[Trial]) -> Choice:
        """The choice of a trial with what is reported of it, and next to it all that a file can hold."""
        others = [each for each in by_time(trials) if each is not best and each.usable is not False]
        return Choice(
            formulated=best.formulated,
            found=found,
            tried=tuple(each.tried(best) for each in trials),
            all_found=(
                (best.formulated, found),
                *((each.formulated, each.next_to(found)) for each in others),
            ),
        )

    @property
    def note(self) -> str:
        """The choice, in a sentence."""
        chunks = self.formulated.problem.collective.chunks_per_rank
        tried = [each.chunks for each in self.tried]
        numbers = f"{min(tried)} to {max(tried)}" if len(tried) > 1 else f"{tried[0]} alone"
        return f"chunks per rank: {chunks} (tried {numbers})"


@dataclass(eq=False)
class Trial:
    """One number of chunks, and the best that is known about it.

    `usable` : whether a file can hold the schedule; None: not requested yet.
    """

    chunks: int
    formulated: Formulated
    found: Found
    seconds: float
    usable: bool | None = None
    _instance: Instance | None = field(default=None, repr=False)

    @property
    def time_us(self) -> float:
        """Of the best schedule, microseconds."""
        return self.found.schedule.makespan_us

    @property
    def instance(self) -> Instance:
        """The problem with what is derived from it, which later searches share."""
        if self._instance is None:
            self._instance = Instance(self.formulated.problem)
        return self._instance

    def forget_derived(self) -> None:
        """Give back the memory of what can be derived again."""
        self._instance = None

    def learn(self, found: Found) -> None:
        """Take what another search found out: the better bound, and what its engines did."""
        best = max(self.found, found, key=lambda each: each.lower_bound_us)
        engines = merged((*self.found.engines, *found.engines))
        ran = {engine.name for engine in engines}
        declined = {each.name: each for each in (*found.declined, *self.found.declined)}
        self.found = replace(
            self.found.with_failures(found.failures),
            lower_bound_us=best.lower_bound_us,
            bound_source=best.bound_source,
            any_chunks=max(self.found.any_chunks, found.any_chunks, key=lambda proof: proof.value_us),
            engines=engines,
            declined=tuple(each for name, each in declined.items() if name not in ran),
        )

    def next_to(self, chosen: Found) -> Found:
        """Its best, with how the search of all numbers ended: what is slower is not what that proved."""
        is_slower = self.time_us > chosen.schedule.makespan_us + TOLERANCE_US
        is_other = is_slower and chosen.status in ("optimal", "gap reached")
        return replace(self.found, status="finished" if is_other else chosen.status)

    def tried(self, chosen: Trial) -> ChunksTried:
        """Its figures, next to the number that was chosen."""
        remark = "not faster so far"
        if self is chosen:
            remark = "chosen"
        elif self.usable is False:
            remark = "no file can hold it"
        elif self.found.lower_bound_us >= chosen.time_us:
            remark = f"cannot be faster than {units.format_count(chosen.chunks, 'chunk')}"
        return ChunksTried(
            self.chunks,
            round(self.formulated.problem.chunk_mb * units.MB),
            self.time_us,
            self.found.lower_bound_us,
            self.found.bound_source,
            self.seconds,
            remark,
        )


def by_time(trials: Iterable[Trial]) -> list[Trial]:
    """The fastest first; of equally fast ones the coarsest, whose files have the fewest operations."""
    return sorted(trials, key=lambda trial: (round(trial.time_us / TOLERANCE_US), trial.chunks))


def gap_of_all(trials: Iterable[Trial], found: Found, others_wait: bool) -> float:
    """The most that any number of chunks with a trial could save, a fraction of the time found.

    `others_wait` : also any that waits for one, of which no more is proved than of any number.
    """
    of_any_us = found.any_chunks.value_us
    of_tried_us = min(trial.found.lower_bound_us for trial in trials)
    least_us = of_any_us if others_wait else max(of_any_us, of_tried_us)
    return relative_gap(found.schedule.makespan_us, least_us)


def worth_longer(trials: Iterable[Trial]) -> list[Trial]:
    """The fastest first, without those that are no faster than a coarser one, or hardly.

    The same schedule cut finer is a larger problem, in which the same search finds less.
    """
    pay: list[Trial] = []
    for trial in sorted(trials, key=lambda each: each.chunks):
        if all(trial.time_us < coarser.time_us * (1 - TRIALS_FINER_PAYS) for coarser in pay):
            pay.append(trial)
    return by_time(pay)


def merged(runs: Iterable[EngineRun]) -> tuple[EngineRun, ...]:
    """One entry for each engine on each part: all its seconds, its fastest time, its best bound."""
    together: dict[tuple[str, str], EngineRun] = {}
    for run in runs:
        key = (run.part, run.name)
        other = together.get(key)
        if other is None:
            together[key] = run
            continue
        times = [each.time_us for each in (other, run) if each.time_us is not None]
        together[key] = replace(
            run,
            seconds=other.seconds + run.seconds,
            time_us=min(times, default=None),
            lower_bound_us=max(other.lower_bound_us, run.lower_bound_us),
        )
    return tuple(together.values())


def first_usable(
    trials: Sequence[Trial], is_usable: Callable[[Trial], bool], interrupted: bool
) -> tuple[Trial, bool]:
    """The first that can be used, and whether the user interrupted.

    Where none can, or the user does not wait to hear that, it is the first of all.
    """
    try:
        return next(filter(is_usable, trials), trials[0]), interrupted
    except BaseException as fault:
        if is_interrupt(fault):
            return trials[0], True
        raise

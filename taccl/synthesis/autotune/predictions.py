"""Schedules lowered under several configurations, and the predicted time of each file on the machine."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from taccl.backend.lower.instances import cut_in_place
from taccl.backend.simulate.settings import SimulationSettings
from taccl.backend.target import AnyTarget, Lowered
from taccl.backend.unfolded import Unfolded
from taccl.encoding.bounds import Proof
from taccl.errors import CheckError, ProgramLimitError, TacclError, UnitError
from taccl.model import units
from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget
from taccl.synthesis.autotune.files_tried import NOT_TRIED, Prediction
from taccl.synthesis.autotune.guess import Guess, links_us
from taccl.synthesis.autotune.tuning import (
    PREDICTIONS_EVENTS,
    PREDICTIONS_EXECUTING,
    PREDICTIONS_LARGER,
    PREDICTIONS_LOWERING,
    PREDICTIONS_MUCH_SLOWER,
    PREDICTIONS_NEARLY,
    PREDICTIONS_PATIENCE,
    PREDICTIONS_PROMISING,
    PREDICTIONS_S_EACH,
)
from taccl.synthesis.configurations import Configuration
from taccl.synthesis.predicted import PredictedCall, execute, protocol_bound, wires_bound

#: Rounds of a call that are executed; the rest goes on as they did.
_ROUNDS = 128


class Predictor:
    """Lowers and executes; keeps what came of it, and why what is missing is missing.

    Parameters
    ----------
    network : of the machine as it is, with its executor if it says one.
    target : whose files they are.
    lower : the programs of a schedule, made in one way; raises TacclError where there is no such file.
    """

    def __init__(
        self,
        network: LogicalTopology,
        target: AnyTarget,
        lower: Callable[[Schedule, Configuration], Sequence[Lowered[Any]]],
    ) -> None:
        self._network, self._target, self._lower = network, target, lower
        self.predictions: list[Prediction] = []
        self.reasons: dict[Configuration, str] = {}
        self.left_out: set[Configuration] = set()  # more instances of what does not fit or gets slower
        self._too_large: dict[tuple[object, ...], Configuration] = {}
        self._fits_not: dict[
            Configuration, int
        ] = {}  # the fewest connections of a GPU with which it is too large
        self._moved: dict[float, Proof] = {}  # what holds however finely chunks are cut, by sizes of calls
        # Seconds that the smallest file took, and that each transfer of each instance took on top of that.
        self._least_s, self._fewest, self._s_each = math.inf, 0, PREDICTIONS_S_EACH

    def predict(self, schedule: Schedule, configurations: Iterable[Configuration], budget: Budget) -> None:
        """Predict the files of a schedule, as far as the budget goes.

        Of a protocol, more instances are left alone where fewer do not fit, or once they get slower.
        Protocols and kinds of thread blocks take turns, so that a short budget sees something of each; what
        is promising by a first guess comes before all else.
        """
        every = list(configurations)
        promising = self._promising(schedule, every)
        if len(promising) < len(every):
            self._take_turns(schedule, promising, budget)
        self._take_turns(schedule, every, budget)

    def _promising(
        self, schedule: Schedule, configurations: Sequence[Configuration]
    ) -> Sequence[Configuration]:
        """Those of protocols and kinds of thread blocks that a guess does not put far behind the best.

        All numbers of instances stay: a guess, which has no sums and copies, tells protocols apart, and not
        whether a few more instances pay.
        """
        executor = self._network.executor
        if executor is None or len(configurations) < 2:
            return configurations
        guess = Guess(schedule, self._network)
        costs = executor.costs_of
        guessed_us = {
            each: guess.us(costs(each.protocol), each.served(self._target)) for each in configurations
        }
        best_us = min(guessed_us.values())
        near = {
            (each.protocol, each.thread_blocks)
            for each, us in guessed_us.items()
            if us <= PREDICTIONS_PROMISING * best_us
        }
        return [each for each in configurations if (each.protocol, each.thread_blocks) in near]

    def by_guess(
        self, schedules: Sequence[Schedule], configurations: Sequence[Configuration]
    ) -> list[tuple[Schedule, Configuration]]:
        """Each schedule with the configuration that suits it best by a first guess, the likeliest first.

        Of configurations that are nearly as good it is the one with the fewest instances, whose file is soon
        made. Without an executor all cost the same, and it is the first.
        """
        executor = self._network.executor
        if executor is None:
            return [(schedule, configurations[0]) for schedule in schedules]
        pairs = []
        for schedule in schedules:
            guess, costs = Guess(schedule, self._network), executor.costs_of
            us = [guess.us(costs(each.protocol), each.served(self._target)) for each in configurations]
            near = [place for place, one_us in enumerate(us) if one_us <= PREDICTIONS_NEARLY * min(us)]
            place = min(near, key=lambda each: (configurations[each].instances, us[each]))
            pairs.append((us[place], schedule, configurations[place]))
        return [(schedule, each) for _, schedule, each in sorted(pairs, key=lambda pair: pair[0])]

    def likely(self, schedules: Sequence[Schedule], configuration: Configuration) -> Schedule:
        """The fastest by links alone where the bytes of a protocol move, its flags with them."""
        wire = self._target.wire.get(configuration.protocol, 1.0)
        return min(schedules, key=lambda schedule: links_us(schedule, wire))

    def _take_turns(
        self, schedule: Schedule, configurations: Iterable[Configuration], budget: Budget
    ) -> None:
        equivalent: dict[tuple[str, str], list[Configuration]] = {}
        for configuration in configurations:
            equivalent.setdefault((configuration.protocol, configuration.thread_blocks), []).append(
                configuration
            )
        turns = deque(self._predict_equally(schedule, several, budget) for several in equivalent.values())
        while turns:
            several = turns.popleft()
            if next(several, None) is not None:
                turns.append(several)

    def _predict_equally(
        self, schedule: Schedule, configurations: Sequence[Configuration], budget: Budget
    ) -> Iterator[Configuration]:
        """Routes that differ in their instances only, fewest first; yields each that was predicted."""
        fastest: Prediction | None = None
        slower = 0
        if reason := self._beaten(schedule, configurations[0]):
            self.reasons.setdefault(configurations[0], reason)
            self.left_out.update(configurations[1:])
            return
        for place, configuration in enumerate(configurations):
            if fastest is not None and (reason := self._hopeless(fastest, configuration)):
                self.reasons.setdefault(configuration, reason)
                continue
            larger = self._too_large.get(self._alike(schedule, configuration))
            if larger is not None and configuration.instances >= larger.instances:
                self.reasons.setdefault(configuration, self.reasons[larger])
                self._leave_out(schedule, configurations[place:])
                return
            made = self._known(schedule, configuration)
            if made is None:
                if not self._has_time(schedule, configuration, budget):
                    return
                made = self._predicted(schedule, configuration, budget)
            if made is None:
                self._leave_out(schedule, configurations[place:])
                return
            if fastest is None or made.time_us < fastest.time_us:
                fastest, slower = made, 0
            elif made.time_us > PREDICTIONS_MUCH_SLOWER * fastest.time_us:
                slower += 1
            if slower == PREDICTIONS_PATIENCE:
                self.left_out.update(configurations[place + 1 :])
                return
            yield configuration

    def _alike(self, schedule: Schedule, configuration: Configuration) -> tuple[object, ...]:
        """Files with the same of this need about as much of what is limited, but for the number of instances.

        Plans have other operations and other memory for packets; programs have as many blocks, or nearly so.
        """
        protocol = configuration.protocol if self._target.is_one_sided else None
        return schedule, protocol, configuration.thread_blocks

    def _leave_out(self, schedule: Schedule, configurations: Sequence[Configuration]) -> None:
        """Leave more instances alone after the first of these, of which there is no file."""
        self.left_out.update(configurations[1:])
        needs = most_connections(schedule)
        for configuration in configurations:
            self._fits_not[configuration] = min(needs, self._fits_not.get(configuration, needs))

    def may_fit(self, schedule: Schedule) -> set[Configuration]:
        """Routes that others were too large for, and that a schedule may fit: a GPU has fewer connections."""
        needs = most_connections(schedule)
        return {configuration for configuration, others in self._fits_not.items() if needs < others}

    def of_configuration(self, configuration: Configuration) -> list[Prediction]:
        """All predictions of a configuration."""
        return [prediction for prediction in self.predictions if prediction.configuration == configuration]

    def _known(self, schedule: Schedule, configuration: Configuration) -> Prediction | None:
        """What was predicted before of the same file."""
        return next(
            (
                prediction
                for prediction in self.predictions
                if prediction.schedule is schedule and prediction.configuration == configuration
            ),
            None,
        )

    def _hopeless(self, fewer: Prediction, configuration: Configuration) -> str:
        """Why more instances are no use: even this many times as fast, they would be slower than others."""
        at_best_us = fewer.time_us * fewer.configuration.instances / configuration.instances
        best_us = min(prediction.time_us for prediction in self.predictions)
        if at_best_us <= best_us:
            return ""
        return f"{NOT_TRIED}: {at_best_us:.2f} us at best, by {fewer.configuration}"

    def _beaten(self, schedule: Schedule, configuration: Configuration) -> str:
        """Why files of a protocol are no use, whatever the schedule: their bytes take longer than others."""
        wire = self._target.wire.get(configuration.protocol)
        if wire is None or not self.predictions or self.of_configuration(configuration):
            return ""
        problem = _as_cut(schedule.problem, self._network, 1)
        moved = self._wires_bound(problem)
        at_best_us = protocol_bound(problem, configuration.protocol, wire, moved).value_us
        best = min(self.predictions, key=_time_of)
        if at_best_us <= best.time_us:
            return ""
        return f"{NOT_TRIED}: {at_best_us:.2f} us at best, by {best.configuration} {best.time_us:.2f} us"

    def _wires_bound(self, problem: Problem) -> Proof:
        if problem.size_bytes not in self._moved:
            self._moved[problem.size_bytes] = wires_bound(problem)
        return self._moved[problem.size_bytes]

    def _has_time(self, schedule: Schedule, configuration: Configuration, budget: Budget) -> bool:
        if not self.predictions:
            return budget.remaining_s() > 0
        more = max(0, len(schedule) * configuration.instances - self._fewest)
        return budget.remaining_s() > self._least_s + self._s_each * more

    def _note_time(self, took_s: float, transfers: int) -> None:
        """Learn what the next file will take; one as small as the smallest says nothing of a transfer."""
        if took_s <= self._least_s:
            self._least_s, self._fewest = took_s, transfers
        elif transfers >= PREDICTIONS_LARGER * max(1, self._fewest):
            self._s_each = (took_s - self._least_s) / (transfers - self._fewest)

    def by_time(self) -> list[Prediction]:
        """All predictions, fastest first."""
        return sorted(self.predictions, key=_time_of)

    def by_configuration(self) -> list[Prediction]:
        """The fastest prediction of each configuration, the last one of equals; fastest first."""
        best: dict[Configuration, Prediction] = {}
        for prediction in self.predictions:
            if (
                prediction.configuration not in best
                or prediction.time_us <= best[prediction.configuration].time_us
            ):
                best[prediction.configuration] = prediction
        return sorted(best.values(), key=lambda each: each.time_us)

    def _predicted(
        self, schedule: Schedule, configuration: Configuration, budget: Budget
    ) -> Prediction | None:
        began_s = budget.read_s()
        budget.spend(PREDICTIONS_LOWERING * len(schedule) * configuration.instances)
        try:
            made = self._lower(schedule, configuration)
            problem = _as_cut(schedule.problem, self._network, configuration.instances)
            files = [_unfolded(self._target, lowered.program) for lowered in made]
            budget.spend(sum(PREDICTIONS_EXECUTING * _work(file) for file in files))
            runs = [
                self._run(file, problem, lowered.size_bytes)
                for file, lowered in zip(files, made, strict=True)
            ]
        except TacclError as fault:
            self.reasons[configuration] = _reported(fault)
            if isinstance(fault, ProgramLimitError):
                self._too_large.setdefault(self._alike(schedule, configuration), configuration)
            return None
        self._note_time(budget.read_s() - began_s, len(schedule) * configuration.instances)
        slowest = max(runs, key=lambda run: run.time_us)  # of several files, runtimes take one each
        blocks = max(file.most_blocks for file in files)
        self.predictions.append(Prediction(configuration, schedule, blocks, slowest))
        budget.note(slowest.time_us, 0.0)
        return self.predictions[-1]

    def _run(self, file: Unfolded, problem: Problem, size_bytes: int | None) -> PredictedCall:
        moved = self._wires_bound(problem)
        chunk_mb = problem.chunk_mb
        if file.chunks_of_size != problem.collective.chunks_per_size or problem.sizes is not None:
            size_bytes = problem.size_bytes if size_bytes is None else size_bytes
            chunk_mb = size_bytes / units.MB / file.chunks_of_size  # the file cuts chunks finer
        return execute(file, problem, chunk_mb, SimulationSettings(), moved)


def _unfolded(target: AnyTarget, program: Any) -> Unfolded:
    assert target.unfold is not None, "only files that can be executed are predicted"
    return target.unfold(program)


def _time_of(prediction: Prediction) -> float:
    return prediction.time_us


def most_connections(schedule: Schedule) -> int:
    """How many ends of links the busiest GPU uses: an instance takes about this many thread blocks."""
    topology = schedule.problem.topology
    links = np.unique(schedule.link)
    ends = np.concatenate([topology.src[links], topology.dst[links]])
    return int(np.bincount(ends).max(initial=0))


def _reported(fault: TacclError) -> str:
    """Its message, and the first of what was found; of a size that is not served, one that is."""
    if isinstance(fault, UnitError) and fault.hint:
        return f"{fault.message}: {fault.hint}"
    findings = fault.findings[:1] if isinstance(fault, CheckError) else ()
    return ": ".join((fault.message, *findings))


def _work(file: Unfolded) -> int:
    """How many steps or operations are executed: in rounds where blocks relay pieces, else event by event."""
    return (PREDICTIONS_EVENTS if file.relays is None else _ROUNDS) * file.steps


def _as_cut(problem: Problem, network: LogicalTopology, instances: int) -> Problem:
    """What the program answers: the problem with its chunks cut into instances, on the machine as it is."""
    collective, of_chunks = problem.collective, (problem.sizes, problem.ready_us, problem.tail_us)
    is_plain = all(column is None for column in of_chunks)
    if instances > 1 and collective.name in COLLECTIVES and is_plain:
        pieces, helpers = collective.chunks_per_rank * instances, collective.num_helpers
        collective = make_collective(collective.name, collective.num_members, pieces, collective.root)
        collective = collective.with_helpers(helpers) if helpers else collective
    elif instances > 1:
        collective = cut_in_place(collective, instances)
    sizes, ready_us, tail_us = (
        None if column is None else np.repeat(column, instances) for column in of_chunks
    )
    return replace(
        problem,
        topology=network,
        collective=collective,
        chunk_mb=problem.chunk_mb / instances,
        symmetry=(),
        sizes=sizes,
        ready_us=ready_us,
        tail_us=tail_us,
        limits=RoutingLimits(),
    )

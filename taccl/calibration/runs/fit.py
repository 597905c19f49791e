"""`fit_runs()`: what a machine really takes, from times of any programs measured on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from taccl.backend.simulate.executor import Prepared
from taccl.backend.verify.msccl_xml.limits import Runtime
from taccl.calibration.runs.jump import Jump, find_jump
from taccl.calibration.runs.least_deviation import least_deviation, search, short_search
from taccl.calibration.runs.model import PIECES, Parameter, RunModel, network_of, pieces_known
from taccl.calibration.runs.runs import MeasuredFile, MeasuredRuns, load_runs
from taccl.errors import TopologyError
from taccl.model.executor import ProtocolName
from taccl.model.network import FloatArray
from taccl.support.schemas import stamped
from taccl.topologies import PhysicalTopology, load_topology
from taccl.topologies.as_yaml import topology_text

#: Rounds of a program that are executed while the search is under way, and at its end.
_ROUGH_ROUNDS, _FINE_ROUNDS = 16, 48
#: Of more times than this, this many sizes of a file are fitted; all are predicted.
_MANY_ROWS, _SIZES_EACH = 120, 10
#: An interval wider than this factor, from end to end, is said to be weak.
_WEAK = 1.5
#: Fewer measured times than this say nothing about this many parameters.
_LEAST_ROWS_EACH = 1

INTERVALS = (
    "90% intervals: bootstrap over files, 400 resamples (seeded) of the model made linear at the optimum; of "
    "fewer than 6 files also its curvature, where a file's times are off together by 3% or more"
)


@dataclass(frozen=True)
class FittedParameter:
    """A number, with its 90% interval.

    Parameters
    ----------
    name, of : as in `Parameter`.
    base : what the machine said before, or None.
    reported : whether the times can tell it; if not, it is near where the search began.
    """

    name: str
    of: str
    value: float
    low: float
    high: float
    base: float | None
    reported: bool

    @property
    def remark(self) -> str:
        """`not in this data`, `weak`, or nothing."""
        if not self.reported:
            return "not in this data"
        return "weak" if self.high > _WEAK * self.low else ""


@dataclass(frozen=True)
class Residual:
    """A measured time and what the fitted machine predicts for it; `error` is max(t/m, m/t) - 1."""

    file: str
    size_bytes: int
    measured_us: float
    predicted_us: float

    @property
    def error(self) -> float:
        ratio = self.predicted_us / self.measured_us
        return max(ratio, 1 / ratio) - 1


@dataclass(frozen=True, eq=False)
class FittedRuns:
    """A machine as measured times say, and how well it predicts them.

    Parameters
    ----------
    machine : the base with fitted costs of its links, and an executor.
    pieces : the runtime whose pieces fit, or None where the base already said how large they are.
    residuals : one for each file and size.
    notes : what was left out, and what the data cannot tell.
    """

    machine: PhysicalTopology
    parameters: tuple[FittedParameter, ...]
    residuals: tuple[Residual, ...]
    pieces: str | None
    notes: tuple[str, ...] = ()

    @property
    def errors(self) -> FloatArray:
        """Shape (residuals,)."""
        return np.array([residual.error for residual in self.residuals])

    def yaml(self) -> str:
        """The machine as a file, with where each fitted number comes from.

        Raises
        ------
        TopologyError : the machine has a shape that the language of machines cannot say.
        """
        median, worst = np.quantile(self.errors, (0.5, 1.0))
        files = len({residual.file for residual in self.residuals})
        lines = [
            f"Fitted to {len(self.residuals)} times of {files} programs by taccl topology fit --runs:",
            f"median error {100 * median:.1f}%, worst {100 * worst:.1f}%. {INTERVALS}.",
        ]
        for each in self.parameters:
            how = f"[{each.low:.4g}, {each.high:.4g}]" if each.reported else "not in the data"
            lines.append(f"  {each.name} of {each.of}: {each.value:.4g} {how}")
        return topology_text(self.machine, lines)

    def to_dict(self) -> dict[str, object]:
        """What `taccl topology fit --runs --json` prints."""
        median, nine_tenths, worst = np.quantile(self.errors, (0.5, 0.9, 1.0)).tolist()
        return stamped(
            "taccl.topology.fit.runs/1",
            {
                "topology": self.machine.name,
                "pieces": self.pieces,
                "parameters": [asdict(parameter) for parameter in self.parameters],
                "intervals": INTERVALS,
                "median_error": median,
                "ninth_decile_error": nine_tenths,
                "worst_error": worst,
                "residuals": [asdict(residual) | {"error": residual.error} for residual in self.residuals],
                "notes": list(self.notes),
            },
        )


def fit_runs(
    runs: Sequence[str | Path] | MeasuredRuns,
    topology: str | Path | PhysicalTopology,
    *,
    nodes: int | None = None,
    seed: int = 0,
) -> FittedRuns:
    """Fit the costs of a machine's links and of its executor to measured times.

    Links keep their shape: of each class (the same kinds of ends, the same cost) that a program uses, alpha
    and bandwidth are fitted. Of each protocol, its launch, what a slice costs, and what a thread block moves;
    for all, what sums cost where a program adds up. What the machine says is where the search begins.

    Parameters
    ----------
    runs : folders and FILE.xml=TIMES, as `load_runs` takes them, or what it returns.
    topology, nodes : the machine that was measured, as `load_topology` takes it.
    seed : of the starts and the bootstrap.

    Raises
    ------
    TopologyError : a program for another number of GPUs, or too few times for this many numbers.
    TacclError : as `load_runs`.
    """
    machine = topology if isinstance(topology, PhysicalTopology) else load_topology(topology, nodes)
    measured = runs if isinstance(runs, MeasuredRuns) else load_runs(runs)
    model, runtime, begin = _model(machine, _thinned(measured.files))
    begin = _searched(model, begin, seed)
    model, begin = _with_jumps(model, begin)
    parameters = model.parameters
    found = least_deviation(
        [parameter.unknown for parameter in parameters],
        partial(model.predict, rounds=_FINE_ROUNDS),
        model.measured_us,
        model.row_file,
        begin,
        seed=seed,
    )
    fitted = tuple(
        FittedParameter(each.name, each.of, float(value), float(low), float(high), each.base, bool(reported))
        for each, value, low, high, reported in zip(
            parameters, found.values, found.low, found.high, found.is_reported, strict=True
        )
    )
    fitted += tuple(_asleep(name, jump, machine) for name, jump in model.jumps.items())
    fitted_machine = model.fitted(found.values)
    residuals = residuals_of(fitted_machine, measured.files)
    untold = [f"{each.name} of {each.of}" for each in fitted if not each.reported]
    notes = list(measured.notes)
    if untold:
        notes.append(f"these times do not tell {', '.join(untold)}: taccl probe writes programs that do")
    pieces = None if runtime is None else runtime.name
    return FittedRuns(fitted_machine, fitted, residuals, pieces, tuple(notes))


def residuals_of(machine: PhysicalTopology, files: Sequence[MeasuredFile]) -> tuple[Residual, ...]:
    """What a machine with an executor predicts for measured programs, fitted to them or not.

    Raises
    ------
    TopologyError : it has no executor, or none for the protocol of a file.
    """
    if machine.executor is None:
        raise TopologyError(f"{machine.name} has no executor", hint="taccl topology fit --runs")
    network = network_of(machine)
    residuals = []
    for file in files:
        prepared = Prepared.of(file.program, network)
        for size, time_us in zip(file.size_bytes.tolist(), file.time_us.tolist(), strict=True):
            predicted_us = prepared.predict_us(machine.executor, file.protocol.value, size)
            residuals.append(Residual(file.name, size, time_us, predicted_us))
    return tuple(residuals)


def _thinned(files: Sequence[MeasuredFile]) -> list[MeasuredFile]:
    """The files with this many sizes each as a fit needs, the smallest and the largest among them."""
    if sum(len(file.size_bytes) for file in files) <= _MANY_ROWS:
        return list(files)
    kept = []
    for file in files:
        many = min(_SIZES_EACH, len(file.size_bytes))
        rows = np.unique(np.linspace(0, len(file.size_bytes) - 1, many).round().astype(np.int64))
        kept.append(replace(file, size_bytes=file.size_bytes[rows], time_us=file.time_us[rows]))
    return kept


def _model(
    machine: PhysicalTopology, files: Sequence[MeasuredFile]
) -> tuple[RunModel, Runtime | None, FloatArray]:
    """The model, with the machine's pieces or those that fit best, and where to begin."""
    known = pieces_known(machine, files)
    models = [RunModel.of(machine, files, runtime) for runtime in PIECES]
    _check_enough(models[0])
    short = [
        short_search(
            [parameter.unknown for parameter in model.parameters],
            partial(model.predict, rounds=_ROUGH_ROUNDS),
            model.measured_us,
        )
        for model in (models[:1] if known else models)
    ]
    best = min(range(len(short)), key=lambda index: short[index][1])
    return models[best], None if known else PIECES[best], short[best][0]


def _asleep(name: ProtocolName, jump: Jump, machine: PhysicalTopology) -> FittedParameter:
    """Where calls begin to sleep, which is found and not fitted."""
    known = None if machine.executor is None else machine.executor.protocols.get(name)
    said = None if known is None else known.sleep_after_us
    return FittedParameter("sleep_after_us", name, jump.after_us, jump.low, jump.high, said, True)


def _searched(model: RunModel, begin: FloatArray, seed: int | None = None) -> FloatArray:
    unknowns = [parameter.unknown for parameter in model.parameters]
    return search(unknowns, partial(model.predict, rounds=_ROUGH_ROUNDS), model.measured_us, begin, seed=seed)


def _with_jumps(model: RunModel, values: FloatArray) -> tuple[RunModel, FloatArray]:
    """The model with the jumps that its files show where it has none, and near its optimum."""
    everything = np.arange(len(model.measured_us))
    predicted = model.predict(values, everything, _ROUGH_ROUNDS)
    jumps = dict(model.jumps)
    for name in model.protocols:
        rows = model.rows_of(name)
        if name not in jumps:
            jump = find_jump(model.measured_us[rows], predicted[rows], model.row_file[rows])
            if jump is not None:
                jumps[name] = jump
    if jumps == dict(model.jumps):
        return model, values
    known = dict(
        zip(((parameter.name, parameter.of) for parameter in model.parameters), values.tolist(), strict=True)
    )
    model = replace(model, jumps=jumps)
    begin = [
        known.get((parameter.name, parameter.of), parameter.unknown.start) for parameter in model.parameters
    ]
    return model, _searched(model, np.array(begin))


def _check_enough(model: RunModel) -> None:
    rows, numbers = len(model.measured_us), len(model.parameters)
    if rows < _LEAST_ROWS_EACH * numbers:
        raise TopologyError(
            f"{rows} measured times are too few for {numbers} numbers: {_names(model.parameters)}",
            hint="measure more sizes, or more programs: taccl probe writes some",
        )


def _names(parameters: Sequence[Parameter]) -> str:
    return ", ".join(f"{each.name} of {each.of}" for each in parameters)

"""What a machine really takes: costs of its links and its executor, fitted to measured times of programs."""

from taccl.calibration.runs.fit import (
    INTERVALS,
    FittedParameter,
    FittedRuns,
    Residual,
    fit_runs,
    residuals_of,
)
from taccl.calibration.runs.runs import MeasuredFile, MeasuredRuns, load_runs

__all__ = [
    "INTERVALS",
    "FittedParameter",
    "FittedRuns",
    "MeasuredFile",
    "MeasuredRuns",
    "Residual",
    "fit_runs",
    "load_runs",
    "residuals_of",
]

"""How well a fitted machine predicts programs that it was not fitted to, on measured runs.

    python -m benchmarks.fidelity [--runs FOLDER] [--halves N] [--seed N]

The files of the folder are halved at random; a machine is fitted to one half (`taccl topology fit --runs`)
and predicts the other. Also writes docs/results/hangs.md: which programs verification says will hang, and
which did.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import report
from benchmarks.checkout import SHARED
from taccl.calibration.runs import (
    FittedRuns,
    MeasuredFile,
    MeasuredRuns,
    Residual,
    fit_runs,
    load_runs,
    residuals_of,
)
from taccl.model import units
from taccl.topologies import PhysicalTopology, parse_topology

RUNS = SHARED / "measured" / "mi300x-8"
#: What NCCL's tables say of a node of 8 MI300X, before anything is measured.
BASE = "name: mi300x-8\ngpus: 8\nlinks: [{from: gpus, to: gpus, alpha_us: 0.7, bandwidth_gbps: 48}]\n"
#: Sizes that are judged.
LEAST, MOST = 16 * units.KB, 256 * units.MB
#: Bands of sizes in which what the model misses is reported, and how much it is that is reported.
BANDS = (("up to 128KB", 2**17), ("to 4MB", 2**22), ("above 4MB", MOST))
MISSED = 0.05


def main() -> None:
    """Fit halves, predict the others, and write both pages."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=Path, default=RUNS)
    parser.add_argument("--halves", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    measured = load_runs([arguments.runs])
    _write_hangs(measured)
    counting = replace(measured, files=tuple(_at_judged_sizes(file) for file in measured.files))
    _write_fidelity(counting, parse_topology(BASE), arguments.halves, arguments.seed)


def _at_judged_sizes(file: MeasuredFile) -> MeasuredFile:
    rows = (file.size_bytes >= LEAST) & (file.size_bytes <= MOST)
    return replace(file, size_bytes=file.size_bytes[rows], time_us=file.time_us[rows])


def _write_fidelity(measured: MeasuredRuns, base: PhysicalTopology, halves: int, seed: int) -> None:
    files = measured.files
    began = time.monotonic()
    whole = fit_runs(measured, base, seed=seed)
    seconds = time.monotonic() - began
    rows = [_row("all, predicting themselves", whole.machine, files, files, seconds)]
    random = np.random.default_rng(seed)
    unseen: list[Residual] = []
    choices: list[float] = []
    for number in range(1, halves + 1):
        order = random.permutation(len(files)).tolist()
        fitted_to = [files[at] for at in sorted(order[: len(files) // 2])]
        others = [files[at] for at in sorted(order[len(files) // 2 :])]
        began = time.monotonic()
        found = fit_runs(replace(measured, files=tuple(fitted_to)), base, seed=seed)
        rows.append(_row(f"half {number}", found.machine, others, files, time.monotonic() - began))
        unseen += residuals_of(found.machine, others)
        choices += costs_of_choice(found.machine, others)
        print(rows[-1], flush=True)
    errors = np.array([residual.error for residual in unseen])
    rows.append(
        [
            *("**all halves together**", str(len(errors))),
            *(f"{100 * value:.1f}%" for value in np.quantile(errors, (0.5, 0.9, 1.0))),
            *(f"{100 * float(np.mean(choices)):.1f}%", "", ""),
        ]
    )
    intro = (
        f"Programs measured on one node of 8 MI300X (RCCL 2.21.5), {len(files)} files, in place, at all "
        f"sizes from {units.format_size(LEAST)} to {units.format_size(MOST)} at which they end. Each row "
        "fits the machine to the files of one random half and predicts those of the other; the base is "
        f"`{BASE.splitlines()[2]}` without an executor. Error: max(t/m, m/t) - 1."
    )
    header = ("fitted to", "times", "median", "90% below", "worst", "choice", "choice of all", "s")
    explained = (
        "`choice`: of the programs that were not fitted, the one with the least predicted time is taken at "
        "each size and collective; so much slower it is than the fastest of them, on average. `choice of "
        "all`: the same among all files.\n\n"
        "With other files of the same machine the choice cost 3.6% on average. Nearly all of that is LL "
        "all-pairs from 16 to 128 KB, where launches differ by up to 2.2 us from file to file in no order. "
        "Below 128 KB two files whose predicted times differ by less than 2 us are a tie: measure both."
    )
    _plot(unseen, files)
    body = "\n\n".join(
        [
            report.table(header, rows),
            explained,
            "![predicted against measured](fidelity.png)",
            _parameters(whole),
            _by_protocol(unseen, files),
            _missed(unseen),
        ]
    )
    report.write("fidelity", "Fidelity: programs that were not fitted", intro, body)


def _row(
    name: str,
    machine: PhysicalTopology,
    others: Sequence[MeasuredFile],
    files: Sequence[MeasuredFile],
    seconds: float,
) -> list[str]:
    errors = np.array([each.error for each in residuals_of(machine, others)])
    cells = [f"{100 * value:.1f}%" for value in np.quantile(errors, (0.5, 0.9, 1.0))]
    choices = [float(np.mean(costs_of_choice(machine, some))) for some in (others, files)]
    return [name, str(len(errors)), *cells, *(f"{100 * each:.1f}%" for each in choices), f"{seconds:.0f}"]


def costs_of_choice(machine: PhysicalTopology, files: Sequence[MeasuredFile]) -> list[float]:
    """By collective and size, how much slower the program of least predicted time is than the fastest."""
    collective = {file.name: file.subject.collective.name for file in files}
    residuals = sorted(
        residuals_of(machine, files), key=lambda each: (collective[each.file], each.size_bytes)
    )
    costs = []
    for _, group in itertools.groupby(residuals, lambda each: (collective[each.file], each.size_bytes)):
        candidates = list(group)
        if len(candidates) > 1:
            chosen = min(candidates, key=lambda each: each.predicted_us)
            costs.append(chosen.measured_us / min(each.measured_us for each in candidates) - 1)
    return costs


def _parameters(found: FittedRuns) -> str:
    rows = [
        (each.name, each.of, f"{each.value:.4g}", f"{each.low:.4g} to {each.high:.4g}", each.remark)
        for each in found.parameters
    ]
    return "Fitted to all files:\n\n" + report.table(("number", "of", "value", "90% interval", ""), rows)


def _by_protocol(residuals: Sequence[Residual], files: Sequence[MeasuredFile]) -> str:
    protocol = {file.name: file.protocol.value for file in files}
    rows = []
    for name in dict.fromkeys(protocol.values()):
        errors = np.array([each.error for each in residuals if protocol[each.file] == name])
        cells = [f"{100 * value:.1f}%" for value in np.quantile(errors, (0.5, 0.9, 1.0))]
        rows.append([name, str(len(errors)), *cells])
    header = ("protocol", "times", "median", "90% below", "worst")
    return "Files of the other half, by protocol:\n\n" + report.table(header, rows)


def _missed(residuals: Sequence[Residual]) -> str:
    """Where predictions of files that were not fitted are off in one direction, by most."""
    rows = []
    for name in dict.fromkeys(each.file for each in residuals):
        least = 0
        for band, most in BANDS:
            own = [each for each in residuals if each.file == name and least < each.size_bytes <= most]
            off = np.array([each.predicted_us / each.measured_us - 1 for each in own])
            if len(off) and abs(np.median(off)) > MISSED:
                middle = float(np.median(off))
                rows.append((abs(middle), [name, band, str(len(off)), f"{100 * middle:+.1f}%"]))
            least = most
    header = ("program", "sizes", "times", "median of predicted / measured - 1")
    said = (
        f"Programs that are predicted more than {100 * MISSED:.0f}% too slow (+) or too fast (-) where "
        "others are fitted; what is known of the reasons: [the cost model](../cost-model.md#the-executor)."
    )
    reported = [row for _, row in sorted(rows, key=lambda each: -each[0])]
    return (
        f"{said}\n\n{report.table(header, reported)}" if reported else f"No program is off by {MISSED:.0%}."
    )


def _plot(residuals: Sequence[Residual], files: Sequence[MeasuredFile]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    protocol = {file.name: file.protocol.value for file in files}
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for name in dict.fromkeys(protocol.values()):
        own = [each for each in residuals if protocol[each.file] == name]
        measured = [each.measured_us for each in own]
        left.loglog(measured, [each.predicted_us for each in own], ".", markersize=3, label=name)
        ratio = [each.predicted_us / each.measured_us for each in own]
        right.semilogx([each.size_bytes for each in own], ratio, ".", markersize=3, label=name)
    ends = [min(each.measured_us for each in residuals), max(each.measured_us for each in residuals)]
    left.plot(ends, ends, "k-", linewidth=0.5)
    left.set(xlabel="measured (us)", ylabel="predicted (us)", title="programs that were not fitted")
    right.axhspan(0.965, 1.035, color="0.9")
    right.set(xlabel="size (bytes)", ylabel="predicted / measured", title="grey: 3.5%")
    left.legend()
    figure.savefig(report.RESULTS / "fidelity.png", dpi=100)
    pyplot.close(figure)


def _write_hangs(measured: MeasuredRuns) -> None:
    swept = sorted({size for file in measured.files for size in file.size_bytes.tolist()})
    rows = []
    for file in measured.files:
        last = int(file.size_bytes[-1])
        beyond = [size for size in swept if size > last]
        limit = file.hangs_above_bytes
        said = "ends at every size" if limit is None else f"hangs above {units.format_size(limit)}"
        first = units.format_size(beyond[0]) if beyond else "-"
        agrees = (limit is None and not beyond) or (
            limit is not None and bool(beyond) and last <= limit < beyond[0]
        )
        rows.append((file.name, said, units.format_size(last), first, "yes" if agrees else "NO"))
    intro = (
        "What `taccl verify` says of the measured programs, from the file alone, and where the machine "
        "stopped: a sweep doubled the size until a call did not end within 1000 s. Verification knows how "
        "many pieces a connection holds, and that a step of several chunks becomes several pieces once they "
        "no longer fit into one; so the limit depends on the size, and is reported to the byte."
    )
    header = ("program", "predicted", "last size that ended", "first that did not", "agrees")
    report.write("hangs", "Hangs: predicted, and seen", intro, report.table(header, rows))


if __name__ == "__main__":
    main()

"""What the executor of a measured machine predicts, held against the times that were measured there.

The times are those of tests/data/mi300x-8. The figures of docs/cost-model.md, "The executor", are those of
`errors`.
"""

import csv
from functools import cache

import mi300x
import numpy as np
import pytest

from taccl.backend.simulate.executor import Prepared

TIMES = mi300x.DATA / "mi300x-8" / "times.csv"
SIZES = tuple(2**power for power in range(14, 29, 2))


@cache
def errors():
    """max(predicted / measured, measured / predicted) - 1, by protocol, of calls in place that ended."""
    found: dict[str, list[float]] = {}
    programs: dict[str, Prepared] = {}
    for row in csv.DictReader(TIMES.open(encoding="utf-8")):
        size, measured = int(row["size_bytes"]), float(row["in_place_us"] or "nan")
        if size not in SIZES or np.isnan(measured):
            continue
        name = row["file"].removesuffix(".xml")
        if name not in programs:
            programs[name] = Prepared.of(mi300x.program(name), mi300x.mesh())
        protocol = programs[name].program.protocol.value
        predicted = programs[name].predict_us(mi300x.executor(), protocol, size)
        found.setdefault(protocol, []).append(max(predicted / measured, measured / predicted) - 1)
    return {protocol: np.array(each) for protocol, each in found.items()}


@pytest.mark.parametrize(
    ("protocol", "median", "ninth_tenth", "worst"),
    [("Simple", 0.037, 0.09, 0.15), ("LL", 0.023, 0.055, 0.075), ("LL128", 0.028, 0.075, 0.125)],
)
def test_times_of_each_protocol_are_predicted_within_some_percent(protocol, median, ninth_tenth, worst):
    error = errors()[protocol]
    assert np.median(error) <= median
    assert np.percentile(error, 90) <= ninth_tenth
    assert error.max() <= worst


def test_all_times_are_predicted_within_three_percent_in_the_middle():
    error = np.concatenate(list(errors().values()))
    assert len(error) == 173
    assert np.median(error) <= 0.03

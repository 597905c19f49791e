"""What perftest writes with --out_json: one size, its bandwidth or its latency.

It knows the keys of that file, quoted or not. The file does not tell its unit, but its rate of messages does.
Sweeps are made as for the text.
"""

from __future__ import annotations

import re

from taccl.calibration.benchmarks.facts import Measured, Point
from taccl.calibration.benchmarks.formats.perftest import UNITS, Table, sweep_of, time_us
from taccl.calibration.benchmarks.text import number_of, whole_of
from taccl.errors import MeasurementError
from taccl.topologies.strict_yaml import Node, parse_yaml

_INFO = re.compile(r"^\s*\{\s*\"?test_info\"?\s*:")
#: The bandwidth must be what the rate of messages says, within this share, in one of the units.
_RATE = 0.02


def looks_like(text: str) -> bool:
    """Whether its first key is at the beginning."""
    return _INFO.match(text) is not None


def read(text: str, path: str | None) -> Measured:
    """A sweep of one size; files of several sizes are put together by who reads them.

    Raises
    ------
    MeasurementError : it is damaged, has no result, or a bandwidth whose unit cannot be stated; with the
    line.
    """
    root = parse_yaml(text, path, MeasurementError)
    top = _keys(root)
    info = _keys(top["test_info"]) if "test_info" in top else {}
    name = next((top[key] for key in ("results", "results_local") if key in top), None)
    if name is None:
        raise root.error("there are no results in this JSON of perftest")
    results = _keys(name)
    size = whole_of(results["MsgSize"].raw) if "MsgSize" in results else None
    if size is None:
        raise name.error("the results have no MsgSize in bytes")
    title = info["test"].raw.replace("_", " ").removesuffix(" Test") if "test" in info else ""
    title = title.replace("RDMA ", "RDMA_")
    ports = 2 if "Dual_port" in info and info["Dual_port"].raw.upper() == "ON" else 1
    latency = next((found for key in ("t_typical", "t_avg") if (found := _number(results, key))), None)
    if latency is not None:
        table, value = Table(name.line, title, "us", 0), latency
    else:
        gbps, rate = _number(results, "BW_average"), _number(results, "MsgRate")
        if not gbps:
            raise name.error("the results have neither a bandwidth nor a latency")
        table, value = Table(name.line, title, _unit(name, size, gbps, rate), 0, ports), gbps
    table.points.append(Point(size, time_us(size, value, table), name.line))
    return Measured(("perftest-json",), (sweep_of(table, path),))


def _unit(results: Node, size: int, value: float, rate: float | None) -> str:
    """The unit in which the bandwidth is that of this many million messages a second."""
    for unit in ("mb/sec", "gb/sec"):
        if rate and abs(value * UNITS[unit] / (rate * 1e6 * size) - 1) <= _RATE:
            return unit
    raise results.error(
        "this file does not tell whether BW_average is in MB/s or Gb/s, and MsgRate fits neither"
    )


def _number(keys: dict[str, Node], key: str) -> float | None:
    return number_of(keys[key].raw.strip()) if key in keys else None


def _keys(node: Node) -> dict[str, Node]:
    return {key.raw: value for key, value in node.items()}

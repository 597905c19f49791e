"""What nccl-tests -J writes: the rows of its table as JSON.

It knows the keys of that file; scopes and sweeps are made as for the text.
"""

from __future__ import annotations

from taccl.calibration.benchmarks.facts import Measured, Point, Sweep
from taccl.calibration.benchmarks.formats.nccl_tests import CPU_TIMES, sweep_of_run, test_in
from taccl.calibration.benchmarks.text import number_of, whole_of
from taccl.errors import MeasurementError
from taccl.topologies.strict_yaml import Node, parse_yaml

#: Of a half of a row, the first that is there: what a run takes, and not what its slowest repeat does.
_TIMES = ("p50_us", "min_us", "time")
#: More ranks are not spread out to tell who shares a node.
_MOST_RANKS = 65536


def looks_like(text: str) -> bool:
    """Whether it is JSON with rows that have two halves."""
    return text.lstrip()[:1] == "{" and '"results"' in text and '"out_of_place"' in text


def read(text: str, path: str | None) -> Measured:
    """The one sweep of the file.

    Raises
    ------
    MeasurementError : it is not JSON, or has no row with a time; with the line.
    """
    try:
        root = parse_yaml(text, path, MeasurementError)
    except MeasurementError as failure:
        hint = "a run that is stopped leaves its file without an end; its text has the rows"
        raise MeasurementError(
            "this JSON of nccl-tests is cut or damaged", path=path, line=failure.line, hint=hint
        ) from None
    top = _keys(root)
    if "results" not in top:
        raise root.error("this JSON of nccl-tests has no 'results'")
    hosts = _hosts(top)
    points: list[Point] = []
    busbw: tuple[float, int] | None = None
    fault: tuple[str, int] | None = None
    for row in top["results"].elements():
        keys = _keys(row)
        size = whole_of(keys["size"].raw) if "size" in keys else None
        if size is None:
            raise row.error(f"{row.name} has no size in bytes")
        for half in ("out_of_place", "in_place"):
            if half not in keys or keys[half].kind != "mapping":
                continue
            values = _keys(keys[half])
            if "cpu_time" in values:
                fault = fault or (CPU_TIMES, row.line)
            if (iterations := keys.get(f"{half}_per_iter")) is not None and iterations.kind == "mapping":
                values |= _keys(iterations)
            time_us = next((found for name in _TIMES if (found := _number(values.get(name)))), None)
            wrong = _number(values.get("nwrong"))
            if wrong:
                fault = fault or (f"{wrong:g} wrong values", row.line)
            if time_us is None:
                time_us = _number(values.get("cpu_time"))
            if time_us is None or time_us <= 0:
                continue
            points.append(Point(size, time_us, row.line))
            bus = _number(values.get("bus_bw"))
            if bus and (busbw is None or bus > busbw[0]):
                busbw = (bus, size)
    if not points:
        raise root.error("this JSON of nccl-tests has no row with a time")
    bounds = _count_out_of_bounds(top.get("out_of_bounds"))
    if bounds and fault is None:
        fault = (f"{bounds:g} values were out of bounds", top["out_of_bounds"].line)
    sweep: Sweep = sweep_of_run(path, root.line, test_in(text), hosts, points, busbw, fault)
    return Measured(("nccl-tests-json",), (sweep,))


def _hosts(top: dict[str, Node]) -> list[str]:
    """A host for each rank.

    The devices stand in `config`, in some files at the top. Of each process only the first GPU is listed,
    so listed ranks are `nthreads` x `ngpus` apart.
    """
    config = _keys(top["config"]) if "config" in top and top["config"].kind == "mapping" else {}
    devices = top.get("devices", config.get("devices"))
    listed = [_keys(device) for device in devices.elements()] if devices is not None else []
    hosts = [device["hostname"].raw for device in listed if "hostname" in device]
    each = 1
    for name in ("nthreads", "ngpus"):
        each *= max(1, int(_number(config.get(name)) or 1))
    ranks = [_number(device.get("rank")) for device in listed]
    is_first_only = ranks == [process * each for process in range(len(ranks))]
    if each > 1 and is_first_only and len(hosts) * each <= _MOST_RANKS:
        return [host for host in hosts for _ in range(each)]
    return hosts


def _keys(node: Node) -> dict[str, Node]:
    return {key.raw: value for key, value in node.items()}


def _count_out_of_bounds(node: Node | None) -> float | None:
    if node is not None and node.kind == "mapping":
        return next((_number(value) for key, value in node.items() if key.raw in ("count", "errors")), None)
    return _number(node)


def _number(node: Node | None) -> float | None:
    return None if node is None or isinstance(node.content, tuple) else number_of(node.raw.strip())

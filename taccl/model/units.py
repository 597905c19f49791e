"""Sizes, bandwidths and times, with one meaning each everywhere.

KB, MB and GB are 2**10, 2**20 and 2**30 bytes, as nccl-tests counts them; GB/s is 10**9 bytes per
second. Times are microseconds. Costs per size (beta) are microseconds per MB.
"""

from __future__ import annotations

import math
import re
import sys
from fractions import Fraction

from taccl.errors import UnitError
from taccl.support.arguments import is_number, number, shown

KB = 2**10
MB = 2**20
GB = 2**30

#: No call, link or wait is beyond these: what is, is a slip of the pen.
MAX_SIZE_BYTES = 2**60
MAX_TIME_US = 1e12
MAX_ALPHA_US = 1e9
_MAX_FLOAT = sys.float_info.max
MIN_BETA_US_PER_MB = 1e-18
MAX_BETA_US_PER_MB = 1e9

_SUFFIXES = {"": 1, "B": 1}
for _letter, _factor in (("K", KB), ("M", MB), ("G", GB), ("T", GB * KB)):
    _SUFFIXES |= {_letter: _factor, f"{_letter}B": _factor, f"{_letter}IB": _factor}

#: So few digits that no size is slow, or too long, to turn into a number.
_DIGITS = 300
_SIZE = re.compile(
    rf"\s*([0-9]{{1,{_DIGITS}}}(?:\.[0-9]{{0,{_DIGITS}}})?|\.[0-9]{{1,{_DIGITS}}})\s*([a-zA-Z]*)\s*"
)


def parse_size(text: str | int) -> int:
    """Bytes in a size such as `16MB`, `4000B`, `1.5GiB` or `4096`.

    Raises
    ------
    UnitError : not a size, not a whole number of bytes, not positive, or more than 2**60 bytes.
    """
    is_text = isinstance(text, str) or (is_number(text) and abs(text) < 10**_DIGITS)
    match = _SIZE.fullmatch(f"{text}") if is_text else None
    suffix = None if match is None else match[2].upper()
    if match is None or suffix not in _SUFFIXES:
        raise UnitError(f"{shown(text)} is not a size", hint="write it like 64KB, 16MB or 1GB")
    size = Fraction(match[1].rstrip(".")) * _SUFFIXES[suffix]
    if size > MAX_SIZE_BYTES:
        raise UnitError(f"a size must be at most {MAX_SIZE_BYTES // 2**40}TB, not {shown(text)}")
    if size.denominator != 1:
        raise UnitError(f"{shown(text)} is {float(size)} bytes, which is not a whole number")
    if size <= 0:
        raise UnitError(f"a size must be positive, not {shown(text)}")
    return int(size)


_TIMES_US = {"": 1.0, "US": 1.0, "MS": 1e3, "S": 1e6}
_TIME = re.compile(r"\s*([0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})\s*([a-zA-Z]*)\s*")


def parse_time_us(text: str | float) -> float:
    """Microseconds in a time such as `500us`, `1.5ms`, `2s` or `500`, which is in microseconds.

    Raises
    ------
    UnitError : not a time, not positive, or more than 10**12 us.
    """
    hint = "write it like 500us, 1.5ms or 2s"
    if is_number(text):
        return number(text, "a time", UnitError, above=0, most=MAX_TIME_US, unit="us", hint=hint)
    match = _TIME.fullmatch(text) if isinstance(text, str) else None
    factor = None if match is None else _TIMES_US.get(match[2].upper())
    if match is None or factor is None:
        raise UnitError(f"{shown(text)} is not a time", hint=hint)
    time_us = float(match[1]) * factor
    if not 0 < time_us <= MAX_TIME_US:
        raise UnitError(f"a time must be positive and at most {MAX_TIME_US:g} us, not {shown(text)}")
    return time_us


def format_size(size_bytes: int) -> str:
    """The shortest exact spelling of a size that `parse_size` reads back: 16MB, 1536KB, 1000B."""
    for factor, suffix in ((GB, "GB"), (MB, "MB"), (KB, "KB")):
        if size_bytes % factor == 0 and size_bytes:
            return f"{size_bytes // factor}{suffix}"
    return f"{size_bytes}B"


def format_sizes(least_mb: float, most_mb: float) -> str:
    """Sizes from the least to the most, in MB: `1MB`, or `1MB to 4MB`."""
    least, most = (format_size(round(size * MB)) for size in (least_mb, most_mb))
    return least if least == most else f"{least} to {most}"


def format_bandwidth(gbps: float) -> str:
    """`12.50 GB/s`; it is infinite where nothing has to move."""
    return f"{gbps:.2f} GB/s" if math.isfinite(gbps) else "nothing has to move"


def format_count(number: int, noun: str) -> str:
    """`1 step`, `2 steps`, `2 switches`."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def beta_from_bandwidth(bandwidth_gbps: float) -> float:
    """Microseconds per MB of a link that moves `bandwidth_gbps` * 10**9 bytes per second."""
    if not is_number(bandwidth_gbps) or not 0 < bandwidth_gbps < _MAX_FLOAT:
        raise UnitError(f"a bandwidth must be positive and finite, not {shown(bandwidth_gbps)}")
    beta = MB / (float(bandwidth_gbps) * 1e3)
    if not MIN_BETA_US_PER_MB <= beta <= MAX_BETA_US_PER_MB:
        raise UnitError(f"a bandwidth of {shown(bandwidth_gbps)} GB/s cannot be: 1 MB would take {beta:g} us")
    return beta


def bandwidth_gbps(size_bytes: float, time_us: float) -> float:
    """10**9 bytes per second when `size_bytes` take `time_us` (infinite when no time passes)."""
    return math.inf if time_us <= 0 else size_bytes / (time_us * 1e3)

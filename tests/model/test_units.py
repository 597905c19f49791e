import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl.errors import UnitError
from taccl.model import units
from taccl.model.units import (
    GB,
    KB,
    MB,
    bandwidth_gbps,
    beta_from_bandwidth,
    format_size,
    parse_size,
    parse_time_us,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        (4096, 4096),
        ("4000B", 4000),
        ("1KB", 2**10),
        ("1k", 2**10),
        ("1KiB", 2**10),
        ("16MB", 16 * 2**20),
        ("16 mb", 16 * 2**20),
        (" 16MiB ", 16 * 2**20),
        ("2G", 2 * 2**30),
        ("1TB", 2**40),
        ("1.5KB", 1536),
        ("0.5GB", 2**29),
        (".25MB", 2**18),
        ("3.MB", 3 * 2**20),
    ],
)
def test_a_size_is_read_as_nccl_tests_counts_it(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "MB", "16XB", "16 M B", "-1MB", "1e6", "1,000", "nan", "inf", "0x10", "1..5MB", "1" * 5000, True],
)
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UnitError, match="is not a size") as caught:
        parse_size(text)
    assert caught.value.hint == "write it like 64KB, 16MB or 1GB"


@pytest.mark.parametrize("text", ["2000000TB", "9" * 22, 10**25, "9" * 299 + ".5TB"])
def test_a_size_that_is_too_large_is_said_to_be_so(text: str | int) -> None:
    with pytest.raises(UnitError, match="a size must be at most 1048576TB"):
        parse_size(text)


@pytest.mark.parametrize("text", ["0", "0MB", "0.0GB"])
def test_a_size_must_be_positive(text: str) -> None:
    with pytest.raises(UnitError, match="must be positive"):
        parse_size(text)


@pytest.mark.parametrize("text", ["1.5", "0.3KB", "1.0000000000000000001KB"])
def test_a_part_of_a_byte_is_refused(text: str) -> None:
    with pytest.raises(UnitError, match="not a whole number"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(1000, "1000B"), (KB, "1KB"), (1536 * KB, "1536KB"), (16 * MB, "16MB"), (3 * GB, "3GB"), (1, "1B")],
)
def test_a_size_is_written_in_its_largest_exact_unit(size: int, text: str) -> None:
    assert format_size(size) == text


@settings(deadline=None)
@given(st.integers(1, 2**60))
def test_a_written_size_is_read_back(size: int) -> None:
    assert parse_size(format_size(size)) == size


def test_a_beta_counts_mb_and_a_bandwidth_counts_10_to_the_9() -> None:
    assert beta_from_bandwidth(1.0) == pytest.approx(1048.576)
    assert beta_from_bandwidth(25.0) == pytest.approx(41.94304)


@settings(deadline=None)
@given(st.floats(1e-3, 1e6))
def test_a_mb_at_a_bandwidth_takes_beta_microseconds(bandwidth: float) -> None:
    assert bandwidth_gbps(units.MB, beta_from_bandwidth(bandwidth)) == pytest.approx(bandwidth)


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, math.nan, math.inf])
def test_a_bandwidth_must_be_positive_and_finite(bandwidth: float) -> None:
    with pytest.raises(UnitError, match="positive and finite"):
        beta_from_bandwidth(bandwidth)


def test_moving_something_in_no_time_is_infinitely_fast() -> None:
    assert bandwidth_gbps(MB, 0.0) == math.inf


@pytest.mark.parametrize(
    ("text", "time_us"),
    [("500us", 500), ("500", 500), (500, 500), (12.5, 12.5), ("1.5 ms", 1500), (" 2S ", 2e6), (".5us", 0.5)],
)
def test_a_time_is_in_microseconds_unless_it_says_otherwise(text: str | float, time_us: float) -> None:
    assert parse_time_us(text) == time_us


@pytest.mark.parametrize("text", ["", "us", "5min", "-1us", "1e6", "nan", "inf", "1..5us", "5 u s", True])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UnitError, match="is not a time") as caught:
        parse_time_us(text)
    assert caught.value.hint == "write it like 500us, 1.5ms or 2s"


def test_a_time_must_be_positive() -> None:
    with pytest.raises(UnitError, match="must be positive"):
        parse_time_us("0ms")


def test_sizes_from_the_least_to_the_most() -> None:
    assert units.format_sizes(1, 1) == "1MB"
    assert units.format_sizes(0.5, 4) == "512KB to 4MB"

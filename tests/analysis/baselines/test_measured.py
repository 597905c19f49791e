"""The published measurements: complete, of collectives that exist, and times where bandwidths stood."""

from __future__ import annotations

from taccl.analysis.baselines.measured import measured_tables
from taccl.model.collectives import COLLECTIVES


def test_every_table_has_a_source_and_growing_sizes() -> None:
    for table in measured_tables():
        assert table.source
        assert table.collective in COLLECTIVES
        assert table.ranks >= 2
        assert table.nodes >= 1
        sizes = [row.size_bytes for row in table.rows]
        assert sizes == sorted(set(sizes))
        assert all(0 < row.least_us <= row.most_us for row in table.rows)


def test_a_bus_bandwidth_becomes_a_time_by_the_factor_of_nccl_tests() -> None:
    table = next(
        table for table in measured_tables() if table.algorithm == "NVLS" and table.machine == "dgx-h200"
    )
    # 2**34 bytes x 2 x 7 / 8 at 480.0 x 10**9 bytes per second
    assert abs(table.rows[0].time_us - 2**34 * 1.75 / 480e3) < 1e-6


def test_a_range_of_bandwidths_becomes_a_range_of_times_that_begins_with_the_fastest() -> None:
    table = next(table for table in measured_tables() if table.ranks == 72)
    assert table.rows[0].least_us == 2**33 / 429e3
    assert table.rows[0].most_us == 2**33 / 423e3

"""A baseline stands beside a bound that holds for any cutting, and says where it is below."""

from __future__ import annotations

from pathlib import Path

import pytest

from taccl import baseline, bounds
from taccl.errors import TacclError, UnitError


def test_the_bound_is_no_larger_than_that_of_any_number_of_chunks() -> None:
    found = baseline("allgather", topology="dgx-a100", nodes=1, sizes=["1KB", "1GB"])
    for each, size in zip(found.sizes, ("1KB", "1GB"), strict=True):
        assert each.bound is not None
        whole = bounds("allgather", topology="dgx-a100", nodes=1, size=size)
        assert 0 < each.bound.value_us <= whole[0].value_us
        assert each.time_us is not None
        assert each.time_us > each.bound.value_us


def test_a_small_message_has_the_latency_of_its_hops_as_a_bound() -> None:
    found = baseline("broadcast", topology="dgx-h100", nodes=2, sizes=["1KB"])
    assert found.sizes[0].bound is not None
    assert found.sizes[0].bound.value_us >= 2.7  # from NIC to NIC


def test_bandwidths_are_those_of_nccl_tests() -> None:
    (each,) = baseline("allreduce", topology="dgx-h100", nodes=1, sizes=[2**30]).sizes
    assert each.time_us is not None
    assert each.algbw_gbps == pytest.approx(2**30 / each.time_us / 1e3)
    assert each.busbw_gbps == pytest.approx(each.algbw_gbps * 14 / 8)


def test_a_time_limit_leaves_bounds_out_with_a_note() -> None:
    found = baseline("allreduce", topology="dgx-h100", nodes=2, sizes=["1MB", "1GB"], time_limit=1e-6)
    assert found.sizes[-1].bound is None
    assert any("bounds were left out" in note for note in found.notes)


HGX = """
name: hgx
gpu: H100
gpus: 8
switches: [nvswitch]
links: [{from: gpus, to: nvswitch, alpha_us: 0.35, bandwidth_gbps: 370.8}]
helpers: [{at: nvswitch, can: [reduce-to-one, copy], bandwidth_gbps: 309}]
"""


def test_a_switch_that_sums_lowers_the_bound_and_without_it_there_is_no_nvls(tmp_path: Path) -> None:
    file = tmp_path / "hgx.yaml"
    file.write_text(HGX)
    whole = baseline("allreduce", topology=file, sizes=["1GB"])
    plain = baseline("allreduce", topology=file, sizes=["1GB"], without="nvswitch")
    assert [each.sizes[0].pick for each in (whole, plain)] == ["NVLS Simple", "Ring Simple"]
    assert [each.bound_says for each in (whole, plain)] == ["with in-switch sums", "without in-switch sums"]
    bounds_us = [each.sizes[0].bound.value_us for each in (whole, plain) if each.sizes[0].bound is not None]
    assert bounds_us[0] < bounds_us[1]
    assert not any(each.sizes[0].is_below_bound for each in (whole, plain))


def test_faulty_requests_are_refused() -> None:
    with pytest.raises(UnitError, match="a list of sizes"):
        baseline("allreduce", topology="dgx-h100", sizes="1MB")
    with pytest.raises(TacclError, match="library"):
        baseline("allreduce", topology="dgx-h100", library="gloo")  # type: ignore[arg-type]

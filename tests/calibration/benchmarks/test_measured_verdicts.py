"""What is fitted to each benchmark output of tests/data/measurements is what its run is known to tell."""

from pathlib import Path

import pytest

from taccl.calibration.benchmarks.facts import Scope, together
from taccl.calibration.benchmarks.findings import findings
from taccl.calibration.benchmarks.quantities import Findings, Quantity
from taccl.calibration.benchmarks.registry import read_measured

DATA = Path(__file__).parents[2] / "data" / "measurements"
#: A log of NCCL that is a benchmark's output, too.
SMALL = "../dumps/nccl-log/a100-pcie-2node-sendrecv-small.txt"


def found(*names: str, at_bytes: int | None = None, between: Scope | None = "nodes") -> Findings:
    measured = together(read_measured(DATA / name) for name in names)
    return findings(measured, at_bytes=at_bytes, between=between)


def numbers(of: Findings, name: str) -> list[Quantity]:
    return [each for each in of.quantities if each.name == name]


def only(of: Findings, name: str) -> Quantity:
    (quantity,) = numbers(of, name)
    return quantity


def test_osu_latency_has_its_floor_and_the_slope_of_its_large_sizes() -> None:
    reported = found("osu-latency.txt")
    assert only(reported, "alpha_us").value == pytest.approx(3.3, abs=0.05)
    assert only(reported, "beta_us_per_mb").gbps == pytest.approx(15.3, rel=0.01)
    assert only(reported, "beta_us_per_mb").worst_miss < 0.03


def test_osu_latency_at_a_size_is_a_line_around_it() -> None:
    """IMPORTS.md: 64 KB and more have 6.29 us, 15.3 GB/s and a worst miss of 2%."""
    reported = found("osu-latency.txt", at_bytes=2**19)
    assert only(reported, "alpha_us").value == pytest.approx(6.3, abs=0.2)
    assert only(reported, "beta_us_per_mb").gbps == pytest.approx(15.3, rel=0.01)
    assert only(reported, "beta_us_per_mb").sizes_bytes == (2**16, 2**22)


@pytest.mark.parametrize(
    ("name", "gbps"),
    [
        ("osu-1-pair.txt", 15.33),
        ("osu/cscs-gh200-cuda-bw-validation.txt", 24.0),
        ("perftest/aks-write-bw-gbits.txt", 24.6),
        ("perftest/rocm-bidir-write-bw-gbits.txt", 12.8),
        ("perftest/superbench-write-bw-all.log", 23.9),
        ("nccl-tests/a100-pcie-2node-sendrecv-medium.txt", 14.6),
        (SMALL, 14.7),
    ],
)
def test_a_stream_of_messages_tells_a_bandwidth(name: str, gbps: float) -> None:
    reported = found(name)
    assert only(reported, "beta_us_per_mb").gbps == pytest.approx(gbps, rel=0.04)
    assert not numbers(reported, "alpha_us")


def test_the_launch_of_a_call_is_told_apart_from_an_alpha() -> None:
    launch = only(found(SMALL), "launch_us")
    assert 24 < launch.value < 33
    extrapolated = only(found("nccl-tests/a100-pcie-2node-sendrecv-medium.txt"), "launch_us")
    assert 60 < extrapolated.value < 80
    assert extrapolated.weak


def test_four_pairs_do_not_fill_four_times_the_port_of_one_and_eight_gain_nothing() -> None:
    reported = found("osu-1-pair.txt", "osu-4-pairs.txt", "osu/abci-a100-inter-8pair-mbw.txt")
    together_gbps = [each for each in numbers(reported, "gbps") if "all at once" in each.link]
    assert [each.value for each in together_gbps] == [pytest.approx(39.0, abs=0.05)]
    assert "does not fill a port" in together_gbps[0].note
    assert "more pairs move no more" in together_gbps[0].note


@pytest.mark.parametrize("name", ["osu/pkb-bw.txt", "perftest/aks-read-lat-one-size.txt"])
def test_too_few_sizes_are_refused(name: str) -> None:
    reported = found(name)
    assert not reported.quantities
    assert all("size" in refused.reason for refused in reported.refusals)


def test_one_latency_is_an_upper_limit() -> None:
    reasons = [each.reason for each in found("perftest/aks-read-lat-one-size.txt").refusals]
    assert any("at most 5.49 us" in reason and "half" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("name", "ranks", "busbw"),
    [
        ("nccl-tests/abci-a100-8-allreduce.txt", 8, 163.8),
        ("nccl-tests/abci-v100-2x4-allreduce.txt", 8, 19.77),
        ("nccl-allreduce-v100-4.txt", 4, 112.52),
        ("nccl-tests/abci-v100-4-allreduce.constructed.json", 4, 112.52),
        ("nccl-tests/superbench-alltoall-a100-8.log", 8, 226.16),
    ],
)
def test_a_collective_tells_a_lower_limit_of_a_port_and_no_alpha(name: str, ranks: int, busbw: float) -> None:
    reported = found(name)
    assert only(reported, "gbps").value == busbw
    assert f"of {ranks} ranks" in only(reported, "gbps").link
    assert not reported.costs
    assert "model of its algorithm" in reported.refusals[0].reason


def test_the_text_and_the_json_of_one_run_say_the_same() -> None:
    text, json = (
        read_measured(DATA / name).sweeps[0]
        for name in ("nccl-allreduce-v100-4.txt", "nccl-tests/abci-v100-4-allreduce.constructed.json")
    )
    assert [(p.size_bytes, p.time_us) for p in text.points] == [
        (p.size_bytes, p.time_us) for p in json.points
    ]


def test_two_rows_are_refused() -> None:
    (refused,) = found("nccl-tests/rccl-mi350x-8-abridged.txt").refusals
    assert "2 size(s)" in refused.reason


def test_8_a100_are_one_class_with_four_pcie_switches() -> None:
    reported = found("p2pbw/abci-a100-8-run1.txt")
    beta = only(reported, "beta_us_per_mb")
    assert (beta.points, beta.link) == (56, "GPU to GPU")
    assert 263 < beta.gbps < 276
    switches = [each.link for each in reported.quantities if each.link.startswith("PCIe switch")]
    assert switches == [f"PCIe switch of GPUs {a}, {a + 1}" for a in (0, 2, 4, 6)]
    latency = only(reported, "latency_us")
    assert (latency.low, latency.high) == (2.73, 3.44)
    assert not reported.warnings


def test_4_v100_have_two_links_a_pair_and_two_pcie_switches() -> None:
    reported = found("p2p-v100-4.txt")
    assert only(reported, "beta_us_per_mb").value == pytest.approx(21.6, abs=0.05)
    switches = [each.link for each in reported.quantities if each.link.startswith("PCIe switch")]
    assert switches == ["PCIe switch of GPUs 0, 1", "PCIe switch of GPUs 2, 3"]
    assert 1.8 <= only(reported, "latency_us").value <= 2.0


def test_2_gpus_on_pcie() -> None:
    reported = found("p2pbw/rtx6000ada-2.txt")
    assert only(reported, "beta_us_per_mb").gbps == pytest.approx(26.32, rel=1e-3)
    assert not [each for each in reported.quantities if each.link.startswith("PCIe switch")]


def test_h800_reads_172_and_writes_176_with_copy_engines() -> None:
    reported = found("nvbandwidth/h800-8-v0.2.txt")
    by_test = {each.source.split()[-1]: each for each in numbers(reported, "beta_us_per_mb")}
    assert by_test["device_to_device_memcpy_read_ce"].gbps == pytest.approx(172, abs=0.5)
    assert by_test["device_to_device_memcpy_write_ce"].gbps == pytest.approx(176, abs=0.5)
    into = [each for each in numbers(reported, "port_gbps") if each.source.endswith("all_to_one_write_ce")]
    assert into[0].value == pytest.approx(177.7, abs=0.1)
    assert len(reported.pair_gbps) == 56


@pytest.mark.parametrize("name", ["t4-4.txt", "t4-4.constructed.json"])
def test_4_t4_without_nvlink(name: str) -> None:
    reported = found(f"nvbandwidth/{name}")
    for beta in numbers(reported, "beta_us_per_mb"):
        assert 9.9 < beta.gbps < 10.26
    sources = {each.source.split()[-1]: each.value for each in numbers(reported, "gbps")}
    assert sources["host_to_device_memcpy_ce"] == pytest.approx(12.3, abs=0.1)
    assert sources["device_to_host_memcpy_ce"] == pytest.approx(13.1, abs=0.1)


def test_a_synthetic_log_of_nvbandwidth_is_read() -> None:
    reported = found("nvbandwidth/gh200-synthetic.log")
    assert not reported.pair_gbps
    assert only(reported, "latency_us").value == pytest.approx(0.77258)


def test_mi250_has_its_classes_and_no_degraded_link() -> None:
    reported = found("transferbench/mi250-8gcd-p2p.txt")
    betas = numbers(reported, "beta_us_per_mb")
    assert betas[0].note.startswith("0-1 2-3 4-5 6-7;")
    assert 64.5 < betas[0].gbps < 66.6
    assert [each.gbps > 35 for each in betas] == [True] * 4 + [False] * 2
    assert sum(each.points for each in betas) == 56
    assert not reported.warnings

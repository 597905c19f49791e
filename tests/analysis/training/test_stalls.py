"""Steps of training: what a recurrence, files and formulas say, held against numbers worked out by hand."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taccl.analysis.training.recurrence import exposed_bound_us, run_step
from taccl.analysis.training.stalled import stall
from taccl.analysis.training.step_timeline import step_lines, step_timeline
from taccl.analysis.training.times import BoundTable, TimeTable
from taccl.analysis.training.workload import Bucket, BucketCall, Layer, Workload
from taccl.analysis.training.workload_file import load_workload
from taccl.backend.show.trace import to_trace
from taccl.errors import TacclError
from taccl.topologies import load_topology
from taccl.topologies.select import select

MB = 2**20
#: Backward passes end at 40, 60 and 70: layer 2, then 1, then 0.
THREE = Workload("three", 8, (Layer("a", 4 * MB, 10, 10), Layer("b", 2 * MB, 10, 20), Layer("c", MB, 10, 10)))
YAML = """\
name: two
batch: 4
layers:
  - {name: a, bytes: 1048576, forward_us: 100, backward_us: 200}
  - {name: b, bytes: 4194304, forward_us: 100, backward_us: 200,
     calls: [{phase: forward, collective: allgather, bytes: 1048576}]}
"""


def us_per_mb(times: float):
    return lambda size: times * size / MB


def test_buckets_are_closed_by_the_layer_that_reaches_their_size() -> None:
    assert THREE.buckets(3 * MB) == (Bucket((2, 1), 3 * MB), Bucket((0,), 4 * MB))
    assert THREE.buckets(100 * MB, first_bytes=1) == (Bucket((2,), MB), Bucket((1, 0), 6 * MB))
    assert sum(each.num_bytes for each in THREE.buckets(1)) == THREE.gradient_bytes


def test_buckets_run_one_after_another() -> None:
    step = run_step(THREE, THREE.buckets(1), us_per_mb(15), lambda call: 0)
    assert [(each.ready_us, each.start_us, each.end_us) for each in step.buckets] == [
        (40, 40, 55),
        (60, 60, 90),
        (70, 90, 150),
    ]
    assert (step.compute_us, step.step_us, step.exposed_us) == (70, 150, 80)
    assert step.stall == pytest.approx(80 / 150)
    assert [each.exposed_us for each in step.buckets] == [0, 20, 60]


def test_until_the_next_forward_pass_later_layers_wait_less() -> None:
    step = run_step(THREE, THREE.buckets(1), us_per_mb(15), lambda call: 0, "next-forward")
    assert step.step_us == 150  # layer a, which is needed first, is summed last
    first = Workload("first", 1, (Layer("a", 0, 10, 10), Layer("b", 4 * MB, 10, 10)))
    assert run_step(first, first.buckets(1), us_per_mb(10), lambda call: 0).step_us == 70
    late = run_step(first, first.buckets(1), us_per_mb(10), lambda call: 0, "next-forward")
    assert late.step_us == 60  # layer a computes meanwhile


def test_calls_stand_where_they_are_waited_for() -> None:
    called = Workload("called", 1, (Layer("a", MB, 5, 5, (BucketCall("forward", "allreduce", 1),) * 2),))
    step = run_step(called, called.buckets(1), us_per_mb(1), lambda call: 100)
    assert (step.calls_us, step.exposed_us, step.step_us) == (200, 201, 211)


@pytest.mark.parametrize("until", ["step", "next-forward"])
@pytest.mark.parametrize("seed", range(20))
def test_no_cut_into_buckets_exposes_less_than_the_bound(seed: int, until: str) -> None:
    random = np.random.default_rng(seed)
    layers = tuple(
        Layer(str(index), int(size), float(forward), float(backward))
        for index, (size, forward, backward) in enumerate(
            zip(random.integers(0, 4 * MB, 6), *random.uniform(0, 60, (2, 6)), strict=True)
        )
    )
    job = Workload("random", 1, layers)
    rate = us_per_mb(float(random.uniform(1, 40)))
    bound_us = exposed_bound_us(job, rate, lambda call: 0, until)
    for size in (1, MB, 3 * MB, 100 * MB):
        step = run_step(job, job.buckets(size), lambda size: 1 + rate(size), lambda call: 0, until)
        assert step.exposed_us >= bound_us - 1e-9


def test_tables_between_sizes() -> None:
    assert TimeTable((10, 20), (1.0, 3.0)).at(15) == 2
    assert TimeTable((10, 20), (1.0, 3.0)).at(40) == 6
    bounds = BoundTable((10, 20), (4.0, 5.0))
    assert [bounds.at(size) for size in (5, 10, 12, 20, 40)] == [2.0, 4.0, 4.0, 5.0, 5.0]


def test_a_job_by_hand_on_a_machine(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(YAML)
    found = stall(path, topology="ring:4", plan="ring", bucket="1MB", price=3.0, samples=32_000)
    assert [each.bucket.num_bytes for each in found.best.step.buckets] == [4 * MB, MB]
    assert found.workload.compute_us == 600
    assert found.bound_us <= found.best.step.step_us
    assert found.best.network_stall == 0.0
    hours = 2000 * found.best.step.step_us / 3600e6
    assert found.best.cost_of_epoch == pytest.approx(hours * 3.0)
    halved = stall(path, topology="ring:4", bucket="auto", gradients="fp16", batch=8)
    assert halved.workload.compute_us == 1200
    assert halved.workload.gradient_bytes == found.workload.gradient_bytes / 2
    assert halved.best.step.step_us == min(step_us for _, step_us in halved.best.curve)


def test_layers_of_astra_sim(tmp_path: Path) -> None:
    path = tmp_path / "net.txt"
    path.write_text(
        "HYBRID_TRANSFORMER\tmodel_parallel_NPU_group: 2\n2\n"
        "q\t-1\t1000\tNONE\t0\t2000\tALLREDUCE\t64\t3000\tALLREDUCE\t4096\t10\n"
        "fc\t-1\t1000\tALLGATHER\t128\t2000\tNONE\t0\t3000\tNONE\t0\t10\n"
    )
    job = load_workload(path)
    assert job.group == 2
    assert job.layers[0] == Layer("q", 4096, 1.0, 5.01, (BucketCall("backward", "allreduce", 64),))
    assert job.layers[1] == Layer("fc", 0, 1.0, 5.01, (BucketCall("forward", "allgather", 128),))
    assert stall(path, topology="switch:4").best.step.calls_us > 0
    path.write_text("DATA\n2\nconv\t-1\t1\tNONE\t0\t1\tNONE\t0\t1\tALLREDUCE\t8\t1\n")
    with pytest.raises(TacclError, match="2 layers, and has 1"):
        load_workload(path)


def test_a_trace_of_the_profiler(tmp_path: Path) -> None:
    def kernel(name: str, ts: float, dur: float, **args: object) -> dict[str, object]:
        return {"ph": "X", "cat": "kernel", "name": name, "ts": ts, "dur": dur, "args": args}

    allreduce = {"Collective name": "allreduce", "dtype": "Float"}
    events = [
        kernel("gemm", 0, 100),
        kernel("ncclDevKernel_AllReduce", 90, 50, **allreduce, **{"In msg nelems": 1000}),
        kernel("gemm", 100, 60),
        kernel("ncclDevKernel_AllReduce", 200, 90, **allreduce, **{"In msg nelems": 500}),
        kernel("adam", 300, 5),
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [*events, {"ph": "M", "name": "process_name"}]}))
    job = load_workload(path)
    assert job.compute_us == 165
    assert [each.num_bytes for each in job.buckets(1)] == [4000, 2000]
    step = run_step(job, job.buckets(1), lambda size: 0, lambda call: 0)
    assert [each.ready_us for each in step.buckets] == [90, 160]
    assert job.with_gradients(2).gradient_bytes == 3000
    for event in events:
        if "dtype" in event["args"]:
            event["args"]["dtype"] = "BFloat16"
    path.write_text(json.dumps({"traceEvents": events}))
    half = load_workload(path, "fp32")  # the trace knows better
    assert (half.gradient_bytes, half.number_bytes, half.with_gradients(2)) == (3000, 2, half)
    for event in events:
        event["args"].pop("dtype", None)
    path.write_text(json.dumps({"traceEvents": events}))
    assert load_workload(path, "fp16").gradient_bytes == 3000
    with pytest.raises(TacclError, match="no AllReduce with its size") as fault:
        load_workload(path)
    assert "--gradients" in str(fault.value.hint)
    path.write_text(json.dumps({"traceEvents": []}))
    with pytest.raises(TacclError, match="no computing kernels"):
        load_workload(path)


def test_a_transformer_by_formula() -> None:
    job = load_workload(
        "transformer:layers=4,hidden=1024,seq=512,batch=2,tflops=100,tensor=2,pipeline=2,microbatches=4"
    )
    weights = (12 * 1024**2 + 13 * 1024) / 2
    assert [layer.gradient_bytes for layer in job.layers] == [weights * 2] * 2
    forward_us = 1024 * (24 * 1024**2 + 4 * 512 * 1024) / 2 / 100e6
    assert job.layers[0].forward_us == pytest.approx(forward_us)
    assert job.idle_us == pytest.approx(3 * forward_us * 2 / 4)
    assert job.group == 4
    assert [call.num_bytes for call in job.layers[0].calls] == [2 * 512 * 1024 * 2] * 4


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ("transformer:layers=3", "lacks hidden"),
        ("transformer:layers=x", "positive number"),
        ("transformer:width=3", "no word of a transformer"),
        ("transformer:layers=3,hidden=8,seq=8,batch=1,tflops=1,pipeline=2", "cannot be dealt"),
        ("missing.yaml", "missing.yaml"),
    ],
)
def test_wrong_jobs_are_refused(job: str, said: str) -> None:
    with pytest.raises(TacclError, match=said):
        load_workload(job)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [("forward_us: 100", "forward_us: -1", "forward_us"), ("name: a", "nome: a", "unknown key")],
)
def test_wrong_lines_of_a_job_are_named(tmp_path: Path, before: str, after: str, said: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(YAML.replace(before, after, 1))
    with pytest.raises(TacclError, match=rf"job.yaml:4: .*{said}"):
        load_workload(path)


@pytest.mark.parametrize(
    ("forward_us", "wrong", "said"),
    [
        (0, {}, "takes no time"),
        (1, {"effort": 0}, "an effort"),
        (1, {"price": -1.0}, "the price"),
        (1, {"samples": 0}, "samples"),
    ],
)
def test_what_no_step_can_have_is_refused(forward_us: float, wrong: dict[str, Any], said: str) -> None:
    job = Workload("job", 1, (Layer("a", 0, forward_us, 0.0),))
    with pytest.raises(TacclError, match=said):
        stall(job, topology="ring:4", **wrong)


def test_selected_gpus_are_a_machine() -> None:
    machine = load_topology("dgx2", 2)
    chosen = select(machine, [17, 16, 3])
    assert [gpu.name for gpu in chosen.gpus] == ["node1.gpu1", "node1.gpu0", "node0.gpu3"]
    assert chosen.num_nodes == 2
    path = chosen.path(0, 2)
    assert path is not None
    assert path.beta_us_per_mb == machine.path(17, 3).beta_us_per_mb
    for ranks, said in (([], "no GPU"), ([40], "and no 40"), ([1, 1], "named twice")):
        with pytest.raises(TacclError, match=said):
            select(machine, ranks)


def test_the_timeline_of_a_step_is_that_of_its_recurrence() -> None:
    call = BucketCall("forward", "allgather", 2**20)
    layers = (Layer("a", 2**24, 100, 200, (call,)), Layer("b", 2**22, 100, 0))
    found = stall(Workload("job", 1, layers, idle_us=50), topology="ring:4", plan="ring,ring", bucket=1)
    assert [each.plan for each in found.plans] == ["ring"]
    assert 0 < found.stall_bound <= found.best.step.stall
    step = found.best.step
    assert all(a.end_us == b.start_us for a, b in pairwise(step.spans))
    assert sum(each.end_us - each.start_us for each in step.spans) == step.compute_us + step.calls_us
    drawn = step_timeline(found, found.best)
    assert drawn.span == step.step_us == max(each.end_us for each in step.buckets)
    assert json.loads(to_trace(drawn))["otherData"]["title"] == "a step of job on ring:4, by ring"
    computing, sums, axis = step_lines(step)
    assert len({len(computing), len(sums), len(axis) - 3}) <= 2 and {"F", "B", "c", "-"} <= set(computing)
    assert sums.rstrip(".").endswith("1") and axis.endswith(f"{step.step_us:.0f} us")

"""What executing costs by default, by the model of a machine's GPUs: each number with its source."""

from pathlib import Path

import pytest

import taccl
from taccl.api import make_problem, stages_of
from taccl.errors import TopologyError
from taccl.synthesis.job import formulate
from taccl.synthesis.output_options import OutputOptions
from taccl.synthesis.request import Request
from taccl.topologies import build_topology, load_topology
from taccl.topologies.as_yaml import topology_text
from taccl.topologies.executors.defaults import as_executed, default_executor, defaults_of, every_default
from taccl.topologies.executors.tuning import EVERY

MACHINE = Path(__file__).parents[2] / "data" / "machines" / "mi300x-8.yaml"


@pytest.mark.parametrize("row", EVERY, ids=lambda row: f"{row.gpus[0]} {row.runtime}")
def test_every_number_says_how_it_is_known(row):
    figures = list(row.figures())
    assert all(figure.source and figure.how and figure.quantity for figure in figures)
    assert row.errors[0][0] == 0
    assert row.errors_source
    executor = row.executor(row.gpus[0])
    assert executor.origin.title == f"{row.gpus[0]} defaults for {row.runtime}"


def test_one_row_for_each_model_and_runtime():
    keys = [(gpu, row.runtime) for row in EVERY for gpu in row.gpus]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("gpu", ["V100", "A100", "H100", "H200", "H20", "B200", "B300", "GB200"])
def test_nvidias_have_defaults_for_every_runtime(gpu):
    assert [row.runtime for row in every_default(gpu)] == ["msccl", "mscclpp", "nccl"]


@pytest.mark.parametrize("gpu", ["MI250X", "MI300X", "MI325X", "MI350X"])
def test_amds_have_defaults_for_what_is_written_here(gpu):
    assert [row.runtime for row in every_default(gpu)] == ["msccl", "mscclpp"]


def test_an_interval_belongs_to_a_size():
    origin = default_executor("H200", "mscclpp").origin
    assert origin.at(64 * 2**10) == "H200 defaults for mscclpp, +-20% at 64KB"
    assert origin.at(2**30) == "H200 defaults for mscclpp, +-40% at 1GB"
    several = "H200 defaults for mscclpp, +-20% at 1KB, 64KB; +-40% at 1GB"
    assert origin.note([2**10, 2**16, 2**16, 2**30]).endswith(several)


def test_what_is_not_known_has_no_default():
    assert defaults_of("L40S", "msccl") is None
    assert default_executor("MI300X", "nccl") is None
    with pytest.raises(TopologyError, match="runtime"):
        default_executor("H100", "ucc")


@pytest.mark.parametrize("wanted", [None, True])
def test_a_machine_gets_the_defaults_of_its_gpus_for_the_runtime(wanted):
    executor = as_executed(build_topology("mi300x", nodes=1), wanted, "msccl").executor
    assert executor.protocols["Simple"].block_gbps == 20.8


def test_links_alone_are_all_that_counts_where_nothing_is_known_or_wanted():
    machine = build_topology("mi300x", nodes=1)
    unknown = build_topology("switch:8")
    assert as_executed(machine, False, "msccl") is machine
    assert as_executed(machine, None, None) is machine
    assert as_executed(unknown, None, "msccl") is unknown


def test_a_machine_keeps_its_own_executor_unless_links_alone_are_wanted():
    machine = load_topology(MACHINE)
    assert as_executed(machine, True, "mscclpp") is machine
    assert as_executed(machine, False, "msccl").executor is None


def test_where_nothing_is_known_that_is_said():
    with pytest.raises(TopologyError, match="names no model of its GPUs") as caught:
        as_executed(build_topology("switch:8"), True, "msccl")
    assert "--no-executor" in caught.value.hint


def test_a_request_takes_the_defaults_of_the_runtime_that_its_files_are_for():
    requested = {"topology": "dgx-h200", "nodes": 1, "size": "64KB"}
    xml = make_problem("allreduce", **requested).problem.topology.executor
    plan = make_problem("allreduce", target="mscclpp", **requested).problem.topology.executor
    assert (xml.origin.title, plan.origin.title) == ("H200 defaults for msccl", "H200 defaults for mscclpp")
    assert make_problem("allreduce", executor=False, **requested).problem.topology.executor is None


def test_a_report_says_by_which_defaults_and_how_far_they_may_be_off():
    result = taccl.synthesize(
        "allgather",
        topology="dgx-h200",
        nodes=1,
        without="nvswitch",
        size="64KB",
        protocol="LL",
        instances=1,
        thread_blocks="two-way",
        chunks=1,
        engine="greedy",
        effort=500,
    )
    assert "H200 defaults for msccl, +-50% at 64KB" in result.summary()


@pytest.mark.parametrize("wanted", [None, True])
@pytest.mark.parametrize(
    ("collective", "least", "what"),
    [
        ("allgather", "PREDICTIONS_MOST_OUTPUTS", "64 outputs"),
        ("broadcast", "PREDICTIONS_MOST_RANKS", "8 ranks"),
    ],
)
def test_where_files_are_too_large_to_be_predicted_links_alone_count_and_that_is_said(
    collective, least, what, wanted, monkeypatch
):
    monkeypatch.setattr(f"taccl.synthesis.job.{least}", 7)
    request = Request(collective, topology="dgx-a100", nodes=1, size="64KB", executor=wanted)
    job = formulate(request, OutputOptions())
    notes = job.problem(job.configurations[0]).notes
    assert (job.network.topology.executor is None) == (wanted is None)
    assert any(f"links alone: with {what}" in note for note in notes) == (wanted is None)
    assert (job.cut(2).topology.executor is None) == (wanted is None)


def test_where_no_file_can_hold_a_schedule_links_alone_count_and_that_is_said():
    """MSCCL-XML knows no switch that sums."""
    job = formulate(Request("allreduce", topology="dgx-h100", nodes=1, size="1MB"), OutputOptions(file=False))
    assert job.network.topology.executor is None
    assert "links alone: no file for all can be predicted here" in job.inputs.notes


def test_links_alone_stay_so_whatever_the_number_of_chunks_that_is_searched_for():
    """A search states its problem anew for each number, on a machine whose GPUs have defaults."""
    result = taccl.synthesize(
        "allgather", topology="dgx-h200", nodes=1, without="nvswitch", size="64KB", executor=False,
        engine="greedy", effort=500, file=False,
    )  # fmt: skip
    assert result.execution is None
    assert "links alone: no launch, no per-step cost" in result.summary()


def test_a_file_names_the_model_of_its_gpus(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(topology_text(build_topology("dgx-h200", nodes=1)))
    assert load_topology(file).gpu == "H200"


def test_stages_are_those_of_a_search_under_the_costs_that_count():
    """A thread block is slower than the NVSwitch, so ports are faster than what serves their links."""
    requested = {"topology": "dgx-a100", "nodes": 2, "size": "1MB"}

    def reason(executor):
        stages = stages_of(Request("allgather", executor=executor, **requested))
        return next(each.reason for each in stages if each.engine == "gather-cross-scatter")

    assert "faster than their links" in reason(None)
    assert "faster than their links" not in reason(False)

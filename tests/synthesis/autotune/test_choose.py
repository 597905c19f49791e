"""Protocol, instances and thread blocks, chosen by the predicted time of the file."""

import time
from dataclasses import replace
from pathlib import Path

import napkin_executor
import pytest
from toy_target import SPELLED

from taccl import synthesize
from taccl.analysis.simulated import simulate_file
from taccl.backend.targets.registry import find_target
from taccl.errors import CheckError, SolverError, TacclError, TopologyError
from taccl.model.executor import MODEL_ERROR
from taccl.model.schedule import read_schedule
from taccl.synthesis.result import Result
from taccl.synthesis.search import STOP
from taccl.topologies import PhysicalTopology, parse_topology

#: Three GPUs, each joined to each by 40 GB/s. With LL a call starts sooner and a thread block is slower.
MACHINE = (
    """
name: napkin
occupancy: pipelined
gpus: 3
links:
  - {from: gpus, to: gpus, alpha_us: 1, bandwidth_gbps: 40}
"""
    + napkin_executor.SECTION
)
#: Work and no seconds, so that no clock decides what a test sees.
QUICK = {"engine": "greedy", "effort": 1000, "gap": 0.5, "chunks": 1, "file": False}


def machine(**executor: object) -> PhysicalTopology:
    made = parse_topology(MACHINE)
    return replace(made, executor=replace(made.executor, **executor))


def chosen(size: str, topology: PhysicalTopology | None = None, **change: object) -> Result:
    return synthesize("allgather", topology=topology or machine(), size=size, **(QUICK | change))


def test_small_sizes_take_the_protocol_that_starts_soon_and_large_ones_that_which_moves_more():
    assert chosen("3KB").protocol == "LL"
    assert chosen("48MB").protocol == "Simple"


@pytest.mark.parametrize("effort", [100, 300])
def test_a_protocol_that_the_first_look_had_no_time_for_still_has_its_chance(effort: int):
    assert chosen("3KB", effort=effort).protocol == "LL"


def test_one_way_that_there_was_time_for_is_not_called_the_fastest():
    result = chosen("3KB", effort=3)
    (why,) = [note for note in result.notes if "thread blocks: " in note]
    assert "the only one predicted (no time for 39 others)" in why and "fastest" not in why
    assert result.gap == 0.0 and result.status == "finished"  # the schedule has its bound, not the choice


def test_slow_thread_blocks_want_more_of_them():
    few = chosen("48MB", protocol="Simple", thread_blocks="two-way")
    costs = machine().executor.protocols["Simple"]
    slow = machine(protocols={"Simple": replace(costs, block_gbps=5)})
    more = chosen("48MB", topology=slow, thread_blocks="two-way")
    assert more.instances > few.instances > 1


def test_within_the_error_of_the_model_the_fewest_thread_blocks_win():
    result = chosen("48MB")
    fastest = result.files_tried[0]
    assert result.execution.time_us <= fastest.predicted_us * (1 + MODEL_ERROR)
    for tried in result.files_tried:
        if tried.predicted_us is not None and tried.predicted_us <= fastest.predicted_us * (1 + MODEL_ERROR):
            assert tried.blocks_per_gpu >= result.blocks_per_gpu


def test_what_was_tried_is_listed_fastest_first_and_one_is_chosen():
    result = chosen("3KB")
    times = [tried.predicted_us for tried in result.files_tried if tried.predicted_us is not None]
    assert times == sorted(times) and len(times) > 2
    assert [tried.name for tried in result.files_tried if tried.remark == "chosen"] == [
        f"LL x {result.instances}" + (" one-way" if result.thread_blocks == "one-way" else "")
    ]
    for tried in result.files_tried:
        assert tried.predicted_us is None or tried.predicted_us >= tried.lower_bound_us > 0
    (why,) = [note for note in result.notes if "thread blocks: LL x" in note]
    assert "configurations predicted" in why and "thread blocks" in why


def test_what_does_not_fit_is_told_with_its_reason():
    few = machine(thread_blocks=4)
    result = chosen("48MB", topology=few)
    assert result.blocks_per_gpu <= 4
    assert any("a GPU of the machine runs 4 at once" in tried.remark for tried in result.files_tried)


def test_what_is_asked_is_kept_and_the_rest_is_chosen():
    result = chosen("48MB", protocol="LL")
    assert result.protocol == "LL" and result.instances > 1
    assert {tried.protocol for tried in result.files_tried} == {"LL"}
    two = chosen("3KB", instances=2)
    assert (two.protocol, two.instances) == ("LL", 2)
    one_way = chosen("48MB", thread_blocks="one-way")
    assert one_way.thread_blocks == "one-way" and one_way.protocol == "Simple"


def test_where_all_is_asked_there_is_nothing_to_list():
    result = chosen("3KB", protocol="Simple", instances=1, thread_blocks="two-way")
    assert result.files_tried == () and result.protocol == "Simple"
    assert result.execution.time_us >= result.execution.bound.value_us


def test_the_predicted_time_is_that_of_the_file(tmp_path: Path):
    """Also of several instances, and of chunks that are chosen with them; sizes are whole bytes in a file."""
    for size, chunks in (("3KB", "auto"), ("6MB", 2)):
        result = chosen(size, chunks=chunks, file=True)
        (path,) = result.write(tmp_path / "made.xml")
        run = simulate_file(path, [size], topology=machine()).sizes[0]
        assert run.time_us == pytest.approx(result.execution.time_us, rel=1e-4)
        assert run.lower_bound_us == pytest.approx(result.execution.bound.value_us, rel=1e-4)


def test_chunks_are_chosen_with_the_rest():
    line = parse_topology(MACHINE.replace("{from: gpus, to: gpus,", "{pairs: [0-1, 1-2],"))
    requested = {"protocol": "Simple", "instances": 1, "thread_blocks": "two-way"}
    result = synthesize("broadcast", topology=line, size="3MB", **(QUICK | requested | {"chunks": "auto"}))
    assert len(result.chunks_tried) > 1
    taken = [tried.chunks for tried in result.chunks_tried if tried.remark.startswith("chosen")]
    assert taken == [result.collective.chunks_per_rank]


def test_without_an_executor_auto_is_the_usual():
    plain = replace(machine(), executor=None)
    result = chosen("3KB", topology=plain, protocol="auto", instances="auto", thread_blocks="auto")
    assert (result.protocol, result.instances, result.thread_blocks) == ("Simple", 1, "two-way")
    assert result.execution is None and result.files_tried == () and result.machine is None


def test_the_file_is_for_the_protocol_and_instances_that_were_chosen():
    result = chosen("3KB", file=True, target="rccl")
    program = result.files[0].program
    assert program.protocol.value == result.protocol == "LL"
    assert max(len(rank.thread_blocks) for rank in program.ranks) == result.blocks_per_gpu


def test_a_saved_schedule_has_the_links_of_the_machine(tmp_path: Path):
    """In the order that was found, with times and a bound by links alone; the machine's file fits it."""
    result = chosen("3KB")
    result.write_schedule(tmp_path / "s.json")
    saved = read_schedule(tmp_path / "s.json")
    network = saved.schedule.problem.topology
    assert network.alpha_us.tolist() == [1.0] * 6
    assert network.port_names == result.machine.port_names
    assert 0 < saved.lower_bound_us <= saved.schedule.makespan_us < result.time_us
    assert sorted(saved.schedule.link) == sorted(result.schedule.link)
    assert simulate_file(tmp_path / "s.json", topology=machine()).is_executed


@pytest.mark.parametrize("seed", [0, 3])
def test_the_same_seed_and_effort_choose_the_same(seed: int):
    one, other = (chosen("1MB", chunks="auto", effort=1000, seed=seed) for _ in range(2))
    assert one.files_tried == other.files_tried
    assert one.schedule.start_us.tolist() == other.schedule.start_us.tolist()


def test_stopped_at_the_first_news_what_there_is_becomes_a_file():
    result = chosen("3KB", file=True, gap=0.0, on_progress=lambda news: STOP)
    assert result.files and result.execution is not None


def test_a_call_is_back_in_time():
    began = time.monotonic()
    chosen("6MB", effort=None, time_limit=0.7, gap=0.0, chunks="auto", engine="auto")
    assert time.monotonic() - began < 15  # with what numba takes to compile, where nothing is in its cache


def test_a_program_that_fits_nowhere_is_told_with_the_reasons_and_the_schedule_is_kept():
    with pytest.raises(CheckError, match="no way to make the file fits the machine and ends") as caught:
        chosen("3KB", topology=machine(thread_blocks=1), thread_blocks="one-way", file=True)
    assert any("Simple x 1 one-way: rank 0 has" in finding for finding in caught.value.findings)
    assert isinstance(caught.value.kept, Result) and len(caught.value.kept.schedule)


def test_a_schedule_that_needs_fewer_thread_blocks_stands_in_for_one_that_does_not_fit():
    """Direct sends take two thread blocks of each GPU, and a ring one."""
    result = chosen("3KB", topology=machine(thread_blocks=1), file=True)
    assert result.blocks_per_gpu == 1 and result.files


def test_of_what_a_search_passed_through_and_of_textbooks_the_file_decides_also_where_all_is_asked():
    """By links alone sums take no time, so what is best by their costs need not be the best file."""
    slow = machine(reduce_us=50)
    fixed = {"protocol": "LL", "instances": 4, "thread_blocks": "one-way", "effort": 300, "gap": 0.0}
    result = synthesize("allreduce", topology=slow, size="48KB", **(QUICK | fixed))
    assert result.time_us >= result.lower_bound_us
    assert result.execution.time_us < 6 * 50  # its own sums, and not those of each piece after the other
    text = result.summary()
    assert (
        text.index("file time") < text.index("schedule  ") < text.index("links as thread blocks serve them")
    )
    assert "us for files of LL with this chunk count, 4 instances and no more thread blocks" in text


def test_what_one_gpu_does_with_itself_has_no_bandwidth():
    alone = replace(machine(), name="alone")
    one = parse_topology(MACHINE.replace("gpus: 3", "gpus: 1").split("links:")[0] + "links: []\n")
    one = replace(one, executor=alone.executor)
    fixed = {"protocol": "LL", "instances": 1, "thread_blocks": "two-way"}
    text = synthesize("allgather", topology=one, size="3KB", **(QUICK | fixed)).summary()
    assert "1 rank\n" in text and "1 thread block)" in text
    assert "nan" not in text and "inf" not in text and "nothing has to move" in text


def test_a_protocol_that_the_executor_does_not_know_cannot_be_asked_for():
    with pytest.raises(TopologyError, match="the machine's executor says nothing about the protocol LL128"):
        chosen("3KB", protocol="LL128")
    only = machine(protocols={"LL": machine().executor.protocols["LL"]})
    assert chosen("3KB", topology=only).protocol == "LL"
    foreign = replace(find_target("all"), protocols=("Put",))
    with pytest.raises(TopologyError, match="says nothing about the protocols of the target"):
        chosen("3KB", target=foreign)


@pytest.mark.parametrize(
    "wrong", [{"instances": 0}, {"instances": "many"}, {"thread_blocks": "three-way"}, {"protocol": "UDP"}]
)
def test_words_that_mean_nothing_are_refused(wrong: dict):
    with pytest.raises(TacclError, match=r"instances must be|unknown thread_blocks|has no protocol"):
        chosen("3KB", **wrong)


def test_an_engine_that_there_is_not_is_refused_and_no_first_look_stands_in_for_it():
    with pytest.raises(SolverError, match="unknown engine 'psychic'"):
        chosen("3KB", engine="psychic")


def test_files_of_a_target_from_outside_are_predicted_as_they_unfold():
    spelled, usual = (chosen("3KB", target=target) for target in (SPELLED, "rccl"))
    assert spelled.execution is not None and usual.execution is not None
    assert spelled.execution.time_us == usual.execution.time_us
    assert [tried.name for tried in spelled.files_tried] == [tried.name for tried in usual.files_tried]


def test_files_that_have_no_thread_blocks_are_not_predicted():
    opaque = replace(find_target("all"), parse=None, unfold=None)
    result = chosen("3KB", target=opaque)
    assert result.protocol == "Simple" and result.execution is None and result.files_tried == ()


PLAN = {"topology": "full:3", "effort": 400, "target": "mscclpp", "engine": "greedy", "chunks": 1}


def test_plans_are_predicted_by_links_alone_where_a_machine_says_nothing_else() -> None:
    small, large = (synthesize("allgather", size=size, **PLAN) for size in ("768B", "48MB"))
    assert (small.protocol, large.protocol) == ("LL", "Simple")
    assert large.execution is not None and large.execution.bound.value_us <= large.execution.time_us
    assert large.instances == 1 and large.machine is None
    assert {tried.protocol for tried in large.files_tried} == {"LL", "Simple"}
    requested = synthesize("allgather", size="768B", protocol="Simple", **PLAN)
    assert (requested.protocol, requested.files[0].program.protocol) == ("Simple", "Simple")


def test_plans_take_as_many_instances_as_blocks_are_slower_than_links() -> None:
    made = synthesize("allgather", size="48MB", **(PLAN | {"topology": machine()}))
    assert made.instances > 1
    (alone,) = [each for each in made.files_tried if each.name == "Simple x 1"]
    assert made.execution.time_us < alone.predicted_us
    shares = {each.share for each in made.files[0].program.ranks[0].blocks[0].operations if each.share}
    assert {share.parts for share in shares} == {made.instances}


def test_sums_are_pulled_where_that_is_predicted_faster() -> None:
    requested = PLAN | {
        "topology": machine(),
        "instances": 4,
        "thread_blocks": "two-way",
        "protocol": "Simple",
    }
    made = synthesize("reducescatter", size="48MB", **(requested | {"topology": pair()}))
    plan = made.files[0].program
    assert {each.name.value for each in plan.ranks[0].blocks[0].operations} >= {"rre"}


def pair() -> PhysicalTopology:
    return parse_topology(MACHINE.replace("gpus: 3", "gpus: 2"))

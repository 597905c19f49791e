"""Schedules lowered in several forms: what is predicted, and what is left alone."""

from dataclasses import replace
from functools import partial

import numpy as np

from taccl import synthesize
from taccl.api import make_problem
from taccl.backend.target import LoweringOptions
from taccl.backend.targets.registry import find_target
from taccl.errors import ProgramLimitError
from taccl.support.budget import Budget
from taccl.synthesis.autotune.files_tried import FileTried
from taccl.synthesis.autotune.predictions import Predictor, most_connections
from taccl.synthesis.configurations import Configuration, configurations_to_try
from taccl.synthesis.output_options import OutputOptions
from taccl.synthesis.predicted import wires_bound
from taccl.topologies import parse_topology

MACHINE = parse_topology("""
name: pair
gpus: 2
links:
  - {from: gpus, to: gpus, alpha_us: 1, bandwidth_gbps: 40}
executor:
  reduce_us: 1
  reduce_gbps: 100
  thread_blocks: 6
  protocols:
    Simple: {launch_us: 6, hop_us: 0.5, slice_us: 1, block_gbps: 20, piece: 2MB}
    LL: {launch_us: 4, hop_us: 0.5, slice_us: 0.2, block_gbps: 1, piece: 32KB}
""")
TARGET = find_target("all")
MANY = Budget(1e9)


def lowered(schedule, configuration):
    return TARGET.lower(
        schedule,
        LoweringOptions(configuration.protocol, configuration.instances, configuration.thread_blocks),
    )


def predictor(lower=lowered, target=TARGET) -> Predictor:
    network = make_problem("allgather", topology=MACHINE, size="8MB", chunks=1).problem.topology
    return Predictor(network, target, lower)


def schedule(size: str = "8MB"):
    return synthesize(
        "allgather", topology=MACHINE, size=size, chunks=1, engine="greedy", effort=2000, file=False
    ).schedule


configurations = partial(configurations_to_try, MACHINE.executor, TARGET)


def test_all_that_is_open_is_tried_within_the_limits_of_the_target():
    every = configurations(OutputOptions())
    assert {configuration.protocol for configuration in every} == {
        "Simple",
        "LL",
    }  # the executor says nothing about LL128
    assert {configuration.thread_blocks for configuration in every} == {"two-way", "one-way"}
    assert max(configuration.instances for configuration in every) == TARGET.limits.instances
    assert configurations(OutputOptions(protocol="ll", instances=5, thread_blocks="one-way")) == (
        Configuration("LL", 5, "one-way"),
    )


def test_more_instances_are_left_alone_where_fewer_do_not_fit():
    files = predictor()
    files.predict(schedule(), [Configuration("Simple", k) for k in (1, 2, 8, 12)], MANY)
    assert [each.configuration.instances for each in files.predictions] == [1, 2]
    assert files.left_out == {Configuration("Simple", 12)}
    assert "a GPU of the machine runs 6 at once" in files.reasons[Configuration("Simple", 8)]


def test_a_program_too_large_for_one_protocol_is_not_made_for_another():
    made = []

    def too_large(schedule, configuration):
        made.append(configuration)
        raise ProgramLimitError("the program is too large")

    files, too_many = predictor(too_large), [Configuration(name, 8) for name in ("Simple", "LL")]
    files.predict(schedule("4KB"), too_many, MANY)
    assert len(made) == 1
    assert files.reasons[too_many[0]] == files.reasons[too_many[1]]


def test_a_plan_too_large_for_one_protocol_may_fit_another():
    """Plans that pull fit where plans of packets do not."""

    def without_packets(schedule, configuration):
        if configuration.protocol == "LL" and configuration.instances > 1:
            raise ProgramLimitError("the plan is too large")
        return lowered(schedule, configuration)

    files = predictor(without_packets, replace(TARGET, is_one_sided=True))
    files.predict(
        schedule("4KB"), [Configuration(name, k) for name in ("LL", "Simple") for k in (1, 2)], MANY
    )
    assert {each.configuration for each in files.predictions} == {
        Configuration("LL", 1),
        Configuration("Simple", 1),
        Configuration("Simple", 2),
    }
    assert files.reasons[Configuration("LL", 2)] == "the plan is too large"


def test_what_one_schedule_is_too_large_for_may_fit_another_with_fewer_connections():
    files, large = predictor(), schedule()
    files.predict(large, [Configuration("Simple", k) for k in (8, 12)], MANY)
    assert files.may_fit(large) == set()
    small = large.take(np.array([0]))
    assert most_connections(small) < most_connections(large)
    assert files.may_fit(small) == {Configuration("Simple", 8), Configuration("Simple", 12)}


def test_what_would_be_slower_even_so_many_times_as_fast_is_not_lowered():
    files = predictor()
    files.predict(
        schedule(), [Configuration("Simple", 1), Configuration("LL", 1), Configuration("LL", 2)], MANY
    )
    assert [each.configuration for each in files.predictions] == [
        Configuration("Simple", 1),
        Configuration("LL", 1),
    ]
    assert files.reasons[Configuration("LL", 2)].startswith("not tried: ")


def test_of_one_way_the_fastest_schedule_counts():
    files = predictor()
    for each in (schedule("8MB"), schedule("4KB")):
        files.predict(each, [Configuration("Simple", 1)], MANY)
    (best,) = files.by_configuration()
    assert best is min(files.predictions, key=lambda each: each.time_us)
    assert best.time_us >= best.execution.bound.value_us


def test_what_holds_for_any_chunks_is_proved_once_for_a_size_whatever_the_protocol(monkeypatch):
    proved, schedules = [], (schedule("8MB"), schedule("8MB"), schedule("4KB"))

    def counted(problem):
        proved.append(problem.size_bytes)
        return wires_bound(problem)

    monkeypatch.setattr("taccl.synthesis.autotune.predictions.wires_bound", counted)
    files = predictor()
    for each in schedules:
        files.predict(each, [Configuration("Simple", 1), Configuration("LL", 1)], MANY)
    assert len(files.predictions) == 6
    assert proved == [8 * 2**20, 4 * 2**10]


def test_nothing_is_predicted_without_a_budget():
    files = predictor()
    files.predict(schedule(), [Configuration("Simple", 1)], Budget(0.0))
    assert files.predictions == []


def test_protocols_take_turns_so_that_a_short_budget_sees_something_of_each():
    tried = []

    def noted(schedule, configuration):
        tried.append(configuration)
        return lowered(schedule, configuration)

    files = predictor(noted)
    both = [Configuration(name, k) for name in ("LL", "Simple") for k in (1, 2)]
    files.predict(schedule("4KB"), both, MANY)
    assert tried == [
        Configuration("LL", 1),
        Configuration("Simple", 1),
        Configuration("LL", 2),
        Configuration("Simple", 2),
    ]


def test_a_file_that_is_known_is_not_made_again():
    files, once = predictor(), schedule()
    for _ in range(2):
        files.predict(once, [Configuration("Simple", 1), Configuration("Simple", 2)], MANY)
    assert sorted(each.configuration.instances for each in files.predictions) == [1, 2]


def test_protocols_that_a_guess_finds_promising_come_first_with_all_their_instances():
    """LL moves every byte twice, by blocks that are slower as well."""
    files = predictor()
    every = [Configuration(name, k) for name in ("LL", "Simple") for k in (1, 2)]
    files.predict(schedule(), every, MANY)
    first, second = files.predictions[:2]
    assert (first.configuration, second.configuration) == (
        Configuration("Simple", 1),
        Configuration("Simple", 2),
    )


def test_a_row_says_what_it_is_in_a_line():
    made = FileTried("LL", 2, "one-way", 1, 8, 10.0, 5.0, "latency", "chosen")
    assert (made.name, made.line) == (
        "LL x 2 one-way",
        "10.00 us, bound 5.00 us, gap 50.00%, chunks 1, 8 thread blocks: chosen",
    )
    assert FileTried("LL", 4, "two-way", None, None, None, None, None, "too large").line == "too large"


def test_instances_of_a_machine_with_a_switch_that_sums_are_predicted_too():
    plans = find_target("mscclpp")
    found = synthesize(
        *("allreduce",),
        **{"topology": "dgx-h100", "nodes": 1, "size": "64KB", "chunks": 1, "target": "mscclpp"},
        **{"engine": "textbook", "effort": 50, "file": False},
    )
    files = Predictor(
        found.problem.topology,
        plans,
        lambda schedule, each: plans.lower(schedule, LoweringOptions(each.protocol, each.instances)),
    )
    files.predict(found.schedule, [Configuration("Simple", 2)], MANY)
    assert [each.configuration.instances for each in files.predictions] == [2], files.reasons

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies_schedule import machine, schedules
from studies import examples

from taccl.errors import CollectiveError, FileError, ScheduleError, TacclError, TopologyError
from taccl.model.collectives import make_collective
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import (
    Schedule,
    Send,
    read_schedule,
    schedule_from_json,
    schedule_from_sends,
    schedule_to_json,
)
from taccl.testing import assert_same_schedule

RANDOM = settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
DROP = object()


def broadcast() -> Schedule:
    """Rank 0's chunk to rank 1 and on to rank 2; nobody's chunks but rank 0's may use links."""
    may_use = np.array([[True, True], [False, False], [False, False]])
    problem = Problem(
        machine(3, [(0, 1), (1, 2)]),
        make_collective("broadcast", 3),
        chunk_mb=1.0,
        symmetry=(np.arange(3),),
        limits=RoutingLimits(may_use, own_first=np.array([True, False])),
    )
    return schedule_from_sends(problem, [Send((0,), 0, 0.0), Send((0,), 1, 3.0)])


def changed(place: str, value: object) -> str:
    """The file of `broadcast()` with another value at `topology.src[1]` and the like, or none (DROP)."""
    content = json.loads(schedule_to_json(broadcast(), lower_bound_us=6.0, bound_source="latency"))
    *way, last = [int(key) if key.isdigit() else key for key in place.split(".")]
    inner = content
    for key in way:
        inner = inner[key]
    if value is DROP:
        del inner[last]
    else:
        inner[last] = value
    return json.dumps(content)


@RANDOM
@given(schedules(), st.floats(0, 1), st.text(max_size=20))
def test_a_schedule_written_is_read_back(schedule: Schedule, share: float, source: str) -> None:
    bound = share * schedule.makespan_us
    text = schedule_to_json(schedule, lower_bound_us=bound, bound_source=source)
    saved = schedule_from_json(text)
    assert (saved.lower_bound_us, saved.bound_source) == (bound, source)
    assert_same_schedule(saved.schedule, schedule)
    for name in ("chunk", "link", "start_us", "end_us", "reduce", "group"):
        read, written = getattr(saved.schedule, name), getattr(schedule, name)
        assert read.dtype == written.dtype
        assert np.array_equal(read, written)
    assert schedule_to_json(saved.schedule, lower_bound_us=bound, bound_source=source) == text


def test_limits_and_symmetry_are_read_back() -> None:
    problem = schedule_from_json(schedule_to_json(broadcast())).schedule.problem
    assert problem.limits.may_use.tolist() == [[True, True], [False, False], [False, False]]
    assert problem.limits.own_first.tolist() == [True, False]
    assert problem.limits.link_preference is None
    assert [element.tolist() for element in problem.symmetry] == [[0, 1, 2]]


def test_port_betas_are_read_back_and_written_only_where_a_port_is_faster_than_its_link() -> None:
    text = schedule_to_json(broadcast())
    assert "port_betas" not in text
    topology = broadcast().problem.topology
    shared = {"ports": ((0, 2), (1, 2)), "port_names": ("a", "b", "trunk")}
    fast = replace(topology, **shared, port_betas=tuple((float(b), 0.5) for b in topology.beta_us_per_mb))
    schedule = replace(broadcast(), problem=replace(broadcast().problem, topology=fast))
    read = schedule_from_json(schedule_to_json(schedule)).schedule
    assert_same_schedule(read, schedule)
    assert read.problem.topology.port_betas == fast.port_betas
    with pytest.raises(AssertionError, match="the problems differ in topology"):
        slow = replace(fast, port_betas=None)
        assert_same_schedule(read, replace(schedule, problem=replace(schedule.problem, topology=slow)))


def test_a_standard_collective_is_written_by_its_name() -> None:
    content = json.loads(schedule_to_json(broadcast()))
    assert content["collective"] == {"name": "broadcast", "num_ranks": 3, "chunks_per_rank": 1, "root": 0}
    assert (content["format"], content["version"]) == ("taccl-schedule", 2)


def test_every_column_stands_on_one_line() -> None:
    lines = schedule_to_json(broadcast()).splitlines()
    assert '    "end_us": [3.0, 6.0],' in lines
    assert '    "may_use": ["11", "00", "00"],' in lines


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("format", "taccl-sketch", "this is not a schedule"),
        ("format", DROP, "this is not a schedule"),
        ("version", 3, "its version is neither 1 nor 2"),
        ("version", True, "its version is neither 1 nor 2"),
        ("version", "1", "its version is neither 1 nor 2"),
        ("chunk_mb", DROP, "chunk_mb is missing"),
        ("transfers", DROP, "transfers is missing"),
        ("transfers.end_us", DROP, "transfers.end_us is missing"),
        ("topology.ports", DROP, "topology.ports is missing"),
        ("chunk_mbs", 1.0, "unknown key chunk_mbs\n  try: chunk_mb"),
        ("transfers", [], "transfers must be an object, not a list"),
        ("transfers.chunk", 7, "transfers.chunk must be a list, not 7"),
        ("transfers.chunk", [0, 0.5], r"transfers.chunk\[1\] must be a whole number, not 0.5"),
        ("transfers.chunk", [0, True], r"transfers.chunk\[1\] must be a whole number, not true"),
        ("transfers.chunk", [0, 1], r"transfers.chunk\[1\] is 1, which is outside 0 .. 0"),
        ("transfers.link", [0, 2], r"transfers.link\[1\] is 2, which is outside 0 .. 1"),
        ("transfers.link", [0, 10**30], "a value of transfers.link is out of range"),
        ("transfers.link", [0], "transfers.link must have 2 entries, not 1"),
        ("transfers.src", [0, 0], r"transfers.src\[1\] is 0, but its link 1 is 1 -> 2"),
        ("transfers.start_us", [0, "3"], r'transfers.start_us\[1\] must be a number, not "3"'),
        ("transfers.start_us", [0, 10**400], "a value of transfers.start_us is out of range"),
        ("transfers.reduce", [0, 0], r"transfers.reduce\[0\] must be true or false, not 0"),
        ("transfers.group", [0, -1], r"transfers.group\[1\] is -1, which is outside 0"),
        ("lower_bound_us", None, "lower_bound_us must be a number, not null"),
        ("lower_bound_us", -1, "lower_bound_us must not be negative"),
        ("bound_source", 3, "bound_source must be a text, not 3"),
        ("chunk_mb", 0, "chunk_mb must be positive"),
        ("max_group", 0, "max_group must be a whole number from 1"),
        ("symmetry", [[0, 0, 1]], r"symmetry\[0\] is no permutation of the ranks"),
        ("symmetry", [[0, 1]], r"symmetry\[0\] is no permutation of the ranks"),
        ("symmetry", [7], r"symmetry\[0\] must be a list, not 7"),
        ("limits.may_use", ["11", "0"], "limits.may_use must have 3 entries, not 2"),
        ("limits.may_use.2", "0x", r"limits.may_use\[2\] must be 2 characters, each 0 or 1"),
        ("limits.own_first", [True], "limits.own_first must have 2 entries, not 1"),
        ("limits.spread_load", None, "limits.spread_load must be true or false"),
        ("collective.num_ranks", 4, "collective.num_ranks must be 3"),
        ("collective.chunks_per_rank", 0, "collective.chunks_per_rank must be a whole number from 1"),
        ("collective.root", 3, "collective.root must be a whole number from 0 to 2, not 3"),
        ("collective.inputs", {}, "collective.chunks_per_size is missing"),
        ("topology.occupancy", "free", "topology.occupancy must be serial or pipelined"),
        ("topology.alpha_us", [1.0], "topology.alpha_us must have 2 entries"),
        ("topology.port_betas", [[1.0]], "topology.port_betas must have 2 entries, not 1"),
        ("topology.port_betas", [[1.0], 2.0], r"topology.port_betas\[1\] must be a list, not 2.0"),
        ("topology.port_betas", [[1.0], ["x"]], r"topology.port_betas \(joined\)\[1\] must be a number"),
    ],
)
def test_a_file_that_cannot_be_understood_says_why(place: str, value: object, message: str) -> None:
    with pytest.raises(FileError, match=message) as caught:
        schedule_from_json(changed(place, value), "plan.json")
    assert str(caught.value).startswith("plan.json: ")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("place", "value", "error", "message"),
    [
        ("collective.name", "allgatherv", CollectiveError, "unknown collective"),
        ("topology.ports", [[0], [9]], TopologyError, "no port, or one that does not exist"),
        ("topology.dst", [1, 7], TopologyError, "ends at a rank outside 0 .. 2"),
        ("topology.port_betas", [[2.0], [0.5]], TopologyError, "its slowest port has 0.5"),
        ("topology.port_betas", [[2.0], []], TopologyError, "not one for each port of each link"),
    ],
)
def test_what_no_machine_and_no_collective_can_be_is_bad_input(place, value, error, message) -> None:
    with pytest.raises(error, match=message) as caught:
        schedule_from_json(changed(place, value), "plan.json")
    assert (caught.value.path, caught.value.exit_code) == ("plan.json", 2)


@pytest.mark.parametrize(
    ("place", "value", "finding"),
    [
        ("transfers.start_us", [0, 2], "takes 4.000000 us"),
        ("limits.may_use.0", "10", "may not use this link"),
        ("lower_bound_us", 6.1, "it is 6.100000 us, and this valid schedule takes 6.000000 us"),
        ("collective.chunks_per_rank", 2**20, "takes at least 2097152 transfers, not 2"),
    ],
)
def test_a_schedule_that_is_not_valid_fails_its_check(place: str, value: object, finding: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        schedule_from_json(changed(place, value), "plan.json")
    assert (caught.value.path, caught.value.exit_code) == ("plan.json", 4)
    assert any(finding in each for each in caught.value.findings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "plan.json: the file is empty"),
        ("{\n\n", "plan.json:3: this is not JSON"),
        ("[]", "this is not a JSON object"),
        ("7", "this is not a JSON object"),
        ('{"a": NaN}', "NaN is no number"),
        ('{"a": -Infinity}', "-Infinity is no number"),
        ('{"a": 1, "a": 2}', "the key 'a' is given twice"),
        ("[" * 10**6, "lists and objects are nested too deep"),
        ('{"a": ' + "1" * 5000 + "}", "plan.json:1: a number has too many digits"),
        ('{"format": "taccl-schedule", "version": 1, "chunk_mb": 1e999}', "a number is out of range"),
        ('{"format": "taccl-schedule", "version": 1, "chunk_mb": 1}', "lower_bound_us is missing"),
    ],
)
def test_text_that_is_no_schedule_is_bad_input(text: str, message: str) -> None:
    with pytest.raises(FileError, match=message):
        schedule_from_json(text, "plan.json")


def test_a_number_too_large_for_a_float_is_out_of_range() -> None:
    text = changed("chunk_mb", 123456789).replace("123456789", "1e999")
    with pytest.raises(FileError, match="line 1: a number is out of range"):
        schedule_from_json(text)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_a_damaged_file_is_an_error_with_a_meaning_or_still_a_schedule(seed: int) -> None:
    chance = random.Random(seed)
    content = json.loads(schedule_to_json(broadcast(), lower_bound_us=6.0))
    for _ in range(chance.randint(1, 3)):
        inner = content
        while True:
            key = chance.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
            if isinstance(inner[key], dict | list) and inner[key] and chance.random() < 0.8:
                inner = inner[key]
                continue
            inner[key] = chance.choice(
                [None, True, -1, 0, 1, 2, 0.5, 1e300, 2**70, "", "x", [], [0], {}, [[]]]
            )
            break
    try:
        saved = schedule_from_json(json.dumps(content))
    except TacclError:
        return
    saved.schedule.check()


def test_times_that_are_no_numbers_cannot_be_written() -> None:
    schedule = broadcast()
    schedule.end_us[1] = np.nan
    with pytest.raises(ScheduleError, match="a number is not finite"):
        schedule_to_json(schedule)


def test_a_file_is_read_from_its_path(tmp_path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(schedule_to_json(broadcast(), lower_bound_us=6.0, bound_source="latency"))
    saved = read_schedule(path)
    assert_same_schedule(saved.schedule, broadcast())
    assert (saved.lower_bound_us, saved.bound_source) == (6.0, "latency")


def test_a_file_that_is_missing_a_folder_or_no_text_is_bad_input(tmp_path) -> None:
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty.json").write_bytes(b"")
    for name, message in (
        ("none.json", "there is no such file"),
        ("", "this is a directory, not a file"),
        ("bytes.json", "this is not a text file"),
        ("empty.json", "the file is empty"),
        ("\0", "cannot be read"),
    ):
        with pytest.raises(FileError, match=message):
            read_schedule(tmp_path / name)


def test_what_a_problem_does_not_use_is_not_in_its_file() -> None:
    content = json.loads(schedule_to_json(broadcast()))
    assert not {"sizes", "ready_us", "tail_us"} & {*content}
    assert not {"is_helper", "may_sum", "may_copy"} & {*content["topology"]}


def test_sizes_moments_and_helpers_are_read_back() -> None:
    topology = machine(
        3,
        [(0, 2), (2, 1)],
        is_helper=np.arange(3) == 2,
        may_sum=np.arange(3) < 2,
        helper_names=("relay",),
        memory_mb=np.array([np.inf, np.inf, 4.0]),
    )
    problem = Problem(
        topology,
        make_collective("broadcast", 2, 2).with_helpers(1),
        chunk_mb=1.0,
        sizes=[1.0, 2.0],
        ready_us=[0.0, 3.0],
        tail_us=[0.0, 0.5, 0.0, 0.25],
    )
    sends = [Send((0,), 0, 0.0), Send((1,), 0, 3.0), Send((0,), 1, 3.0), Send((1,), 1, 8.0)]
    schedule = schedule_from_sends(problem, sends)
    text = schedule_to_json(schedule)
    read = schedule_from_json(text).schedule
    assert_same_schedule(read, schedule)
    assert read.makespan_us == schedule.makespan_us == 13.25
    assert read.problem.features == {"helpers", "sizes", "ready_times", "tails"}
    assert read.problem.topology.rank_name(2) == "relay (rank 2)"
    assert read.problem.topology.memory_mb.tolist() == [np.inf, np.inf, 4.0]
    assert json.loads(text)["collective"] == {
        "name": "broadcast", "num_ranks": 3, "chunks_per_rank": 2, "root": 0
    }  # fmt: skip
    wrong = text.replace('"sizes": [1.0, 2.0]', '"sizes": [1.0]')
    with pytest.raises(TopologyError, match="sizes must have a number for each chunk: 2, not 1"):
        schedule_from_json(wrong)


def test_domains_are_written_where_there_are_any() -> None:
    plain = broadcast()
    topology = replace(plain.problem.topology, domain_of=np.array([0, 0, 2]))
    schedule = replace(plain, problem=replace(plain.problem, topology=topology))
    text = schedule_to_json(schedule, lower_bound_us=0.0, bound_source="")
    assert schedule_from_json(text).schedule.problem.topology.memory_of.tolist() == [0, 0, 2]
    assert "domain_of" not in json.loads(changed("lower_bound_us", 0.0))["topology"]
    with pytest.raises(TopologyError, match="one entry for each rank"):
        replace(topology, domain_of=np.array([0]))

"""Which call takes which plan, requested of the module that is written, with a runtime that only looks
real."""

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fake_mscclpp import NATIVE, DataType, Request, Runtime, preloaded

from taccl.backend.mscclpp import parse_plan, to_json
from taccl.deployment import emitted
from taccl.deployment.deployment import deploy
from taccl.deployment.emitted import Job, Plan

PLANS = Path(__file__).parents[1] / "data" / "mscclpp"
#: A call in place of 64 KB, and one out of place, both in whole chunks.
IN_PLACE = Request("allreduce", 65536, 2, 2)
APART = replace(IN_PLACE, output_buffer=0x50000)


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    monkeypatch.chdir(tmp_path)
    with preloaded() as each:
        yield each


def plan_file(origin: str, **changes: object) -> Path:
    """A plan of tests/data with other values at its top, in a file of its own."""
    plan = replace(parse_plan((PLANS / f"{origin}.json").read_bytes()), **changes)
    path = Path(f"{plan.name}.json")
    path.write_text(to_json(plan))
    return path


def written(*paths: Path, **requested: object) -> ModuleType:
    """The module for some plans, as Python imports it."""
    path = deploy(paths, **requested).write("deployed_plans.py")
    spec = importlib.util.spec_from_file_location("deployed_plans", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_calls_in_the_window_take_the_plan_and_others_do_not(runtime: Runtime) -> None:
    path = plan_file("napkin-allreduce_2", name="ar", min_bytes=1024, max_bytes=65536)
    written(path).register(rank=0, world_size=2)
    sizes = (992, 1024, 1056, 65536, 65568)
    taken = [runtime.call(replace(APART, message_size=size)) for size in sizes]
    assert taken == [NATIVE, "ar", "ar", "ar", NATIVE]


def test_a_call_that_is_no_multiple_of_whole_chunks_is_left_to_the_runtime(runtime: Runtime) -> None:
    """Its own selection would take the plan, and then refuse to run it."""
    path = plan_file("napkin-allreduce_2", name="ar", min_bytes=1024, max_bytes=65536)
    written(path).register(rank=0, world_size=2)
    assert [runtime.call(replace(APART, message_size=2048 + more)) for more in (0, 2, 16, 32)] == [
        *("ar", NATIVE, NATIVE, "ar")
    ]


def test_calls_in_place_and_out_of_place_take_the_plans_that_are_for_them(runtime: Runtime) -> None:
    """The first is right for both, so where it comes second it is for calls out of place only."""
    both = plan_file("napkin-allreduce_2", name="both", max_bytes=2**20)
    in_place = plan_file("repo-allreduce_packet_2", name="in-place", max_bytes=2**20)
    module = written(in_place, both)
    module.register(rank=0, world_size=2)
    assert {plan.name: plan.in_place for plan in module.PLANS} == {"in-place": (True,), "both": (True, False)}
    assert [runtime.call(each) for each in (IN_PLACE, APART)] == ["in-place", "both"]


def test_a_plan_for_calls_in_place_leaves_others_to_the_runtime(runtime: Runtime) -> None:
    written(plan_file("repo-allreduce_packet_2", name="in-place")).register(rank=0, world_size=2)
    assert [runtime.call(each) for each in (IN_PLACE, APART)] == ["in-place", NATIVE]


def test_an_allgather_counts_its_output(runtime: Runtime) -> None:
    path = plan_file("napkin-allgather_2", name="ag", min_bytes=1024, max_bytes=4096)
    written(path).register(rank=1, world_size=2)
    call = Request("allgather", 0, 2, 2, rank=1, output_buffer=0x90000)
    assert [runtime.call(replace(call, message_size=size)) for size in (496, 512, 2048, 2064)] == [
        *(NATIVE, "ag", "ag", NATIVE)
    ]


def test_a_broadcast_takes_the_plan_of_its_root_only(runtime: Runtime) -> None:
    module = written(plan_file("napkin-relay_3", name="b", max_bytes=2**20), ranks_per_node=1)
    module.register(0, 3, whole_buffers=True)
    call = Request("broadcast", 4096, 3, 1, output_buffer=0x90000)
    hints: list[dict[str, list[int]]] = [{"root": [0]}, {"root": [1]}, {}]
    assert [runtime.call(replace(call, hints=each)) for each in hints] == ["b", NATIVE, NATIVE]


def test_no_rank_decides_by_what_its_own_allocator_did(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ports read buffers from where allocations begin: ranks whose allocators differ would part ways."""
    module = written(plan_file("napkin-relay_3", name="b", max_bytes=2**20), ranks_per_node=1)
    call = Request("broadcast", 4096, 3, 1, output_buffer=0x90000, hints={"root": [0]})
    with pytest.warns(UserWarning, match=r"not taken: b; .*register\(whole_buffers=True\)"):
        assert module.register(0, 3) == {}
    monkeypatch.setattr(module, "allocation_of", lambda pointer: 0x90000)
    assert runtime.call(replace(call, input_buffer=0x90000)) == NATIVE
    module.register(0, 3, whole_buffers=True)
    assert runtime.call(replace(call, input_buffer=0x90000)) == "b"
    with pytest.raises(RuntimeError, match="the input of broadcast begins 256 bytes into its allocation"):
        runtime.call(replace(call, input_buffer=0x90100))


def test_the_driver_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []

    def ask(base: Any, size: Any, pointer: Any) -> int:
        base._obj.value = pointer.value // 2**20 * 2**20
        return 0

    def load(name: str) -> Any:
        looked_up.append(name)
        if name != "libamdhip64.so":
            raise OSError(name)
        return SimpleNamespace(hipMemGetAddressRange=ask)

    monkeypatch.setattr(emitted.ctypes, "CDLL", load)
    emitted.driver.cache_clear()
    assert [emitted.allocation_of(2**30 + shift) for shift in (0, 64)] == [2**30, 2**30]
    assert looked_up == ["libcuda.so.1", "libamdhip64.so"]
    emitted.driver.cache_clear()


def test_other_machines_take_no_plan(runtime: Runtime) -> None:
    written(plan_file("napkin-allreduce_2", name="ar", max_bytes=2**20)).register(0, 2)
    assert runtime.call(APART) == "ar"
    assert runtime.call(replace(APART, n_ranks_per_node=1)) == NATIVE
    assert runtime.call(replace(APART, world_size=4, n_ranks_per_node=4)) == NATIVE
    assert runtime.call(replace(APART, collective="reducescatter")) == NATIVE


def test_types_and_places_that_the_kernels_cannot_take_are_left_to_the_runtime(runtime: Runtime) -> None:
    written(plan_file("napkin-allreduce_2", name="ar", max_bytes=2**20)).register(0, 2)
    dtypes = [runtime.call(replace(APART, dtype=each)) for each in DataType]
    assert dtypes == ["ar", "ar", "ar", NATIVE]
    assert runtime.call(replace(APART, input_buffer=0x10008)) == NATIVE


def test_ranks_of_another_number_load_nothing(runtime: Runtime) -> None:
    """A file read for a rank that it does not have would crash the loader."""
    module = written(plan_file("napkin-relay_3", name="b"), ranks_per_node=3)
    with pytest.warns(UserWarning, match="for 3 ranks, and none of 2"):
        assert module.register(rank=1, world_size=2) == {}
    assert runtime.algorithms == {}
    with pytest.raises(ValueError, match="rank 2 of 2"):
        module.register(rank=2, world_size=2)


@pytest.mark.parametrize("rank", range(8))
@pytest.mark.parametrize("place", range(2))
def test_communicators_on_one_node_take_plans_whoever_is_in_them(
    runtime: Runtime, rank: int, place: int
) -> None:
    """Of eight ranks any two, in any order: each does the part of its place in the communicator."""
    module = written(plan_file("napkin-allreduce_2", name="ar", max_bytes=2**20))
    assert module.register(rank, 8) == {}
    assert [runtime.call(replace(APART, rank=place)) for _ in range(2)] == ["ar", "ar"]
    assert runtime.call(replace(APART, rank=place, n_ranks_per_node=1)) == NATIVE


def test_communicators_over_several_nodes_take_plans_if_they_were_named(runtime: Runtime) -> None:
    """Who sees two members beside it on its node cannot know whether the others do."""
    path = plan_file("napkin-allreduce_2", name="ar", max_bytes=2**20)
    module = written(path, ranks_per_node=1)
    groups = [(0, 2), (3, 1)]
    taken = {}
    for rank in range(4):
        module.register(rank, 4, groups=groups)
        taken[rank] = [
            runtime.call(replace(APART, rank=place, n_ranks_per_node=1)) == "ar" for place in range(2)
        ]
    assert taken == {0: [True, False], 1: [False, True], 2: [False, True], 3: [True, False]}
    with pytest.raises(ValueError, match=r"group \(0, 4\): each of its ranks once, from 0 to 3"):
        module.register(0, 4, groups=[(0, 4)])
    with pytest.warns(UserWarning, match="none of 4"):
        module.register(0, 4)


def test_packets_go_in_communicators_of_unlike_sizes_only_on_request(runtime: Runtime) -> None:
    """The runtime numbers them by the plans that a process has run, whoever was in the call."""
    packets = plan_file("repo-allreduce_packet_2", name="packets", max_bytes=2**20)
    module = written(packets)
    module.register(0, 8)
    assert runtime.call(IN_PLACE) == "packets"
    (plan,) = module.PLANS
    module.PLANS = (plan, plan._replace(name="three", ranks=3, ranks_per_node=3, packets=False))
    with pytest.warns(UserWarning, match=r"not taken: packets; .*register\(packets=True\)"):
        module.register(0, 8)
    assert runtime.call(IN_PLACE) == NATIVE
    module.register(0, 8, packets=True)
    assert runtime.call(IN_PLACE) == "packets"


def test_torchrun_says_which_rank_it_is(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    (registered,) = written(plan_file("napkin-allreduce_2", name="ar")).register().values()
    assert registered.execution_plan.rank == 1
    assert registered.constraint.world_size == 2


def test_a_file_that_was_changed_since_is_not_loaded(runtime: Runtime) -> None:
    path = plan_file("napkin-allreduce_2", name="ar")
    module = written(path)
    path.write_text(path.read_text().replace("nop", "nop "))
    with pytest.raises(RuntimeError, match="not the file that was verified"):
        module.register(rank=0, world_size=2)


def row(name: str, **changes: object) -> Plan:
    plan = Plan(name, "", "", "allreduce", 4, 4, (True,), 1024, 2**20, 64, None, False, False)
    return plan._replace(**changes)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of one window of which one is faster up to 64 KB, and one for calls in place of ReduceScatter."""
    rows = (row("small"), row("large", unit_bytes=32), row("rs", collective="reducescatter"))
    order = {
        ("allreduce", 4): ((65536, ("small", "large")), (2**64 - 1, ("large", "small"))),
        ("reducescatter", 4): ((2**64 - 1, ("rs",)),),
    }
    monkeypatch.setattr(emitted, "PLANS", rows)
    monkeypatch.setattr(emitted, "ORDER", order)


def name_for(request: Request) -> str | None:
    job = Job(0, {plan.name: plan for plan in emitted.PLANS}, ((0, 1, 2, 3),))
    found = emitted.fitting(request, job)
    return None if found is None else found.name


@pytest.mark.usefixtures("plans")
@pytest.mark.parametrize(
    ("size", "name"),
    [
        (1024, "small"),
        (65536, "small"),
        (65600, "large"),
        (2**20, "large"),
        (2048 + 32, "large"),
        (960, None),
    ],
)
def test_of_those_that_fit_the_best_at_that_size_is_taken(size: int, name: str | None) -> None:
    assert name_for(Request("allreduce", size, 4, 4)) == name


@pytest.mark.usefixtures("plans")
def test_every_rank_sees_that_a_reducescatter_is_in_place() -> None:
    """MSCCL++ compares the two pointers, which are equal on rank 0 only."""
    calls = [Request("reducescatter", 4096, 4, 4, rank, 0x10000, 0x10000 + rank * 1024) for rank in range(4)]
    assert [name_for(call) for call in calls] == ["rs"] * 4
    assert {name_for(replace(call, output_buffer=0x90000)) for call in calls} == {None}


@pytest.mark.parametrize("rank", range(3))
def test_an_allgather_is_in_place_where_its_part_of_the_output_is(rank: int) -> None:
    call = Request("allgather", 256, 3, 3, rank, 0x10000 + rank * 256, 0x10000)
    assert emitted.is_in_place(call)
    assert not emitted.is_in_place(replace(call, input_buffer=call.input_buffer + 256))


def test_without_a_driver_nobody_knows_where_allocations_begin() -> None:
    assert emitted.allocation_of(0x10000) is None

from pathlib import Path

import pytest

from taccl.analysis.simulated import simulate_file
from taccl.api import make_problem, synthesize
from taccl.backend.msccl_xml import read_xml
from taccl.backend.mscclpp import to_json
from taccl.backend.simulate import simulate_program
from taccl.backend.verify.msccl_xml import verify_file, verify_program
from taccl.encoding.bounds import Proof, lower_bound
from taccl.errors import CollectiveError, FileError, TopologyError, VerificationError
from taccl.sketch.published import published_files
from tests.backend.plan_examples import multicast_allreduce

COLLECTIVES = (
    "allgather",
    "reducescatter",
    "allreduce",
    "alltoall",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
)
QUICK = {"engine": "greedy", "gap": 0.95, "effort": 2_000}
XML = Path(__file__).parents[1] / "data" / "xml"


#: Each collective on eight GPUs and on two nodes of them, and each sketch with copies and with sums.
_SKETCHES = [path.stem for path in published_files()]
_CORNERS = {("ndv2-n1-sk-1", name) for name in COLLECTIVES} | {("ndv2-sk-1", name) for name in COLLECTIVES}
_CORNERS |= {(sketch, name) for sketch in _SKETCHES for name in ("allgather", "reducescatter")}


@pytest.mark.parametrize(("sketch", "collective"), sorted(_CORNERS))
def test_a_program_takes_as_long_as_its_schedule_says(sketch: str, collective: str) -> None:
    result = synthesize(collective, sketch=sketch, executor=False, **QUICK)
    for file in result.files[:1]:
        done = simulate_program(file.program, result.problem.topology, result.problem.chunk_mb)
        assert done.time_us == pytest.approx(result.time_us, rel=0.02)
        assert done.time_us >= result.lower_bound_us * (1 - 1e-9)


def test_an_xml_at_several_sizes_each_with_its_bound(tmp_path: Path) -> None:
    result = synthesize("allgather", topology="ring:4", size="4MB", **QUICK)
    result.write(tmp_path / "ag.xml")
    simulated = simulate_file(tmp_path / "ag.xml", ["1MB", "4MB", "64MB"], topology="ring:4")
    assert [run.size_bytes for run in simulated.sizes] == [2**20, 2**22, 2**26]
    assert simulated.sizes[1].time_us == pytest.approx(result.time_us)
    for run in simulated.sizes:
        assert 0 < run.lower_bound_us <= run.time_us * (1 + 1e-9)
        assert run.gap == pytest.approx(1 - run.lower_bound_us / run.time_us)
        assert run.busbw_gbps == pytest.approx(0.75 * run.size_bytes / run.time_us / 1e3)
        assert run.schedule_us is None
    assert "no runtime would use it at 1MB, 64MB" in simulated.notes[0]


def test_a_schedules_file_has_its_machine_size_time_and_bound(tmp_path: Path) -> None:
    result = synthesize("allreduce", topology="ring:4", size="4MB", **QUICK)
    result.write_schedule(tmp_path / "s.json")
    (run,) = simulate_file(tmp_path / "s.json").sizes
    assert run.schedule_us == result.time_us
    assert run.time_us == pytest.approx(result.time_us, rel=0.02)
    assert run.lower_bound_us >= result.lower_bound_us
    larger, switch = (
        simulate_file(tmp_path / "s.json", ["8MB"]).sizes[0],
        simulate_file(tmp_path / "s.json", topology="switch:4").sizes[0],
    )
    assert larger.schedule_us is None
    assert larger.time_us > run.time_us
    assert switch.schedule_us is None
    assert switch.simulation.topology.name != run.simulation.topology.name
    with pytest.raises(TopologyError, match="the one in the schedule's file"):
        simulate_file(tmp_path / "s.json", nodes=2)


@pytest.mark.parametrize("collective", ["gather", "scatter", "broadcast", "reduce"])
def test_the_root_of_a_file_is_found(tmp_path: Path, collective: str) -> None:
    result = synthesize(collective, topology="ring-oneway:4", size="4MB", root=3, **QUICK)
    result.write(tmp_path / "c.xml")
    simulated = simulate_file(tmp_path / "c.xml", ["4MB"], topology="ring-oneway:4")
    assert simulated.collective.root == 3
    assert simulated.sizes[0].time_us == pytest.approx(result.time_us)
    assert 0 < simulated.sizes[0].lower_bound_us <= result.lower_bound_us * (1 + 1e-9)


def test_instances_pay_their_alphas(tmp_path: Path) -> None:
    result = synthesize("allgather", topology="ring:4", size="4MB", instances=2, **QUICK)
    result.write(tmp_path / "ag.xml")
    (run,) = simulate_file(tmp_path / "ag.xml", ["4MB"], topology="ring:4").sizes
    assert run.simulation.chunk_mb == 0.5
    assert result.time_us < run.time_us < 1.1 * result.time_us
    assert run.lower_bound_us <= run.time_us


def test_a_custom_collective_needs_its_description(tmp_path: Path) -> None:
    shift = tmp_path / "shift.yaml"
    shift.write_text("collective: shift\nranks: 2\nchunks:\n  - {from: 0, to: 1}\n  - {from: 1, to: 0}\n")
    result = synthesize(shift, topology="ring:2", size="1MB", instances=2, target="msccl", **QUICK)
    result.write(tmp_path / "s.xml")
    with pytest.raises(CollectiveError, match="does not say what size and bound mean"):
        simulate_file(tmp_path / "s.xml", ["1MB"], topology="ring:2")
    (run,) = simulate_file(tmp_path / "s.xml", ["1MB"], topology="ring:2", collective=shift).sizes
    assert result.time_us <= run.time_us
    assert run.lower_bound_us <= result.lower_bound_us * (1 + 1e-9)


@pytest.mark.parametrize("name", [path.name for path in sorted(XML.glob("*.xml"))])
def test_files_of_others_have_times_above_their_bounds_if_they_are_right(name: str) -> None:
    wrong = ("mscclang-pipeline_a100_ring_8.xml", "mscclang-allreduce_pcie_hierarchical_4.xml")
    ranks = read_xml(XML / name).num_ranks
    simulated = simulate_file(XML / name, ["768KB"], topology=f"switch:{ranks}")
    assert simulated.sizes[0].time_us > 0
    assert name in wrong or not simulated.sizes[0].is_too_fast


def test_what_is_wrong_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        simulate_file(tmp_path / "none.xml", ["1MB"], topology="ring:4")
    file = XML / "mscclang-allgather_recursive_doubling_8.xml"
    with pytest.raises(TopologyError, match=r"doubling_8.xml:\d+: rank 0.* no link from 0 to 2"):
        simulate_file(file, ["1MB"], topology="ring:8")
    with pytest.raises(VerificationError, match="the program hangs"):
        simulate_file(file, ["64MB"], topology="switch:8")
    with pytest.raises(CollectiveError, match="7 bytes has not one for each of 8 chunks"):
        simulate_file(file, ["7B"], topology="switch:8")
    assert not verify_program(
        simulate_file(file, ["1MB"], topology="switch:8").program.two_sided
    ).facts.deadlock_whole


def test_a_size_that_the_program_does_not_cut_evenly_is_rounded_down_with_a_note() -> None:
    file = XML / "mscclang-allgather_recursive_doubling_8.xml"
    simulated = simulate_file(file, ["1001B", "1KB"], topology="switch:8")
    assert [run.size_bytes for run in simulated.sizes] == [896, 1024]
    assert [note for note in simulated.notes if "rounded down" in note] == [
        "the size of 1001 bytes is rounded down to 896, as nccl-tests does: 8 equal chunks of 112 bytes"
    ]


def swap(steps: str, more: str = "", chunks: int = 2) -> str:
    """An XML: two ranks exchange their parts of an AllGather, in place; rank 0 runs `steps` and `more`."""
    other = one("s", 0, "1") + one("r", 1, "0")
    return (
        f'<algo name="swap" proto="LL" nchannels="1" nchunksperloop="{chunks}" ngpus="2" coll="allgather" '
        'inplace="1" outofplace="0" minBytes="0" maxBytes="1048576">'
        '<gpu id="0" i_chunks="1" o_chunks="2" s_chunks="0">'
        f'<tb id="0" send="1" recv="1" chan="0">{steps}</tb>{more}</gpu>'
        '<gpu id="1" i_chunks="1" o_chunks="2" s_chunks="0">'
        f'<tb id="0" send="0" recv="0" chan="0">{other}</tb></gpu></algo>'
    )


def one(kind: str, number: int, offset: str, count: str = "1") -> str:
    return (
        f'<step s="{number}" type="{kind}" srcbuf="o" srcoff="{offset}" dstbuf="o" dstoff="{offset}" '
        f'cnt="{count}" depid="-1" deps="-1" hasdep="0"/>'
    )


RIGHT = one("s", 0, "0") + one("r", 1, "1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (swap(one("s", 0, "0", "-1") + one("r", 1, "1")), "cnt is -1"),
        (swap(one("s", 0, "99999999") + one("r", 1, "1")), "srcoff is 99999999"),
        (swap(RIGHT, chunks=2_000_000_000), "nchunksperloop is 2000000000"),
        (swap(RIGHT.replace('hasdep="0"', 'hasdep="3"')), "hasdep is 3"),
        ("<?xml version='1.0'?>" + swap(RIGHT), "XML declaration"),
    ],
)
def test_what_verification_refuses_before_it_executes_anything_has_no_time(
    tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "x.xml"
    file.write_text(text)
    with pytest.raises(VerificationError, match="has no time") as caught:
        simulate_file(file, ["1KB"], topology="ring:2")
    assert words in str(caught.value)
    assert caught.value.exit_code == 4
    assert not verify_file(file, targets=None).ok


def test_a_right_file_has_no_note(tmp_path: Path) -> None:
    file = tmp_path / "x.xml"
    file.write_text(swap(RIGHT))
    assert simulate_file(file, ["1KB"], topology="ring:2").notes == ()


def test_only_what_verification_says_is_missing_is_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a bound that is too high, a right file is not blamed; a wrong one is."""
    right, wrong = tmp_path / "right.xml", tmp_path / "wrong.xml"
    right.write_text(swap(RIGHT))
    high = Proof(1e6, "by hand", "test")
    monkeypatch.setattr("taccl.analysis.simulated.lower_bound", lambda problem: high)
    (said,) = simulate_file(right, ["1KB"], topology="ring:2").notes
    assert "The bound is wrong" in said
    assert "please report it" in said
    unordered = f'<tb id="1" send="-1" recv="-1" chan="0">{one("cpy", 0, "1")}</tb>'
    wrong.write_text(swap(RIGHT, more=unordered))
    assert verify_file(wrong, targets=None).facts.races
    (said,) = simulate_file(wrong, ["1KB"], topology="ring:2").notes
    assert said.endswith("taccl verify says what is missing")
    wrong.write_text(swap(one("s", 0, "1") + one("r", 1, "1")))
    (said,) = simulate_file(wrong, ["1KB"], topology="ring:2").notes
    assert said.endswith("taccl verify says what is missing")
    assert not verify_file(wrong, targets=None).ok


def test_a_file_that_does_not_compute_its_collective_has_no_bound_and_is_refused(tmp_path: Path) -> None:
    """An exchange of halves takes half of the time of the AllReduce that it says it is."""
    wrong = tmp_path / "wrong.xml"
    wrong.write_text(swap(RIGHT).replace("allgather", "allreduce").replace('i_chunks="1"', 'i_chunks="2"'))
    simulated = simulate_file(wrong, ["1MB"], topology="ring:2")
    bound = lower_bound(make_problem("allreduce", topology="ring:2", size="1MB").problem)
    (run,) = simulated.sizes
    assert run.time_us < bound.value_us
    assert (run.lower_bound_us, run.bound_source, run.gap) == (None, None, None)
    with pytest.raises(VerificationError, match="does not compute allreduce") as refused:
        simulated.check()
    assert refused.value.exit_code == 4
    assert list(refused.value.findings) == list(simulated.wrong)


def test_a_plan_that_sums_in_a_switch_stands_beside_no_bound(tmp_path: Path) -> None:
    (tmp_path / "nvls.json").write_text(to_json(multicast_allreduce()))
    simulated = simulate_file(tmp_path / "nvls.json", ["64KB"], topology="full:2")
    assert simulated.sizes[0].lower_bound_us is None
    assert any("in a switch" in note for note in simulated.notes)
    assert "<td>-</td>" in simulated._repr_html_()
    assert simulated.to_dict()["results"][0]["gap"] is None
    simulated.check()


def test_on_a_machine_whose_switch_sums_its_plan_has_a_bound(tmp_path: Path) -> None:
    links = "links: [{from: gpus, to: sw, alpha_us: 0.5, bandwidth_gbps: 100}]"
    helpers = "helpers: [{at: sw, can: [reduce-to-one, copy]}]"
    (tmp_path / "pair.yaml").write_text(f"name: pair\nnode: {{gpus: 2, switches: [sw], {links}, {helpers}}}")
    (tmp_path / "nvls.json").write_text(to_json(multicast_allreduce()))
    simulated = simulate_file(tmp_path / "nvls.json", ["64KB"], topology=tmp_path / "pair.yaml")
    assert 0 < simulated.sizes[0].lower_bound_us <= simulated.sizes[0].time_us
    simulated.check()

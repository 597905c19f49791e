import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Taccl = Callable[..., Result]

#: Two GPUs give each other their part, in place.
SWAP = """\
<algo name="swap" proto="LL" nchannels="1" nchunksperloop="2" ngpus="2" coll="allgather" inplace="1" \
outofplace="0" minBytes="0" maxBytes="1048576">
<gpu id="0" i_chunks="1" o_chunks="2" s_chunks="0">
<tb id="0" send="1" recv="1" chan="0">
<step s="0" type="s" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
<step s="1" type="r" srcbuf="o" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
</tb>
</gpu>
<gpu id="1" i_chunks="1" o_chunks="2" s_chunks="0">
<tb id="0" send="0" recv="0" chan="0">
<step s="0" type="s" srcbuf="o" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
<step s="1" type="r" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
</tb>
</gpu>
</algo>
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A right file, and one whose rank 1 puts rank 0's part over its own."""
    right, wrong = tmp_path / "right.xml", tmp_path / "wrong.xml"
    right.write_text(SWAP)
    head, tail = SWAP.rsplit('dstoff="0"', 1)
    wrong.write_text(f'{head}dstoff="1"{tail}')
    return right, wrong


def test_a_right_file_is_ok(taccl: Taccl, files: tuple[Path, Path]) -> None:
    done = taccl("verify", files[0])
    assert done.exit_code == 0, done.stdout
    assert f"{files[0]}: ok" in done.stdout
    assert "allgather, 2 ranks" in done.stdout


def test_a_wrong_file_exits_4_and_each_finding_has_its_line(taccl: Taccl, files: tuple[Path, Path]) -> None:
    done = taccl("verify", files[1])
    assert done.exit_code == 4
    assert "NOT ok" in done.stdout
    assert "error: " in done.stdout


def test_without_a_target_a_file_is_judged_for_the_runtimes_that_take_it(taccl: Taccl) -> None:
    Path("old.xml").write_text(SWAP.replace(' outofplace="0" minBytes="0"', ""))
    assert taccl("verify", "old.xml").exit_code == 0
    assert taccl("verify", "old.xml", "--target", "msccl").exit_code == 0
    assert taccl("verify", "old.xml", "--target", "executor").exit_code == 4
    assert taccl("verify", "old.xml", "--target", "all").exit_code == 4


def test_a_file_without_an_upper_limit_is_not_for_msccl_and_the_report_says_so(taccl: Taccl) -> None:
    Path("azure.xml").write_text(SWAP.replace('maxBytes="1048576"', 'maxBytes="0"'))
    done = taccl("verify", "azure.xml")
    assert done.exit_code == 0, done.stdout
    assert "msccl loads it, but never selects it, executor yes" in done.stdout
    assert taccl("verify", "azure.xml", "--target", "msccl").exit_code == 4


def test_json_is_one_object_for_all_files(taccl: Taccl, files: tuple[Path, Path]) -> None:
    done = taccl("verify", *files, "--json")
    assert done.exit_code == 4
    result = json.loads(done.stdout)
    assert result["ok"] is False
    assert [(file["path"], file["ok"]) for file in result["files"]] == [
        (str(files[0]), True),
        (str(files[1]), False),
    ]
    assert result["files"][1]["findings"]


def test_a_file_can_be_checked_against_a_collective_of_ones_own(
    taccl: Taccl, files: tuple[Path, Path]
) -> None:
    Path("c.yaml").write_text("collective: swap\nranks: 2\nchunks: [{from: 0, to: 1}, {from: 1, to: 0}]\n")
    custom = Path("custom.xml")
    custom.write_text(SWAP.replace('coll="allgather"', 'coll="custom"'))
    done = taccl("verify", custom, "--collective", "c.yaml")
    assert done.exit_code == 4, "the file leaves the part in the second half of rank 1's output"


def test_a_value_that_means_nothing_is_a_finding_and_exits_4(taccl: Taccl) -> None:
    Path("bad.xml").write_text(SWAP.replace('hasdep="0"', 'hasdep="3"', 1))
    done = taccl("verify", "bad.xml")
    assert done.exit_code == 4
    assert "line 4: rank 0, thread block 0: hasdep is 3; it must be 0 or 1" in done.stdout


def test_a_file_that_is_not_xml_exits_2(taccl: Taccl) -> None:
    Path("x.xml").write_text("hello")
    done = taccl("verify", "x.xml")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: x.xml")


def test_a_missing_file_exits_2(taccl: Taccl) -> None:
    done = taccl("verify", "missing.xml")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: missing.xml")


PLANS = Path(__file__).parents[1] / "data" / "mscclpp"


@pytest.mark.parametrize("name", ["a.json", "a.xml", "a"])
def test_a_plan_is_known_by_its_content(taccl: Taccl, name: str) -> None:
    Path(name).write_bytes((PLANS / "napkin-relay_3.json").read_bytes())
    for words in ((), ("--target", "mscclpp")):
        done = taccl("verify", name, *words)
        assert done.exit_code == 0, done.stdout
        assert f"{name}: ok" in done.stdout
        assert "broadcast, 3 ranks, Simple" in done.stdout or "broadcast (root 0), 3 ranks" in done.stdout
        assert "mscclpp-0.8 yes, mscclpp-0.9 yes, mscclpp-0.10 yes" in done.stdout


def test_a_plan_that_another_target_is_to_take_is_told_as_what_it_is(taccl: Taccl) -> None:
    Path("plan.json").write_text(Path(PLANS / "napkin-allgather_2.json").read_text())
    refused = taccl("verify", "plan.json", "--target", "rccl")
    assert refused.exit_code == 2
    assert "plan.json: is a file for the target 'mscclpp'" in refused.stderr
    assert "try: --target mscclpp" in refused.stderr


def test_a_wrong_plan_exits_4_with_the_line_of_what_is_wrong(taccl: Taccl) -> None:
    text = (PLANS / "napkin-relay_3.json").read_text().replace('{"name": "nop"}', '\n{"name": "nap"}')
    Path("a.json").write_text(text)
    done = taccl("verify", "a.json", "--json")
    assert done.exit_code == 4
    (file,) = json.loads(done.stdout)["files"]
    (error,) = [each for each in file["findings"] if each["severity"] == "error"]
    assert (error["rule"], error["line"], error["refusal"]) == ("unknown-operation", 2, "load")
    assert (error["rank"], error["thread_block"], error["step"]) == (1, 0, 2)
    assert file["facts"]["readers"] == dict.fromkeys(("mscclpp-0.8", "mscclpp-0.9", "mscclpp-0.10"), "no")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"gpus": [\n', "a.json:2: this is not JSON"),
        ("{}", "a.json: is JSON, but no file of any target, and no schedule"),
        *(
            (text, "a.json: is JSON, but no file of any target, and no schedule")
            for text in ("null", "3\n", '"a"')
        ),
        ("[]", "a.json: is JSON, but no file of any target, and no schedule"),
        ('{"gpus": [], "gpus": NaN}', "NaN is no number in JSON"),
    ],
)
def test_what_is_no_plan_exits_2(taccl: Taccl, text: str, said: str) -> None:
    Path("a.json").write_text(text)
    done = taccl("verify", "a.json")
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


def test_a_saved_schedule_is_no_plan(taccl: Taccl) -> None:
    made = ("--topology", "ring:3", "--size", "3MB", "--engine", "greedy", "--gap", "0.5", "-q")
    assert taccl("synthesize", *made, "--schedule", "a.json", "--no-file").exit_code == 0
    refused = taccl("verify", "a.json")
    assert (refused.exit_code, "is a saved schedule" in refused.stderr) == (2, True)


def test_a_standard_collective_by_name_is_no_file_of_a_custom_one(taccl: Taccl) -> None:
    Path("a.xml").write_text(SWAP)
    refused = taccl("verify", "a.xml", "--collective", "AllToAll")
    assert (refused.exit_code, "is a standard collective" in refused.stderr) == (2, True)
    assert "leave --collective out" in refused.stderr


def test_a_table_whose_sizes_share_no_divisor_is_made_and_verified_message_by_message(taccl: Taccl) -> None:
    large = 1_410_000_007  # byte by byte, memory would not hold it
    Path("sizes.csv").write_text(f"0,1001,50003\n{large},0,3\n0,0,0\n")
    Path("other.csv").write_text(f"0,1001,50003\n{large + 1},0,3\n0,0,0\n")
    asked = ("synthesize", "--topology", "ring:3", "--collective", "alltoall", "--sizes", "sizes.csv")
    refused = taccl(*asked)
    assert "--target json" in refused.stderr
    done = taccl(*asked, "--target", "json", "--effort", "20", "-q", "-o", "v.json")
    assert done.exit_code == 0, done.stderr
    assert f"size         {large + 51007}B, in 4 chunks of 3B to {large}B" in done.stdout
    assert f"serves calls of the sizes that were requested, {large + 51007}B in all" in done.stdout
    assert taccl("verify", "v.json", "--collective", "sizes.csv").exit_code == 0
    other = taccl("verify", "v.json", "--collective", "other.csv")
    assert (other.exit_code, "the file has other ranks, chunks or sums" in other.stdout) == (4, True)

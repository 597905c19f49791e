"""Every `--json` is held against its schema, with no key that the schema does not tell."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import click
import pytest
from benchmark_outputs import P2P
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

import taccl as package
from taccl.backend.msccl_xml import to_xml
from taccl.backend.program import Protocol
from taccl.calibration.probe.patterns import PATTERNS
from taccl.cli.main import main
from taccl.errors import TacclError
from taccl.support.schemas import SCHEMA_NAMES, file_name, json_schema

Taccl = Callable[..., Result]

RING = ("--topology", "ring:3", "--size", "3MB")
QUICK = ("--engine", "greedy", "--gap", "0.9", "--time-limit", "10", "-q")
PAIR = "name: pair\ngpus: 2\nlinks:\n  - {pairs: [0-1], alpha_us: 0.5, bandwidth_gbps: 25}\n"
#: The costs of a runtime, of which LL says what is otherwise a default.
EXECUTOR = (
    "executor:\n  reduce_us: 5\n  reduce_gbps: 20\n  protocols:\n"
    "    Simple: {launch_us: 6, hop_us: 0.4, slice_us: 1, block_gbps: 20, piece: 2MB}\n"
    "    LL: {launch_us: 5, hop_us: 0.4, slice_us: 0.2, block_gbps: 3, piece: 16KB, empty_slice_us: 0.1}\n"
)
APART = "name: apart\ngpus: 2\nlinks: []\n"
ALONE = "name: alone\ngpus: 1\nlinks: []\n"
NODES = (
    "name: nodes\nnodes: 2\nnode:\n  gpus: 2\n  nics: 1\n  links:\n"
    "    - {pairs: [0-1, 0-nic0], alpha_us: 0.5, bandwidth_gbps: 25}\n"
    "fabric: {alpha_us: 3, bandwidth_gbps: 25}\n"
)
MEASURED = Path(__file__).parents[1] / "data" / "measurements"
PLANS = Path(__file__).parents[1] / "data" / "mscclpp"
SHIFT = "collective: shift\nranks: 3\nchunks:\n  - {from: 0, to: 1}\n  - {from: 1, to: 2}\n"
PARTS = (
    "collective: parts\nranks: 3\nparts:\n  - {name: one, collective: allgather, size: 3MB}\n"
    "  - {collective: broadcast, members: [0, 2], size: 1MB, after: one, weight: 2}\n"
)
#: Bandwidths of a table over sizes, under the names that scripts around nccl-tests give them.
AS_NCCL_TESTS_SPELLS = {"algbw_GBps", "busbw_GBps"}
#: Of a bundle, what is read of its manifest, and what nccl-tests printed of it.
BUNDLE = {
    **{"schema": "taccl.bundle.manifest/1", "status": "finished", "needs_module": False},
    **{"ranks": 2, "times_of": "files as predicted", "sha256": {"msccl/a.xml": "0"}},
    "files": [
        {
            **{"collective": "allgather", "min_bytes": 1024, "max_bytes": 2047, "kind": "plan"},
            **{"unserved": [], "names": {"msccl/a.xml": "taccl-a-m"}},
            "calls": {"msccl": {"in_place": None, "out_of_place": "msccl/a.xml"}},
            "sizes": [{"size_bytes": 1024, "time_us": 2.0, "error": 0.1}],
        },
        {"collective": "allgather", "min_bytes": 2048, "max_bytes": 4096, "kind": "fallback"}
        | {
            "calls": {},
            "names": {},
            "unserved": [],
            "sizes": [{"size_bytes": 2048, "time_us": None, "error": None}],
        },
    ],
}
RESULTS = (
    "# all_gather_perf\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)\n"
    + "".join(f"{size:12} 256 float none -1 10.00 0.41 0.31 0\n" for size in (1024, 2048, 8192))
)
#: Schemas of commands that print one of several: schema -> command.
OTHERWISE = {
    "topology.cluster": "topology.import",
    "topology.fit.runs": "topology.fit",
    "bound.helpers": "bound",
    "placement": "synthesize",
    "requests": "synthesize",
    "baseline.library": "baseline",
}
DUMP = (
    '<system version="1"><cpu numaid="0"><pci busid="1:0:0.0" class="0x030200">'
    '<gpu dev="0" sm="90"><nvlink target="2:0:0.0" count="4" tclass="0x030200"/></gpu></pci>'
    '<pci busid="2:0:0.0" class="0x030200"><gpu dev="1" sm="90">'
    '<nvlink target="1:0:0.0" count="4" tclass="0x030200"/></gpu></pci></cpu></system>'
)
CARD = (
    '<pci busid="3:0:0.0" class="0x020000"><nic>'
    '<net name="mlx5_0" dev="0" speed="100000" port="1"/></nic></pci>'
)
HINT = (
    '<system version="1"><cpu numaid="0"><pci busid="1:0:0.0" class="0x030200"/>'
    '<pci busid="3:0:0.0" class="0x020000"/></cpu></system>'
)
#: No rank reaches the other half of its node, and one GPU alone sends to other nodes.
CUT_OFF = (
    "topology: dgx2\nnodes: 2\nsize: 32MB\nintranode:\n  strategy: switch\n  switches:\n"
    "    - gpus: [0, 1, 2, 3, 4, 5, 6, 7]\n    - gpus: [8, 9, 10, 11, 12, 13, 14, 15]\n"
    "internode:\n  strategy: relay\n  relay:\n    0: [1]\n"
)

#: Per schema, commands whose outputs differ in what is there and what is null.
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "taccl.synthesize/1": (
        ("synthesize", *RING, *QUICK, "-o", "new.xml", "--schedule", "new.json"),
        ("synthesize", *RING, *QUICK, "--collective", "reducescatter", "-o", "rs.xml"),
        ("synthesize", *RING, *QUICK, "--collective", "broadcast", "--root", "1", "--no-file"),
        ("synthesize", *RING, "--collective", "shift.yaml", "--size", "2MB", *QUICK, "--compare"),
        ("synthesize", "--topology", "alone.yaml", "--size", "1MB", *QUICK, "--no-file"),
        ("synthesize", *RING, "--chunks", "auto", "--gap", "0.2", "--time-limit", "3", "-q", "--no-file"),
        ("synthesize", "--sketch", "ndv2-n1-sk-1", *QUICK[:4], "--effort", "100", "-q", "--no-file"),
        ("synthesize", "--topology", "executed.yaml", "--size", "1MB", *QUICK, "--chunks", "1"),
        ("synthesize", "--topology", "switch:3", *QUICK, "--size", "3KB", "--helpers", "0..1", "--no-file"),
    ),
    "taccl.requests/1": (
        ("synthesize", *RING[:2], "--requests", "parts.yaml", "--effort", "20", "-q", "--schedule", "p.json"),
    ),
    "taccl.explain/1": (
        ("explain", *RING, "--time-limit", "5"),
        ("explain", *RING, "--max-hops", "1"),
        ("explain", "--topology", "executed.yaml", "--size", "1MB", "--time-limit", "5"),
        ("explain", "--topology", "ring:6", "--size", "6MB", "--max-hops", "2"),
        ("explain", "--sketch", "ndv2-sk-1", "--target-time", "500us", "--time-limit", "5"),
        ("explain", "--sketch", "cut-off.yaml"),
    ),
    "taccl.baseline/1": (
        (
            "baseline",
            "nccl",
            "--topology",
            "dgx-h100",
            "--nodes",
            "2",
            "--size",
            "8B,64KB",
            "--time-limit",
            "0.5",
        ),
        ("baseline", "nccl", "--topology", "ring:4", "--gpu", "V100", "--collective", "alltoall"),
        ("baseline", "rccl", "--topology", "mi300x", "--nodes", "1", "--collective", "allgather"),
    ),
    "taccl.baseline.library/1": (
        ("baseline", "all", "--topology", "ring:3", "--size", "3KB"),
        ("baseline", "ring", "--topology", "ring:3", "--size", "3KB,3MB"),
    ),
    "taccl.order/1": (("order", "--topology", "ring:3", "--size", "3MB", "--effort", "50"),),
    "taccl.rank-placements/1": (
        (
            *("rank-placements", "--topology", "switch:4", "--candidates", "offers.txt"),
            *("--job", "transformer:layers=1,hidden=8,seq=8,batch=1,tflops=1"),
        ),
    ),
    "taccl.stall/1": (
        ("stall", "transformer:layers=1,hidden=8,seq=8,batch=1,tflops=1", "--topology", "ring:3"),
    ),
    "taccl.repair/1": (
        ("repair", "ag.json", *RING[:2], "--without", "gpu0->gpu1", "--effort", "50", "-q"),
        ("repair", "ag.json", *RING[:2], "--at", "1", "--effort", "50", "-q", "--schedule", "rest.json"),
    ),
    "taccl.placement/1": (
        ("synthesize", *RING, *QUICK, "--collective", "allreduce", "--target", "placement", "-o", "-"),
    ),
    "taccl.bound.helpers/1": (("bound", "--topology", "switch:4", "--size", "1MB", "--helpers", "0..2"),),
    "taccl.bound/1": (
        ("bound", *RING),
        ("bound", "--topology", "alone.yaml", "--size", "1MB"),
        ("bound", "--topology", "executed.yaml", "--size", "1MB", "--protocol", "LL", "--instances", "2"),
        ("bound", "--sketch", "ndv2-sk-1", "--collective", "reduce", "--root", "3"),
    ),
    "taccl.pareto/1": (
        ("pareto", "--topology", "ring:4", "--size", "4MB", "-q"),
        ("pareto", "--topology", "alone.yaml", "--size", "1MB", "-q"),
        ("pareto", "--topology", "executed.yaml", "--size", "1MB", "-q"),
    ),
    "taccl.explore/1": (
        ("explore", "--topology", "ring:3", "--sizes", "3KB..6KB", "--effort", "200", "-q"),
        ("explore", *RING[:2], "--sizes", "4KB", "--target", "msccl", "--effort", "200", "-q", "--no-cache"),
    ),
    "taccl.cache.list/1": (("cache", "list"),),
    "taccl.bundle/1": (("bundle", *RING[:2], "--sizes", "3KB", "--effort", "200", "-q", "-o", "new-folder"),),
    "taccl.bundle.check/1": (("bundle", "check", "bundle", "results.txt"),),
    "taccl.verify/1": (
        ("verify", "ag.xml"),
        ("verify", "ag.xml", "wrong.xml"),
        ("verify", "ag.xml", "--target", "all"),
        ("verify", "ag.xml", "unlimited.xml", "--target", "msccl"),
    ),
    "taccl.simulate/1": (
        ("simulate", "ag.json"),
        ("simulate", "ag.xml", *RING),
        ("simulate", "ag.xml", "--topology", "ring:3", "--size", "3MB,6MB", "--protocol", "LL"),
    ),
    "taccl.bench/1": (),  # in a job of several processes: tests/torch
    "taccl.testbed/1": (),  # in namespaces of its own: tests/deployment/testbed
    "taccl.lower/1": (
        ("lower", "ag.xml", "--rounds"),
        ("lower", "ag.xml", "--rounds", "--in-place", "--pipelined", *RING),
    ),
    "taccl.run/1": (("run", "ag.xml"), ("run", "wrong.xml"), ("run", "ag.xml", "--no-check", "--in-place")),
    "taccl.convert/1": (("convert", "ag.xml", "-o", "plan.json"),),
    "taccl.deploy/1": (
        ("deploy", "ag2.json", "-o", "plans.py"),
        ("deploy", "relay3.json", "-o", "plans", "--ranks-per-node", "1"),
        ("deploy", "ar2.json", "other2.json", "-o", "plans.py", "--topology", "pair.yaml"),
    ),
    "taccl.topology.list/1": (("topology", "list"),),
    "taccl.topology.show/1": (
        ("topology", "show", "ndv2"),
        ("topology", "show", "pair.yaml"),
        ("topology", "show", "executed.yaml"),
        ("topology", "show", "alone.yaml"),
        ("topology", "show", "dgx-h100", "--nodes", "1"),
    ),
    "taccl.topology.check/1": (
        ("topology", "check", "ring:3", "--size", "1KB,4MB"),
        ("topology", "check", "ring:3", "--size", "1KB", "--failures", "allgather", "--effort", "20"),
        ("topology", "check", "mi250x", "--nodes", "1", "--size", "2,1MB", "--time-limit", "0.5"),
        ("topology", "check", "alone.yaml"),
        ("topology", "check", "apart.yaml"),
    ),
    "taccl.topology.cluster/1": (
        ("topology", "import", "--cluster", "tree.conf"),
        ("topology", "import", "--cluster", "blocks.conf", "--blocks-are-nvlink"),
        ("topology", "import", "--cluster", "ib.txt"),
    ),
    "taccl.topology.fit/1": (
        ("topology", "fit", "latency.txt"),
        ("topology", "fit", "latency.txt", "--between", "nodes", "--topology", "nodes.yaml", "--at", "1MB"),
        ("topology", "fit", "pairs.txt", "--topology", "pair.yaml"),
    ),
    "taccl.topology.import/1": (
        ("topology", "import", "topo.xml"),
        ("topology", "import", "nic.xml", "--cluster", "tree.conf"),
        ("topology", "import", "hint.xml", "--nodes", "2", "--bandwidth", "peak", "--protocol", "LL128"),
    ),
    "taccl.topology.fit.runs/1": (("topology", "fit", "--runs", "runs", "--topology", "pair.yaml"),),
    "taccl.probe/1": (
        ("probe", "--topology", "switch:3"),
        ("probe", "--topology", "ring:4", "--protocol", "LL"),
    ),
    "taccl.sketch.list/1": (("sketch", "list"),),
    "taccl.sketch.check/1": (("sketch", "check", "ndv2-sk-1"), ("sketch", "check", "cut-off.yaml")),
}


def closed(schema: Any) -> Any:
    """The same schema, for objects without any other key."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    if schema.get("type") == "object" or schema.get("type") == ["object", "null"]:
        inner.setdefault("additionalProperties", False)
    return inner


def properties(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key of every object in a schema, with what is said of it."""
    if isinstance(schema, list):
        for each in schema:
            yield from properties(each)
    elif isinstance(schema, dict):
        yield from schema.get("properties", {}).items()
        for value in schema.values():
            yield from properties(value)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with machines, a sketch, a file that is right and one that is wrong."""
    folder = tmp_path_factory.mktemp("inputs")
    machines = (
        ("pair", PAIR),
        ("executed", PAIR + EXECUTOR),
        ("alone", ALONE),
        ("apart", APART),
        ("nodes", NODES),
    )
    for name, text in (*machines, ("shift", SHIFT), ("parts", PARTS), ("cut-off", CUT_OFF)):
        (folder / f"{name}.yaml").write_text(text)
    (folder / "tree.conf").write_text(
        "SwitchName=a Switches=b,c\nSwitchName=b Nodes=n1\nSwitchName=c Nodes=n2\n"
    )
    (folder / "offers.txt").write_text("gpu[0-1]\ngpu[2-3]\n")
    (folder / "blocks.conf").write_text("BlockName=b Nodes=n[1-2]\n")
    (folder / "ib.txt").write_text("CA 1 1 0xb1 4x EDR - SW 2 1 0xa1 ( 'n1 HCA-1' - 'leaf' )\n")
    shutil.copy(MEASURED / "osu-latency.txt", folder / "latency.txt")
    (folder / "pairs.txt").write_text(P2P)
    (folder / "topo.xml").write_text(DUMP)
    (folder / "hint.xml").write_text(HINT)
    (folder / "nic.xml").write_text(DUMP.replace("</cpu>", f"{CARD}</cpu>"))
    outputs = ("-o", str(folder / "ag.xml"), "--schedule", str(folder / "ag.json"))
    made = CliRunner().invoke(main, ["synthesize", *RING, *QUICK, *outputs])
    assert made.exit_code == 0, made.stderr
    text = (folder / "ag.xml").read_text()
    (folder / "wrong.xml").write_text(re.sub(r'dstoff="1"', 'dstoff="0"', text))
    for name, plan in (("ag2", "allgather_2"), ("relay3", "relay_3"), ("ar2", "allreduce_2")):
        shutil.copy(PLANS / f"napkin-{plan}.json", folder / f"{name}.json")
    shutil.copy(PLANS / "repo-allreduce_packet_2.json", folder / "packets2.json")
    (folder / "other2.json").write_text((folder / "ar2.json").read_text().replace('"ar2"', '"other2"'))
    (folder / "runs").mkdir()
    program = PATTERNS[0].build(range(2), Protocol.LL, 1)
    (folder / "runs" / "a.xml").write_text(to_xml(program))
    rows = [f"a.xml,{2**k},{5 + 2**k / 2e4}" for k in range(10, 24)]
    (folder / "runs" / "times.csv").write_text("\n".join(["file,size_bytes,time_us", *rows]))
    (folder / "bundle").mkdir()
    (folder / "bundle" / "manifest.json").write_text(json.dumps(BUNDLE))
    (folder / "results.txt").write_text(RESULTS)
    (folder / "unlimited.xml").write_text(re.sub(r'maxBytes="\d+"', 'maxBytes="0"', text))
    return folder


@pytest.fixture
def inputs(taccl: Taccl, filled: Path) -> Taccl:
    """The commands, in a folder with these files."""
    shutil.copytree(filled, ".", dirs_exist_ok=True)
    return taccl


@pytest.mark.parametrize(
    ("name", "command"),
    [(name, command) for name, commands in COMMANDS.items() for command in commands],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_an_output_is_what_its_schema_says(inputs: Taccl, name: str, command: tuple[str, ...]) -> None:
    done = inputs(*command, *(() if command[-1] == "-" else ("--json",)))
    assert done.stdout, done.stderr
    shown = json.loads(done.stdout)
    assert next(iter(shown)) == "schema"
    assert shown["schema"] == name
    Draft202012Validator(closed(json_schema(name))).validate(shown)


def test_every_command_that_has_json_has_a_schema() -> None:
    assert sorted(COMMANDS) == sorted(SCHEMA_NAMES)
    named = {name.removeprefix("taccl.").removesuffix("/1") for name in SCHEMA_NAMES}
    named = {OTHERWISE.get(name, name) for name in named}
    assert {".".join(words) for words in _commands_with_json(main, ())} == named


def _commands_with_json(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            yield from _commands_with_json(inner, (*words, name))
    if any("--json" in option.opts for option in command.params):
        yield words


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_a_schema_is_one_and_says_its_name(name: str) -> None:
    document = json_schema(name)
    Draft202012Validator.check_schema(document)
    assert document["title"] == document["properties"]["schema"]["const"] == name
    assert all(said.get("description") for _, said in properties(document))


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_units_have_one_spelling(name: str) -> None:
    """A number that is no count, index or fraction ends in its unit, or stands next to the name that does."""
    fractions = {
        "stall",
        "network_stall",
        "stall_bound",
        "of_best",
        "hours_lost",
        "score",
        "cost_of_epoch",
        "batch",
        "gap",
        "oversubscription",
        "least_ratio",
        "most_ratio",
        "worst_miss",
        "median_miss",
        "error",
        "median_error",
        "ninth_decile_error",
        "worst_error",
        "speedup",
        "scale",
        "tolerance",
        "ratio",
    }
    counted = {*fractions, "kept", "beta_us_per_mb", "value", "weight"}
    if name in ("taccl.topology.fit/1", "taccl.topology.fit.runs/1"):
        counted |= {"low", "high", "before", "after", "base"}
    if name == "taccl.rank-placements/1":
        counted |= {"mean", "deviation", "rack_wait", "any_wait"}  # leases
    for key, said in properties(json_schema(name)):
        if said.get("deprecated"):
            continue
        if key in AS_NCCL_TESTS_SPELLS:
            continue
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", key), key
        kinds = said.get("type")
        if "number" in (kinds if isinstance(kinds, list) else [kinds]) and key not in counted:
            assert re.search(r"_(us|mb|gbps|bytes|s)$", key), key


def test_schemas_lie_in_the_package_and_no_others() -> None:
    folder = Path(package.__file__).parent / "support" / "schemas"
    assert {path.name for path in folder.glob("*.json")} == {file_name(name) for name in SCHEMA_NAMES}
    configured = (Path(package.__file__).parents[1] / "setup.cfg").read_text()
    assert "taccl.support.schemas = *.json" in configured


def test_a_schema_that_is_asked_for_is_the_callers_to_change() -> None:
    before = deepcopy(json_schema("taccl.bound/1"))
    json_schema("taccl.bound/1").clear()
    assert json_schema("taccl.bound/1") == before


@pytest.mark.parametrize("name", ["taccl.bound/9", "bound", "../bound/1", ""])
def test_an_unknown_schema_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(TacclError, match=r"there is no schema") as caught:
        json_schema(name)
    assert "taccl.bound/1" in str(caught.value.hint)


def test_what_is_wrong_or_cannot_be_has_the_same_keys(inputs: Taccl) -> None:
    """The inputs above do make findings, conflicts and reasons, so that their schemas are put to the test."""
    assert json.loads(inputs("verify", "wrong.xml", "--json").stdout)["files"][0]["findings"]
    assert json.loads(inputs("run", "wrong.xml", "--json").stdout)["runs"][0]["verdict"] == "wrong"
    explained = json.loads(inputs("explain", "--sketch", "cut-off.yaml", "--json").stdout)
    assert explained["conflicts"][0]["lines"]
    assert explained["helps"]
    checked = json.loads(inputs("sketch", "check", "cut-off.yaml", "--json").stdout)
    assert all(each["reason"] for each in checked["collectives"])

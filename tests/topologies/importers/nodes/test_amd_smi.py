"""`amd-smi topology` and `amd-smi xgmi`: text, JSON of old and new versions, and CSV say the same."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutilations import dump_text, linked, mutilated, reported

from taccl.errors import TopologyError
from taccl.topologies.importers.nodes.facts import Nearness
from taccl.topologies.importers.nodes.formats import amd_smi
from taccl.topologies.importers.nodes.machine import make_machine
from taccl.topologies.importers.nodes.merge import merge
from taccl.topologies.importers.nodes.registry import format_of, parse_dump

BUSIDS = ["0000:0c:00.0", "0000:22:00.0", "0001:0c:00.0"]
#: 0 and 1 have two links, 1 and 2 one; 0 and 2 reach each other over 1.
TYPES = [["SELF", "XGMI", "XGMI"], ["XGMI", "SELF", "XGMI"], ["XGMI", "XGMI", "SELF"]]
WEIGHTS = [[0, 15, 30], [15, 0, 15], [30, 15, 0]]
HOPS = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
BANDWIDTHS = [
    ["N/A", "50000-100000", "0-0"],
    ["50000-100000", "N/A", "50000-50000"],
    ["0-0", "50000-50000", "N/A"],
]
ACCESS = [["ENABLED"] * 3] * 3
LINKS = {(0, 1): (2, 50.0), (1, 2): (1, 50.0)}


def table(title, rows, names=BUSIDS):
    lines = [f"{title} TABLE:", " " * 13 + "".join(f"{name:13}" for name in names)]
    lines += [
        f"{name:13}" + "".join(f"{cell!s:13}" for cell in row) for name, row in zip(names, rows, strict=True)
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


TEXT = (
    table("ACCESS", ACCESS)
    + table("WEIGHT", WEIGHTS)
    + table("HOPS", HOPS)
    + table("LINK TYPE", TYPES)
    + table("NUMA BW", BANDWIDTHS)
    + table("CACHE COHERANCY", [["SELF", "NC", "NC"]] * 3)
    + "\n\nLegend:\n  SELF = Current GPU\n  <BW from>-<BW to>\n"
)


def new_json(order=(0, 1, 2), keys=("weight", "link_status", "link_type", "num_hops", "bandwidth")):
    rows = dict(
        zip(
            ("weight", "link_status", "link_type", "num_hops", "bandwidth"),
            (WEIGHTS, ACCESS, TYPES, HOPS, BANDWIDTHS),
            strict=True,
        )
    )
    return [
        {
            "gpu": a,
            "bdf": BUSIDS[a],
            "links": [{"gpu": b, "bdf": BUSIDS[b], **{key: rows[key][a][b] for key in keys}} for b in order],
        }
        for a in order
    ]


def old_json():
    tables = {
        "link_accessibility": ACCESS,
        "weight": WEIGHTS,
        "hops": HOPS,
        "link_type": TYPES,
        "numa_bandwidth": BANDWIDTHS,
    }
    return [
        {"gpu": a, **{key: {f"gpu_{b}": rows[a][b] for b in range(3)} for key, rows in tables.items()}}
        for a in range(3)
    ]


def as_csv():
    flat = [
        {"gpu": str(entry["gpu"])}
        | {f"{key}_{gpu}": cell for key, row in entry.items() if key != "gpu" for gpu, cell in row.items()}
        for entry in old_json()
    ]
    return (
        "\n".join([",".join(flat[0]), *(",".join(str(cell) for cell in row.values()) for row in flat)]) + "\n"
    )


XGMI = """\
LINK METRIC TABLE:
       bdf          bit_rate max_bandwidth link_type 0000:0c:00.0 0000:22:00.0 0001:0c:00.0
GPU0   0000:0c:00.0 32 Gb/s  512 Gb/s      XGMI
 Read                                                N/A          2 KB         N/A
 Write                                               N/A          1.123 PB     N/A
GPU1   0000:22:00.0 32 Gb/s  512 Gb/s      XGMI
 Read                                                0 KB         N/A          1 KB
 Write                                               0 KB         N/A          1 KB
GPU2   0001:0c:00.0 32 Gb/s  512 Gb/s      XGMI
 Read                                                N/A          0 KB         N/A
 Write                                               N/A          0 KB         N/A
"""


def pairs(dump):
    return {(link.a, link.b): (link.count, link.gbps) for link in dump.links}


@pytest.mark.parametrize(
    ("name", "gpus", "links"),
    [
        ("topology-2gpu-pcie-new-format-subset.json", ["0000:08:00.0", "0000:44:00.0"], {}),
        ("topology-2gpu-pcie-old-format.json", [None, None], {}),
        (
            "topology-8gpu-text.txt",
            [f"0000:{bus}:00.0" for bus in ("0c", "22", "38", "5c", "9f", "af", "bf", "df")],
            {(a, b): (1, 50.0) for a in range(8) for b in range(a + 1, 8)},
        ),
    ],
)
def test_real_dumps_agree_with_their_verdicts(name, gpus, links):
    text, path = dump_text(f"amd-smi/{name}")
    assert format_of(text).name == "amd-smi"
    dump = amd_smi.read(text, path)
    assert [gpu.busid for gpu in dump.gpus] == gpus
    assert pairs(dump) == links
    assert (dump.has_switch, dump.nics) == (False, None)


def test_disabled_access_is_told_and_a_weight_of_40_is_one_host_bridge():
    text, path = dump_text("amd-smi/topology-2gpu-pcie-old-format.json")
    dump = amd_smi.read(text, path)
    assert dump.gpu_nearness[0][1] is Nearness.PHB
    assert any("access disabled): GPU0 and GPU1" in warning for warning in dump.warnings)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        json.dumps(new_json(), indent=4),
        json.dumps(new_json((2, 0, 1))),
        json.dumps({"topology": new_json()}),
        "WARNING: User is missing the following required groups: render\n" + json.dumps(new_json(), indent=4),
        json.dumps(old_json(), indent=4),
        as_csv(),
    ],
    ids=["text", "new", "out of order", "wrapped", "after a warning", "old", "csv"],
)
def test_every_output_says_the_same(text):
    assert format_of(text).name == "amd-smi"
    dump = amd_smi.read(text, "x")
    assert pairs(dump) == LINKS
    assert [gpu.dev for gpu in dump.gpus] == [0, 1, 2]
    assert {gpu.busid for gpu in dump.gpus} in ({None}, {*BUSIDS})


def test_a_place_of_json_is_the_line_of_the_object():
    dump = amd_smi.read(json.dumps(new_json(), indent=1), "x")
    lines = json.dumps(new_json(), indent=1).split("\n")
    assert lines[dump.links[0].place.line - 1].strip() == "{"
    assert '"gpu": 1' in lines[dump.links[0].place.line]


def test_only_the_chosen_fields_may_be_there():
    dump = amd_smi.read(json.dumps(new_json(keys=("weight", "link_type"))), None)
    assert pairs(dump) == dict.fromkeys(LINKS, (None, None))


def test_bandwidths_that_are_all_0_and_weights_that_are_all_0_leave_the_hops():
    zeros = [[0] * 3] * 3
    none = [["N/A" if a == b else "0-0" for b in range(3)] for a in range(3)]
    text = table("WEIGHT", zeros) + table("HOPS", HOPS) + table("LINK TYPE", TYPES) + table("NUMA BW", none)
    dump = amd_smi.read(text, None)
    assert pairs(dump) == dict.fromkeys([(0, 1), (0, 2), (1, 2)], (None, None))
    assert any("a driver can say 1 hop" in warning for warning in dump.warnings)


def test_xgmi_tells_neighbours_and_the_rate_of_a_link():
    assert format_of(XGMI).name == "amd-smi"
    dump = amd_smi.read(XGMI, None)
    assert pairs(dump) == {(0, 1): (None, 64.0), (1, 2): (None, 64.0)}
    assert [gpu.busid for gpu in dump.gpus] == BUSIDS


def test_xgmi_of_short_bus_ids_and_of_gpus_without_links():
    text = XGMI.replace("0000:", "").replace("512", "4294967295").replace("32 ", "65535 ")
    dump = amd_smi.read(text, None)
    assert {link.gbps for link in dump.links} == {None}
    assert dump.gpus[1].busid == "0000:22:00.0"


def test_a_link_that_is_down_is_left_out():
    status = (
        "\nXGMI LINK STATUS:\n       bdf           GPU0  GPU1  GPU2\nGPU0   0000:0c:00.0  SELF  D     U\n"
    )
    dump = amd_smi.read(XGMI + status, "x")
    assert [*pairs(dump)] == [(1, 2)]
    assert any("x:15: the link of GPU0 and GPU1 is down" in warning for warning in dump.warnings)


def test_xgmi_as_json_says_the_same():
    linked_to = {0: (1,), 1: (0, 2), 2: (1,)}
    entries = [
        {
            "gpu": a,
            "bdf": BUSIDS[a],
            "link_metrics": {
                "bit_rate": {"value": 32, "unit": "Gb/s"},
                "max_bandwidth": {"value": 512, "unit": "Gb/s"},
                "link_type": "XGMI",
                "links": [
                    {
                        "gpu": b,
                        "bdf": BUSIDS[b],
                        "read": {"value": 1, "unit": "KB"} if b in linked_to[a] else "N/A",
                    }
                    for b in range(3)
                ],
            },
        }
        for a in range(3)
    ]
    text = json.dumps({"xgmi_metric": [entries], "link_status": []})
    assert format_of(text).name == "amd-smi"
    assert pairs(amd_smi.read(text, None)) == pairs(amd_smi.read(XGMI, None))


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (TEXT.replace("15           0", "15"), 9, "has 2 cells for 3 columns"),
        (
            TEXT.replace("XGMI         SELF", "XGNI         SELF"),
            19,
            "'XGNI' is nothing that a table of link types",
        ),
        (
            TEXT[: TEXT.index("LINK TYPE")] + table("LINK TYPE", TYPES, ["0000:01:00.0", *BUSIDS[1:]]),
            16,
            "other GPUs",
        ),
        (json.dumps(new_json(), indent=1)[:-9], 98, "not JSON"),
        (
            json.dumps(new_json()).replace('"gpu": 2, "bdf": "0001:0c:00.0", "links"', '"gpu": 7, "links"'),
            1,
            "GPU 2 is named",
        ),
        (json.dumps(new_json()).replace('"gpu": 1, "bdf"', '"gpu": "one", "bdf"'), 1, "'one' is no index"),
        (
            json.dumps(new_json()).replace('"gpu": 1, "bdf": "0000:22', '"gpu": 1, "bdf": "0000:0c', 1),
            1,
            "GPU 1 is 0000:0c:00.0 here, and 0000:22:00.0 in its own entry",
        ),
        (as_csv().replace("1,ENABLED,", "1,", 1), 3, "cells for 16 columns"),
        (XGMI.replace("N/A          2 KB         N/A", "N/A          2 KB"), 4, "2 for 3 columns"),
        (XGMI[: XGMI.index("GPU2")], 1, "3 columns and 2 GPUs"),
        (
            XGMI.replace("GPU1   0000:22:00.0", "GPU1   0001:0c:00.0"),
            6,
            "column at its place is 0000:22:00.0's",
        ),
        ('[{"gpu": 0, "link_type": 1}]', 1, "no table"),
        ("CACHE COHERANCY TABLE:\n", 1, "no JSON"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_line(text, line, said):
    with pytest.raises(TopologyError, match=said) as refused:
        amd_smi.read(text, "x.txt")
    assert (refused.value.path, refused.value.line) == ("x.txt", line)


TRUE = {frozenset(BUSIDS[:2]), frozenset(BUSIDS[1:])}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutilated(TEXT) | mutilated(json.dumps(new_json(), indent=2)) | mutilated(XGMI))
def test_no_accident_makes_a_link_between_gpus_that_are_told_apart(text):
    dump = reported(amd_smi.read, text)
    if dump is not None and {gpu.busid for gpu in dump.gpus} <= {*BUSIDS}:
        assert linked(dump) <= TRUE


@settings(deadline=None)
@given(st.text(st.sampled_from('[]{}":,gpu_01linkstyeXGMI \n')) | st.text())
def test_any_text_at_all_is_read_or_refused(text):
    for whole in (text, TEXT + text, as_csv() + text, XGMI + text, '[{"gpu": 0, "links": ' + text):
        reported(amd_smi.read, whole)


@pytest.mark.parametrize("apart", [True, False], ids=["two files", "one file"])
@pytest.mark.parametrize("topology_first", [True, False])
def test_topology_tells_how_many_links_and_xgmi_agrees_with_which(apart, topology_first):
    texts = (TEXT, XGMI) if topology_first else (XGMI, TEXT)
    if apart:
        dump = merge([parse_dump(text, f"{at}.txt") for at, text in enumerate(texts)])
    else:
        dump = parse_dump("\n".join(texts), "x.txt")
    assert {(link.a, link.b): (link.count, link.gbps, link.is_raw) for link in dump.links} == {
        (0, 1): (2, 50.0, False),
        (1, 2): (1, 50.0, False),
    }
    assert [gpu.busid for gpu in dump.gpus] == BUSIDS
    assert dump.peer_access is not None
    assert not dump.warnings


def test_topology_without_bandwidths_has_the_rate_of_xgmi():
    """Until ROCm 6.1 some boards have N/A there: links are known, and how many is not."""
    dump = merge([parse_dump(TEXT.split("NUMA BW")[0], "t.txt"), parse_dump(XGMI, "x.txt")])
    assert [(link.a, link.b, link.count, link.gbps) for link in dump.links] == [
        (0, 1, None, 64.0),
        (1, 2, None, 64.0),
    ]
    assert any("does not tell how many links" in warning for warning in dump.warnings)


@pytest.mark.parametrize("apart", [True, False], ids=["two files", "one file"])
def test_xgmi_without_a_link_that_topology_has_is_a_contradiction_with_both_lines(apart):
    """GPU 0 counts no traffic to GPU 1."""
    unlinked = (
        XGMI.replace("N/A          2 KB         N/A", "N/A          N/A          N/A")
        .replace("N/A          1.123 PB     N/A", "N/A          N/A          N/A")
        .replace("0 KB         N/A          1 KB", "N/A          N/A          1 KB")
    )
    with pytest.raises(TopologyError, match=r"are 2 links, but \S+:\d+ says: there are none"):
        if apart:
            merge([parse_dump(TEXT, "t.txt"), parse_dump(unlinked, "x.txt")])
        else:
            parse_dump(TEXT + "\n" + unlinked, "x.txt")


def test_xgmi_of_the_real_topology_of_eight():
    """The node of amdsmi's own change log, with what `amd-smi xgmi` prints of such a node."""
    text, _ = dump_text("amd-smi/topology-8gpu-text.txt")
    names = text.splitlines()[1].split()
    rows = ["LINK METRIC TABLE:", "  bdf  bit_rate max_bandwidth link_type " + " ".join(names)]
    for gpu, name in enumerate(names):
        rows.append(f"GPU{gpu} {name} 32 Gb/s 512 Gb/s XGMI")
        counters = " ".join("N/A" if other == gpu else "1.5 GB" for other in range(8))
        rows += [f" Read {counters}", f" Write {counters}"]
    for dumps in ([text, "\n".join(rows)], [text + "\n" + "\n".join(rows)]):
        dump = merge([parse_dump(each, "x.txt") for each in dumps])
        assert make_machine(dump).gpu_gbps == (350.0,) * 8
        assert len(dump.links) == 28


def test_what_the_driver_reports_of_a_link_is_the_vendors_figure_where_the_model_is_named():
    text = TEXT.replace("50000-100000", "64000-128000").replace("50000-50000", "64000-64000")
    assert make_machine(parse_dump(text)).gpu_gbps[1] == 3 * 64
    assert make_machine(parse_dump(text), gpu="MI300X").gpu_gbps[1] == 3 * 48
    assert make_machine(parse_dump("One of our MI300X:\n" + text)).gpu_gbps[1] == 3 * 48
    assert make_machine(parse_dump(text), gpu="MI300X", bandwidth="peak").gpu_gbps[1] == 3 * 64

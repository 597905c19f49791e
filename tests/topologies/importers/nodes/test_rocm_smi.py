"""`rocm-smi --showtopo`: weights tell links, types alone do not, and damage is reported with its line."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutilations import dump_text, linked, mutilated, reported

from taccl.errors import TopologyError
from taccl.topologies.importers.nodes.facts import Nearness
from taccl.topologies.importers.nodes.formats import rocm_smi
from taccl.topologies.importers.nodes.registry import format_of

#: Two MI250X of a node: packages {0, 1} and {2, 3}; 0 and 3 reach each other only through others.
WEIGHTS = [[0, 15, 15, 30], [15, 0, 30, 15], [15, 30, 0, 15], [30, 15, 15, 0]]
BANDWIDTHS = [
    ["N/A", "50000-200000", "50000-50000", "0-0"],
    ["50000-200000", "N/A", "0-0", "50000-50000"],
    ["50000-50000", "0-0", "N/A", "50000-200000"],
    ["0-0", "50000-50000", "50000-200000", "N/A"],
]


def all_of(word, size=4):
    return [[0 if a == b else word for b in range(size)] for a in range(size)]


def table(title, rows):
    """As rocm-smi prints it, with the trailing spaces of older versions."""
    names = [f"GPU{i}" for i in range(len(rows))]
    lines = [f"{f' {title} ':=^90}", " " * 7 + "".join(f"{name:13}" for name in names)]
    lines += [
        f"{name:7}" + "".join(f"{cell!s:13}" for cell in row) for name, row in zip(names, rows, strict=True)
    ]
    return "\n".join(lines) + "\n\n"


def topology(weights, hops, types, numa=()):
    text = f"{' ROCm System Management Interface ':=^90}\n\n"
    text += table("Weight between two GPUs", weights)
    text += table("Hops between two GPUs", hops)
    text += table("Link Type between two GPUs", types)
    text += f"{' Numa Nodes ':=^90}\n"
    for gpu, node in enumerate(numa):
        for what in ("Node", "Affinity"):
            text += f"GPU[{gpu}]\t\t: (Topology) Numa {what}: {node}\n"
    return text + f"{' End of ROCm SMI Log ':=^90}\n"


MI250X = topology(WEIGHTS, all_of(1), all_of("XGMI"), (0, 0, 1, 1))


def pairs(dump):
    return {(link.a, link.b): (link.count, link.gbps) for link in dump.links}


@pytest.mark.parametrize(
    ("name", "gpus", "links", "numa", "near"),
    [
        ("rocm-smi/mi308x-8-showtopo.txt", 8, 28, [0] * 4 + [1] * 4, Nearness.NODE),
        ("rocm-smi/mi50-4-pcie-showtopo-cut.txt", 4, 0, [None] * 4, Nearness.PHB),
    ],
)
def test_real_dumps_agree_with_their_verdicts(name, gpus, links, numa, near):
    text, path = dump_text(name)
    assert format_of(text).name == "rocm-smi"
    dump = rocm_smi.read(text, path)
    assert (len(dump.gpus), len(dump.links), dump.has_switch) == (gpus, links, False)
    assert [gpu.numa for gpu in dump.gpus] == numa
    assert {link.count for link in dump.links} <= {None}
    assert dump.gpu_nearness[0][1] is near


def test_the_broken_table_of_a_partitioned_gpu_is_refused_with_its_line():
    text, path = dump_text("rocm-smi/mi300-partitioned-unsupported-weights.txt")
    with pytest.raises(TopologyError, match="'XGMI' is nothing that a table of weights has") as refused:
        rocm_smi.read(text, path)
    assert refused.value.line == 6


def test_two_hops_of_xgmi_are_no_link_although_the_table_of_hops_says_1():
    dump = rocm_smi.read(MI250X, None)
    assert pairs(dump) == dict.fromkeys([(0, 1), (0, 2), (1, 3), (2, 3)], (None, None))
    assert any("MI250X has 1, 2 or 4" in warning for warning in dump.warnings)


def test_bandwidths_tell_how_many_links_there_are():
    dump = rocm_smi.read(MI250X + table("Bandwidth", BANDWIDTHS), None)
    assert pairs(dump) == {(0, 1): (4, 50.0), (0, 2): (1, 50.0), (1, 3): (1, 50.0), (2, 3): (4, 50.0)}


def test_bandwidths_alone_tell_links_too():
    """`rocm-smi --shownodesbw`, which knows xGMI only."""
    text = table("Bandwidth", BANDWIDTHS)
    assert format_of(text).name == "rocm-smi"
    dump = rocm_smi.read(text, None)
    assert pairs(dump) == {(0, 1): (4, 50.0), (0, 2): (1, 50.0), (1, 3): (1, 50.0), (2, 3): (4, 50.0)}
    with pytest.raises(TopologyError, match="no table here tells"):
        rocm_smi.read(table("Bandwidth", all_of("0-0")), None)


def test_bandwidths_that_are_all_0_tell_nothing():
    dump = rocm_smi.read(MI250X + table("Bandwidth", all_of("0-0")), None)
    assert {*pairs(dump).values()} == {(None, None)}


def test_two_hives_are_told():
    types = [["0" if a == b else "XGMI" if a // 2 == b // 2 else "PCIE" for b in range(4)] for a in range(4)]
    weights = [[0 if a == b else 15 if a // 2 == b // 2 else 72 for b in range(4)] for a in range(4)]
    dump = rocm_smi.read(topology(weights, all_of(1), types), None)
    assert [*pairs(dump)] == [(0, 1), (2, 3)]
    assert dump.gpu_nearness[0][2] is Nearness.SYS
    assert any("GPU0 GPU1; GPU2 GPU3" in warning for warning in dump.warnings)


def test_a_link_that_only_one_end_states_is_no_link_and_both_lines_are_told():
    broken = all_of("XGMI")
    broken[3][1] = "PCIE"
    dump = rocm_smi.read(topology(all_of(15), all_of(1), broken), "x.txt")
    assert (1, 3) not in pairs(dump)
    assert len(dump.links) == 5
    assert any("GPU1 and GPU3 (XGMI on line 20, PCIE on line 22)" in warning for warning in dump.warnings)


def test_weights_alone_tell_links():
    dump = rocm_smi.read(table("Weight between two GPUs", WEIGHTS), None)
    assert [*pairs(dump)] == [(0, 1), (0, 2), (1, 3), (2, 3)]


def test_types_alone_do_not_tell_which_gpus_of_a_hive_are_linked_and_pcie_has_no_links():
    dump = rocm_smi.read(table("Link Type between two GPUs", all_of("XGMI")), None)
    assert dump.links is None
    assert any("neither weights nor hops nor bandwidths" in warning for warning in dump.warnings)
    assert rocm_smi.read(table("Link Type between two GPUs", all_of("PCIE")), None).links == ()


def test_weights_of_0_are_not_known_and_hops_are_taken_with_a_warning():
    dump = rocm_smi.read(topology(all_of(0), all_of(1), all_of("XGMI")), None)
    assert len(dump.links) == 6
    assert any("a driver can say 1 hop" in warning for warning in dump.warnings)


def test_a_table_that_is_cut_is_left_out_with_its_line():
    text = MI250X[: MI250X.index("GPU2   1", MI250X.index("Hops between"))] + "GPU2   1            1"
    with pytest.raises(TopologyError, match="the row of GPU2 has 2 cells for 4 columns") as refused:
        rocm_smi.read(text, "x.txt")
    assert refused.value.line == 14
    whole_rows = text.rpartition("\n")[0]
    dump = rocm_smi.read(whole_rows, "x.txt")
    assert [*pairs(dump)] == [(0, 1), (0, 2), (1, 3), (2, 3)]
    assert any(
        warning.startswith("x.txt:10: the table of the hops is cut short") for warning in dump.warnings
    )


@pytest.mark.parametrize(
    "dress", [lambda line: "| " + " | ".join(line.split()) + " |", lambda line: f"\x1b[1m{line}\x1b[0m\r"]
)
def test_colours_and_bars_around_a_table_do_not_matter(dress):
    bare = table("Weight between two GPUs", WEIGHTS) + table("Link Type between two GPUs", all_of("XGMI"))
    dressed = "\n".join(
        dress(line) if "GPU0" in line or "15" in line or "XGMI" in line else line for line in bare.split("\n")
    )
    assert pairs(rocm_smi.read(dressed, None)) == pairs(rocm_smi.read(bare, None))


@pytest.mark.parametrize("note", ["", "WARNING: a device is in a low-power state\n"])
def test_json_says_the_same_as_the_tables(note):
    system = {}
    for title, rows in (("Weight", WEIGHTS), ("Hops", all_of(1)), ("Link type", all_of("XGMI"))):
        for a in range(4):
            for b in range(a + 1, 4):
                system[f"(Topology) {title} between DRM devices {a} and {b}"] = str(rows[a][b])
    cards = {f"card{i}": {"(Topology) Numa Node": str(i // 2)} for i in range(4)}
    text = note + json.dumps({"system": system, **cards}, indent=2)
    assert format_of(text).name == "rocm-smi"
    dump = rocm_smi.read(text, None)
    same = rocm_smi.read(MI250X, None)
    assert pairs(dump) == pairs(same)
    assert dump.gpu_nearness == same.gpu_nearness


def test_what_other_options_print_of_a_gpu_is_taken_along():
    more = (
        "GPU[1]\t\t: Card Series: \t\tAMD Instinct MI300X\nGPU[1]\t\t: GFX Version: \t\tgfx942\n"
        "GPU[1]\t\t: PCI Bus: 0000:26:00.0\nGPU[0]\t\t: Card Series: N/A\n"
    )
    gpus = rocm_smi.read(more + MI250X, None).gpus
    assert (gpus[1].model, gpus[1].arch, gpus[1].busid) == ("AMD Instinct MI300X", "gfx942", "0000:26:00.0")
    assert (gpus[0].model, gpus[0].arch, gpus[0].busid) == (None, None, None)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("=== ROCm System Management Interface ===\nGPU  Temp\n0  34c\n", 1, "no table"),
        (table("Link Type between two GPUs", all_of("XXXX")), 1, "no table here tells"),
        (MI250X.replace("GPU1   15 ", "GPU1   1S "), 6, "'1S' is nothing"),
        (MI250X + MI250X.replace("30", "15"), 38, "a second table of the weights says 15"),
        ("Weight between two GPUs    Hops between two GPUs\n", 1, "next to each other"),
        (
            table("Hops between two GPUs", all_of(1))
            + table("Link Type between two GPUs", all_of("XGMI", 3)),
            8,
            "other GPUs",
        ),
        ('{"system": {"(Topology) Weight between DRM devices 0 and 1": "15",', 1, "not JSON"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_line(text, line, said):
    with pytest.raises(TopologyError, match=said) as refused:
        rocm_smi.read(text, "x.txt")
    assert (refused.value.path, refused.value.line) == ("x.txt", line)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutilated(MI250X + table("Bandwidth", BANDWIDTHS)))
def test_no_accident_makes_a_link(text):
    dump = reported(rocm_smi.read, text)
    if dump is not None:
        assert linked(dump) <= {frozenset(pair) for pair in [(0, 1), (0, 2), (1, 3), (2, 3)]}


@settings(deadline=None)
@given(st.text(st.sampled_from('GPU01 5XGMIPCE\n\t=[]:{}"-')) | st.text())
def test_any_text_at_all_is_read_or_refused(text):
    reported(rocm_smi.read, text)
    reported(rocm_smi.read, table("Weight between two GPUs", WEIGHTS) + text)

"""`nvidia-smi nvlink -s`: models and counts of links that are up, and nothing of where they lead; `-R` tells
where: to each other GPU, or to switches."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutilations import linked, mutilated, reported

from taccl.errors import TopologyError
from taccl.topologies.importers.nodes.formats import smi_nvlink
from taccl.topologies.importers.nodes.nvlinks import settled
from taccl.topologies.importers.nodes.registry import format_of, parse_dump, read_text

DUMPS = Path(__file__).parents[3] / "data" / "dumps" / "smi-nvlink"


def gpu(number, model, links):
    name = f"GPU {number}: {model} (UUID: GPU-5269b708-678a-b1a8-60f0-{number:012d})\n"
    return name + "".join(f"\t Link {link}: {state}\n" for link, state in enumerate(links))


BRIDGED = gpu(0, "NVIDIA GeForce RTX 3090", ["14.062 GB/s"] * 4) + gpu(
    1, "NVIDIA GeForce RTX 3090", ["14.062 GB/s"] * 4
)


def read(text):
    return smi_nvlink.read(text, "links.txt")


def links(dump):
    return [(link.a, link.b, link.count, link.gbps) for link in dump.links]


def real(name):
    text = read_text(DUMPS / name)
    assert format_of(text).name == smi_nvlink.NAME
    return smi_nvlink.read(text, name)


def test_eight_a100_have_twelve_links_each_and_can_only_be_behind_switches():
    dump = real("a100-8.txt")
    assert [each.model for each in dump.gpus] == ["A100-SXM4-80GB"] * 8
    assert links(dump) == [(position, None, 12, 25.0) for position in range(8)]
    assert dump.has_switch is None
    assert settled(dump).has_switch


def test_a_fragment_has_the_gpu_that_it_has():
    dump = real("azure-good.txt")
    assert [each.dev for each in dump.gpus] == [7]
    assert links(dump) == [(0, None, 12, 25.0)]
    assert dump.has_switch is None


def test_where_links_lead_is_left_open():
    dump = read(BRIDGED)
    assert links(dump) == [(0, None, 4, 14.062), (1, None, 4, 14.062)]
    assert dump.has_switch is None


@pytest.mark.parametrize("down", ["<inactive>", "inActive", "Inactive", "(Not supported)"])
def test_links_that_are_down_are_not_counted_and_told(down):
    dump = read(BRIDGED + gpu(2, "NVIDIA GeForce RTX 3090", ["14.062 GB/s", down, "14.062 GB/s", down]))
    assert links(dump)[2] == (2, None, 2, 14.062)
    assert "links.txt:11: GPU 2: links 1, 3 are down; not counted" in dump.warnings


@pytest.mark.parametrize(
    "nothing",
    [
        "NVML: Unable to retrieve NVLink information as all links are inActive\n",
        "\t Link 0: <inactive>\n\t Link 1: <inactive>\n",
    ],
)
def test_gpus_without_bridges_have_no_links(nothing):
    text = (gpu(0, "NVIDIA RTX A6000", []) + nothing) + (gpu(1, "NVIDIA RTX A6000", []) + nothing)
    assert smi_nvlink.looks_like(text)
    dump = read(text)
    assert dump.links == ()
    assert dump.has_switch is False


def test_one_gpu_without_links_among_others_is_told():
    dump = read(BRIDGED + gpu(2, "NVIDIA GeForce RTX 3090", []))
    assert "links.txt:11: GPU 2 has 0 NVLinks, others have 4" in dump.warnings


def test_a_link_that_is_slow_is_told_and_kept_apart():
    dump = read(BRIDGED + gpu(2, "NVIDIA GeForce RTX 3090", ["14.062 GB/s"] * 3 + ["1.562 GB/s"]))
    assert links(dump)[2:] == [(2, None, 1, 1.562), (2, None, 3, 14.062)]
    assert "links.txt:11: GPU 2: links 3 are slower than 14.062 GB/s" in dump.warnings


def test_lists_of_capabilities_and_counters_after_it_are_not_read():
    more = (
        "\t Link 0, P2P is supported: true\n\t Link 0: Replay Errors: 0\n\t Link 0: Remote Device X: Link 0\n"
    )
    again = BRIDGED.replace("14.062 GB/s", "Remote Device 00000000:D5:00.0: Link 0")
    assert links(read(BRIDGED + more + again)) == links(read(BRIDGED))


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (BRIDGED.replace("Link 3: 14.062 GB/s\nGPU", "Link 3: fine\nGPU"), 5, "link 3 of GPU 0 is 'fine'"),
        (BRIDGED.replace("Link 1: 14.062 GB/s\n\t Link 2: 14.062 GB/s", "...", 1), 4, "were left out"),
        (
            BRIDGED.replace("Link 3: 14.062 GB/s\nGPU", "...\nGPU"),
            5,
            "links of GPU 0 were left out after link 2",
        ),
        *(
            (BRIDGED + dots, 11, "links of GPU 1 were left out after link 3")
            for dots in (
                "[...]\n",
                "\t Link ...\n",
                "... (18 links)\n",
                "(16 more links)\n",
                "<snip>\n",
                "…\n",
            )
        ),
        (BRIDGED.replace("Link 1", "Link 0", 1), 3, "link 0 of GPU 0 stands here again (line 2)"),
        ("nothing", 1, "no GPU"),
    ],
)
def test_what_is_damaged_is_refused_with_its_line(text, line, says):
    with pytest.raises(TopologyError) as error:
        read(text)
    assert (error.value.path, error.value.line) == ("links.txt", line)
    assert says in error.value.message


def test_a_list_that_ends_before_all_links_of_its_model_is_told():
    dump = read(gpu(0, "NVIDIA H200", ["26.562 GB/s"] * 2) + gpu(1, "NVIDIA H200", ["26.562 GB/s"] * 18))
    (first, _) = dump.warnings
    assert first == "links.txt:1: GPU 0 is H200 with 18 NVLinks, of which 2 stand here: is the list cut?"
    assert not read(gpu(0, "NVIDIA H200", ["26.562 GB/s"] * 2 + ["<inactive>"] * 16)).warnings[1:]


@given(st.data())
def test_no_damage_makes_more_links(data):
    begin = data.draw(st.integers(0, len(BRIDGED)))
    end = data.draw(st.integers(begin, len(BRIDGED)))
    text = BRIDGED[:begin] + data.draw(st.sampled_from(["", " ", "\n", "Link", "..."])) + BRIDGED[end:]
    try:
        dump = read(text)
    except TopologyError as error:
        assert error.line is not None
        return
    assert all(sum(link.count for link in dump.links if link.a == one) <= 4 for one in range(len(dump.gpus)))


@given(st.text("GPUink 012:.Bs/<>\n", max_size=200))
def test_any_text_is_read_or_refused(text):
    smi_nvlink.looks_like(text)
    try:
        read(text)
    except TopologyError as error:
        assert error.line is not None


LED_BACK = """\
GPU 0: NVIDIA H100 PCIe (UUID: GPU-6968dfc2)
\t Link 0: Remote Device 00000000:D5:00.0: Link 0
\t Link 1: Remote Device 00000000:D5:00.0: Link 2
\t Link 2: Remote Device 00000000:D5:00.0: Link 1
GPU 1: NVIDIA H100 PCIe (UUID: GPU-b0a7)
\t Link 0: Remote Device 00000000:27:00.0: Link 0
\t Link 1: Remote Device 00000000:27:00.0: Link 2
\t Link 2: Remote Device 00000000:27:00.0: Link 1
"""
SWITCHED = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-257d8671)
         Link 0: Remote Device 00000000:07:00.0: Link 46
         Link 1: Remote Device 00000000:06:00.0: Link 2
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-cc7d93b3)
         Link 0: Remote Device 00000000:08:00.0: Link 47
         Link 1: Remote Device 00000000:06:00.0: Link 3
"""


def test_links_that_lead_back_join_two_gpus_and_tell_their_bus_ids():
    dump = parse_dump(LED_BACK, "r.txt")
    assert dump.format == "nvidia-smi-nvlink-remote"
    assert [(gpu.dev, gpu.busid, gpu.model) for gpu in dump.gpus] == [
        (0, "0000:27:00.0", "H100 PCIe"),
        (1, "0000:d5:00.0", "H100 PCIe"),
    ]
    assert [(link.a, link.b, link.count) for link in dump.links] == [(0, 1, 3)]
    assert dump.has_switch is False
    assert dump.warnings == ()


def test_ends_with_more_links_than_a_gpu_are_switches():
    dump = parse_dump(SWITCHED, "r.txt")
    assert dump.has_switch is True
    assert [(link.a, link.b, link.count) for link in dump.links] == [(0, None, 2), (1, None, 2)]


def test_ends_that_lead_to_no_gpu_of_the_list_stay_open():
    dump = parse_dump(LED_BACK[: LED_BACK.index("GPU 1")], "r.txt")
    assert dump.has_switch is None
    assert [(link.a, link.b, link.count) for link in dump.links] == [(0, None, 3)]


def test_the_state_of_links_refines_where_they_lead():
    states = "".join(
        f"GPU {i}: NVIDIA H100 PCIe (UUID: {i})\n" + "".join(f"\t Link {k}: 26.562 GB/s\n" for k in range(3))
        for i in range(2)
    )
    dump = parse_dump(LED_BACK + states, "r.txt")
    assert [(link.a, link.b, link.count, link.gbps) for link in dump.links] == [(0, 1, 3, 26.562)]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (LED_BACK.replace("Link 1: Remote", "Link 0: Remote", 1), 3, "link 0 of GPU 0 stands here again"),
        (LED_BACK[LED_BACK.index("\t") :], 1, "no GPU stands above this link"),
        (LED_BACK.replace("GPU 1", "\t ...\nGPU 1"), 5, "links of GPU 0 were left out here"),
        (LED_BACK + "\t (15 more links)\n", 9, "links of GPU 1 were left out here"),
    ],
)
def test_damage_is_refused_with_its_line(text, line, message):
    with pytest.raises(TopologyError, match=message) as error:
        format_of(text).read(text, "r.txt")
    assert error.value.line == line


@given(mutilated(LED_BACK) | mutilated(SWITCHED))
def test_a_mutilated_list_of_ends_is_read_or_refused_with_its_line(text):
    dump = reported(parse_dump, text)
    if dump is not None:
        pairs = linked(parse_dump(LED_BACK, "x.txt")) | linked(parse_dump(SWITCHED, "x.txt"))
        assert all(pair in pairs or "switch" in pair for pair in linked(dump))

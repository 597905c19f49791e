"""`nvidia-smi nvlink -R` tells where NVLinks lead: to each other GPU, or to switches."""

import pytest

from taccl.errors import TopologyError
from taccl.topologies.importers.nodes.registry import format_of, parse_dump

BRIDGED = """\
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
    dump = parse_dump(BRIDGED, "r.txt")
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
    dump = parse_dump(BRIDGED[: BRIDGED.index("GPU 1")], "r.txt")
    assert dump.has_switch is None
    assert [(link.a, link.b, link.count) for link in dump.links] == [(0, None, 3)]


def test_the_state_of_links_refines_where_they_lead():
    states = "".join(
        f"GPU {i}: NVIDIA H100 PCIe (UUID: {i})\n" + "".join(f"\t Link {k}: 26.562 GB/s\n" for k in range(3))
        for i in range(2)
    )
    dump = parse_dump(BRIDGED + states, "r.txt")
    assert [(link.a, link.b, link.count, link.gbps) for link in dump.links] == [(0, 1, 3, 26.562)]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (BRIDGED.replace("Link 1: Remote", "Link 0: Remote", 1), 3, "link 0 of GPU 0 stands here again"),
        (BRIDGED[BRIDGED.index("\t") :], 1, "no GPU stands above this link"),
    ],
)
def test_damage_is_refused_with_its_line(text, line, message):
    with pytest.raises(TopologyError, match=message) as error:
        format_of(text).read(text, "r.txt")
    assert error.value.line == line

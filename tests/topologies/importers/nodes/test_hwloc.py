"""hwloc XML of all versions: GPUs, ports and matrices, and nothing believed that hwloc only assumed."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutilations import dump_text, linked, mutilated, reported

from taccl.errors import TopologyError
from taccl.topologies.importers.nodes.facts import Nearness
from taccl.topologies.importers.nodes.formats import hwloc
from taccl.topologies.importers.nodes.registry import format_of

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n'


def gpu(
    number, bus, *, backend="nvml", model="Tesla V100-SXM2-16GB", vendor="10de", speed=15.753846, infos=""
):
    return f"""\
<object type="PCIDev" gp_index="{100 + number}" pci_busid="0000:{bus}:00.0"
 pci_type="0302 [{vendor}:1db1] [{vendor}:1212] a1" pci_link_speed="{speed}">
<object type="OSDev" gp_index="{200 + number}" name="{backend}{number}" osdev_type="1">
<info name="GPUModel" value="{model}"/>{infos}
</object></object>
"""


def nic(name, bus, *, kind="0207", speed=15.753846, infos="", function=0):
    return f"""\
<object type="PCIDev" gp_index="9{bus}" pci_busid="0000:{bus}:00.{function}"
 pci_type="{kind} [15b3:1019] [1014:0617] 00" pci_link_speed="{speed}">
<object type="OSDev" name="{name}" osdev_type="3">{infos}</object></object>
"""


def switch(number, bus):
    return (
        f'<object type="PCIDev" gp_index="{300 + number}" subtype="NVSwitch" pci_busid="0000:{bus}:00.0" '
        'pci_type="0680 [10de:1ac2] [0000:0000] a1" pci_link_speed="1.0"/>\n'
    )


def bridge(bus, *below, chip="10b5:8725", speed=15.753846):
    inside = "".join(below)
    return (
        f'<object type="Bridge" bridge_type="1-1" pci_busid="0000:{bus}:00.0" '
        f'pci_type="0604 [{chip}] [{chip}] 00" pci_link_speed="{speed}">\n{inside}</object>\n'
    )


def root(*below):
    return f'<object type="Bridge" bridge_type="0-1">\n{"".join(below)}</object>\n'


def package(number, *below):
    return f"""\
<object type="Package" os_index="{number}" nodeset="0x{1 << number:08x}">
<info name="CPUVendor" value="GenuineIntel"/>
<info name="CPUFamilyNumber" value="6"/><info name="CPUModelNumber" value="85"/>
<object type="NUMANode" os_index="{number}" nodeset="0x{1 << number:08x}"/>
{"".join(below)}</object>
"""


def file(*below, matrices="", version="2.0"):
    inside = "".join(below)
    machine = f'<object type="Machine" nodeset="0x3">\n{inside}</object>\n'
    return f'{HEAD}<topology version="{version}">\n{machine}{matrices}</topology>\n'


def matrix(name, keys, rows, *, hetero=False):
    tag = "distances2hetero" if hetero else "distances2"
    lines = "".join(f'<u64values length="9">{" ".join(map(str, row))} </u64values>\n' for row in rows)
    kind = "" if hetero else 'type="OSDev" indexing="gp" '
    indexes = f'<indexes length="9">{" ".join(keys)} </indexes>\n'
    return f'<{tag} {kind}nbobjs="{len(keys)}" kind="9" name="{name}">\n{indexes}{lines}</{tag}>\n'


def pairs(dump):
    return {(link.a, link.b): (link.count, link.gbps) for link in dump.links}


#: Two GPUs below one switch with two links, a third on the other package with one to each.
THREE = (
    package(
        0,
        root(bridge("01", gpu(0, "02"), gpu(1, "03"), nic("mlx5_0", "04"))),
        root(nic("eno1", "05", kind="0200", speed=0.25)),
    ),
    package(
        1,
        root(bridge("81", gpu(2, "82"))),
        root(bridge("91", nic("mlx5_1", "92"), nic("mlx5_2", "92", function=1))),
    ),
)
LINKS = matrix(
    "NVLinkBandwidth",
    ["200", "201", "202"],
    [[1000000, 50000, 25000], [50000, 1000000, 25000], [25000, 25000, 1000000]],
)


@pytest.mark.parametrize(
    ("name", "gpus", "nics", "has_switch", "links"),
    [
        ("dgx2.xml", 16, None, True, {(a, None): (6, 25.0) for a in range(16)}),
        ("lassen-4xv100-p9.xml", 4, [["mlx5_0", "mlx5_1"]] * 2 + [["mlx5_2", "mlx5_3"]] * 2, None, None),
        ("tioga-mi250x.xml", 8, [[f"hsi{a // 2}"] for a in range(8)], False, None),
    ],
)
def test_real_dumps_agree_with_their_verdicts(name, gpus, nics, has_switch, links):
    text, path = dump_text(f"hwloc/{name}")
    assert format_of(text).name == "hwloc"
    dump = hwloc.read(text, path)
    assert [each.dev for each in dump.gpus] == list(range(gpus))
    assert (None if dump.links is None else pairs(dump)) == links
    assert dump.has_switch is has_switch
    if nics is None:
        assert dump.nics is None
    else:
        assert [[dump.nics[i].name for i in near] for near in dump.nearest_nics] == nics


def test_an_idle_link_is_not_known_and_ports_of_one_card_are_together():
    text, path = dump_text("hwloc/lassen-4xv100-p9.xml")
    dump = hwloc.read(text, path)
    assert {each.pcie_gbps for each in dump.gpus} == {None}
    assert [each.card for each in dump.nics] == ["0003:01:00"] * 2 + ["0033:01:00"] * 2
    assert {cpu.arch for cpu in dump.cpus} == {"ppc64"}


def test_one_hive_is_told_and_its_placeholder_is_no_link():
    text, path = dump_text("hwloc/tioga-mi250x.xml")
    warnings = hwloc.read(text, path).warnings
    assert any(":1214: XGMIBandwidth has 100000 for every pair" in warning for warning in warnings)
    assert any("GPUs 0 1 2 3 4 5 6 7 are one hive" in warning for warning in warnings)
    assert any("left out: ens2" in warning for warning in warnings)


def test_gpus_links_ports_and_what_they_share():
    dump = hwloc.read(file(*THREE, matrices=LINKS), "x.xml")
    assert pairs(dump) == {(0, 1): (2, 25.0), (0, 2): (1, 25.0), (1, 2): (1, 25.0)}
    assert dump.has_switch is False
    assert [each.name for each in dump.nics] == ["mlx5_0", "mlx5_1", "mlx5_2"]
    assert dump.gpu_nearness[0] == (Nearness.SELF, Nearness.PIX, Nearness.SYS)
    assert dump.nic_nearness[2] == (Nearness.SYS, Nearness.NODE, Nearness.NODE)
    assert dump.nearest_nics == ((0,), (0,), (1, 2))
    assert [(each.gpus, each.nics, each.gbps) for each in dump.bridges] == [
        ((0, 1), (0,), 12.0),
        ((), (1, 2), 12.0),
    ]
    assert [(each.numa, each.model, each.pcie_gbps) for each in dump.gpus][2] == (
        1,
        "Tesla V100-SXM2-16GB",
        12.0,
    )
    assert [(cpu.numa, cpu.vendor, cpu.family, cpu.model) for cpu in dump.cpus] == [
        (0, "GenuineIntel", 6, 85),
        (1, "GenuineIntel", 6, 85),
    ]


def test_the_halves_of_a_machine_hang_at_one_switch_and_a_gpu_with_fewer_links_is_told():
    """The trunks between boards are in no matrix; a driver can hide the class of a switch."""
    devices = [
        gpu(0, "02"),
        gpu(1, "03"),
        switch(0, "04"),
        switch(1, "05").replace("0680 [10de:1ac2]", "0000 [0000:0000]"),
    ]
    keys = ["OSDev:200", "OSDev:201", "PCIDev:300", "PCIDev:301"]
    rows = [[0, 0, 150000, 0], [0, 0, 0, 125000], [150000, 0, 0, 0], [0, 125000, 0, 0]]
    text = file(package(0, root(*devices)), matrices=matrix("NVLinkBandwidth", keys, rows, hetero=True))
    dump = hwloc.read(text, "x")
    assert dump.has_switch
    assert pairs(dump) == {(0, None): (6, 25.0), (1, None): (5, 25.0)}
    assert any(
        "fewer links to the NVSwitches than others, which may be down: 1" in each for each in dump.warnings
    )


def test_links_to_a_processor_are_no_links_between_gpus():
    """POWER8 with P100: each two links of 20 to its neighbour and two to its processor."""
    gpus = [gpu(i, f"0{i + 2}", model="Tesla P100-SXM2-16GB") for i in range(2)]
    keys = ["OSDev:200", "OSDev:201", "Package:3"]
    rows = [[1000000, 40000, 40000], [40000, 1000000, 40000], [40000, 40000, 1000000]]
    text = file(package(0, root(*gpus)), matrices=matrix("NVLinkBandwidth", keys, rows, hetero=True))
    dump = hwloc.read(text, None)
    assert pairs(dump) == {(0, 1): (2, 20.0)}
    assert dump.has_switch is False


def test_a_link_that_is_down_on_one_side_counts_as_the_weaker():
    text = file(*THREE, matrices=LINKS.replace("1000000 50000 25000", "1000000 25000 25000"))
    dump = hwloc.read(text, "x")
    assert pairs(dump)[0, 1] == (1, 25.0)
    assert any("the two directions differ (a broken link)" in warning for warning in dump.warnings)


def test_a_real_matrix_of_xgmi_is_counted():
    gpus = [gpu(i, f"0{i + 2}", backend="rsmi", model="AMD Instinct MI250X", vendor="1002") for i in range(3)]
    rows = [[1638000, 200000, 50000], [200000, 1638000, 0], [50000, 0, 1638000]]
    text = file(package(0, root(*gpus)), matrices=matrix("XGMIBandwidth", ["200", "201", "202"], rows))
    assert pairs(hwloc.read(text, None)) == {(0, 1): (4, 50.0), (0, 2): (1, 50.0)}


def test_one_gpu_of_several_backends_is_one_and_graphics_of_the_board_are_none():
    """hwloc 3 says by a mask what a device is; names say it in all versions."""
    both = gpu(1, "03").replace(
        "</object></object>", '</object><object type="OSDev" name="cuda0" osdev_type="12"/></object>'
    )
    other = gpu(0, "04").replace(
        "</object></object>", '</object><object type="OSDev" name="cuda1" osdev_type="12"/></object>'
    )
    board = '<object type="PCIDev" pci_busid="0000:07:00.0" pci_type="0300 [1a03:2000] [1a03:2000] 41"/>\n'
    dump = hwloc.read(file(package(0, root(both, other, board)), version="3.0"), None)
    assert [(each.dev, each.busid) for each in dump.gpus] == [(0, "0000:04:00.0"), (1, "0000:03:00.0")]
    assert dump.order == "by the number of nvml"


def test_version_1_has_no_version_and_numa_nodes_above_the_sockets():
    """There the display class alone tells a GPU, if hwloc was built without a library for GPUs."""
    nodes = "".join(
        f'''\
<object type="NUMANode" os_index="{node}" nodeset="0x0000000{node + 1}">
<object type="Socket" os_index="{node}"/>
<object type="Bridge" os_index="0" bridge_type="0-1" depth="0" bridge_pci="0000:[00-10]">
<object type="PCIDev" os_index="1" pci_busid="0000:{bus}:00.0"
 pci_type="0302 [10de:15f8] [10de:118f] a1" pci_link_speed="15.753846"/></object></object>
'''
        for node, bus in enumerate(("04", "82"))
    )
    machine = f'<object type="Machine" os_index="0">{nodes}</object>'
    text = f"{HEAD.replace('2.dtd', '.dtd')}<topology>\n{machine}\n</topology>\n"
    assert format_of(text).name == "hwloc"
    dump = hwloc.read(text, None)
    assert [(each.busid, each.numa) for each in dump.gpus] == [("0000:04:00.0", 0), ("0000:82:00.0", 1)]
    assert dump.gpu_nearness[0][1] is Nearness.SYS
    assert dump.links is None


def test_gpus_of_a_container_without_pci_devices():
    loose = "".join(
        f'<object type="OSDev" name="{name}" osdev_type="5"/>' for name in ("cuda1", "cuda0", "nvml0")
    )
    dump = hwloc.read(file(loose), None)
    assert [each.dev for each in dump.gpus] == [0]
    assert (dump.gpu_nearness, dump.bridges) == (None, None)


def test_bridges_on_the_card_of_a_gpu_are_part_of_it():
    card = bridge("03", bridge("04", gpu(0, "05", vendor="1002"), chip="1002:14a1"), chip="1002:14a0")
    tree = bridge("02", bridge("06", card), bridge("08", nic("mlx5_0", "09")))
    assert hwloc.read(file(package(0, root(tree))), None).nic_nearness[0][0] is Nearness.PIX


@pytest.mark.parametrize(
    ("model", "infos", "links"),
    [
        ("Tesla T4", "", ()),
        ("NVIDIA L40S", "", ()),
        ("NVIDIA A40", "", None),
        ("NVIDIA H100 80GB HBM3", "", None),
        ("AMD Instinct MI210", '<info name="XGMIHiveID" value="0"/>', ()),
        ("AMD Instinct MI210", '<info name="XGMIHiveID" value="dc4193b3799d5078"/>', None),
    ],
)
def test_without_a_matrix_a_product_that_never_has_links_has_none(model, infos, links):
    gpus = [gpu(i, f"0{i + 2}", model=model, infos=infos) for i in range(2)]
    assert hwloc.read(file(package(0, root(*gpus))), None).links == links


def test_a_switch_in_a_switch_of_broadcom_is_one():
    def tree(chip):
        inner = bridge("03", bridge("04", gpu(0, "05")), bridge("06", gpu(1, "07")), chip=chip).replace(
            "10b5:8725", chip
        )
        outer = bridge("02", inner, bridge("08", nic("mlx5_0", "09"), chip=chip), chip=chip)
        return hwloc.read(file(package(0, root(outer))), None).nic_nearness[0][0]

    assert tree("1000:c030") is Nearness.PIX
    assert tree("10b5:9781") is Nearness.PXB


@pytest.mark.parametrize(
    ("infos", "kept"),
    [
        ('<info name="Port1State" value="4"/>', ["mlx5_0", "mlx5_1"]),
        ('<info name="Port1State" value="1"/>', ["mlx5_0"]),
        ('<info name="Port1LID" value="0xffff"/>', ["mlx5_0"]),
    ],
)
def test_ports_that_are_down_are_left_out(infos, kept):
    dump = hwloc.read(
        file(package(0, root(gpu(0, "02"), nic("mlx5_0", "03"), nic("mlx5_1", "04", infos=infos)))), None
    )
    assert [each.name for each in dump.nics] == kept


def test_plain_ethernet_is_kept_where_there_is_nothing_else():
    ports = nic("ens2", "03", kind="0200", speed=0.25), nic("ens3", "04", kind="0200", speed=7.8)
    assert [each.name for each in hwloc.read(file(package(0, root(gpu(0, "02"), *ports))), None).nics] == [
        "ens3"
    ]
    assert [each.name for each in hwloc.read(file(package(0, root(gpu(0, "02"), ports[0]))), None).nics] == [
        "ens2"
    ]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (file(package(0)), 3, "there is no GPU"),
        (file(*(gpu(i, f"{i:02x}") for i in range(257))), 3, "257 GPUs are more than the 256"),
        (HEAD + "<topology", 3, "not well-formed"),
        (HEAD + "<system/>", 3, "the first element is <system>"),
        (
            HEAD.replace('"hwloc2.dtd"', '"x" [<!ENTITY a "b">]') + "<topology/>",
            2,
            "document types and entities",
        ),
        (file(*THREE, matrices=LINKS.replace(" 25000 1000000", " 1000000")), 57, "3 objects and 8 values"),
        (
            file(*THREE, matrices=LINKS.replace(" 25000 1000000", " many 1000000")),
            57,
            "'many' in this matrix",
        ),
        (file(*THREE, matrices=LINKS.replace("200 201", "201 201")), 57, "a GPU stands twice"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_line(text, line, said):
    with pytest.raises(TopologyError, match=said) as refused:
        hwloc.read(text, "x.xml")
    assert (refused.value.path, refused.value.line) == ("x.xml", line)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    mutilated(
        file(*THREE, matrices=LINKS.replace(" 25000 25000 ", " 0 25000 ").replace("50000 25000<", "50000 0<"))
    )
)
def test_no_accident_makes_a_link(text):
    dump = reported(hwloc.read, text)
    buses = {f"0000:0{i}:00.0" for i in (2, 3)} | {"0000:82:00.0"}
    if dump is not None and {gpu.busid for gpu in dump.gpus} <= buses:
        assert linked(dump) <= {frozenset(pair) for pair in ([a, b] for a in buses for b in buses if a < b)}


@settings(deadline=None)
@given(st.text(st.sampled_from('<>/"= objecttypPCIDvgpu_nx0')) | st.text())
def test_any_text_at_all_is_read_or_refused(text):
    for whole in (text, HEAD + text, HEAD + "<topology>" + text, file(*THREE, text)):
        reported(hwloc.read, whole)

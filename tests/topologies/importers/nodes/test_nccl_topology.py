"""NCCL's and RCCL's topology XML: real files, and small ones for what real ones rarely show."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from verdicts import DUMPS, NCCL_TOPOLOGY, Verdict

from taccl.errors import TacclError, TopologyError
from taccl.topologies import automorphisms, parse_topology
from taccl.topologies.importers.nodes.facts import Dump, Nearness
from taccl.topologies.importers.nodes.machine import make_machine
from taccl.topologies.importers.nodes.registry import parse_dump, read_dump

SWITCH, OTHER_GPU = "0x068000", "0x030200"


def gpu(busid: str, dev: int, *links: str, rank: int | None = None, speed: str = "16.0 GT/s PCIe") -> str:
    """A GPU and the PCI device that it is."""
    attributes = f'dev="{dev}" sm="80"' + (f' rank="{rank}"' if rank is not None else "")
    return (
        f'<pci busid="{busid}" class="0x030200" link_speed="{speed}" link_width="16">'
        f"<gpu {attributes}>{''.join(links)}</gpu></pci>"
    )


def nvlink(target: str, count: int, tclass: str = OTHER_GPU) -> str:
    return f'<nvlink target="{target}" count="{count}" tclass="{tclass}"/>'


def nic(busid: str, *nets: tuple[str, int], speed: str = "16.0 GT/s PCIe") -> str:
    ports = "".join(f'<net name="{name}" speed="{mbps}"/>' for name, mbps in nets)
    return (
        f'<pci busid="{busid}" class="0x020700" link_speed="{speed}" link_width="16"><nic>{ports}</nic></pci>'
    )


def bridge(busid: str, *below: str, chip: str = "0xc030", speed: str = "32.0 GT/s PCIe") -> str:
    return (
        f'<pci busid="{busid}" class="0x060400" vendor="0x1000" device="{chip}" link_speed="{speed}"'
        f' link_width="16">{"".join(below)}</pci>'
    )


def system(*cpus: str) -> str:
    inside = "".join(
        f'<cpu numaid="{i}" arch="x86_64" vendor="AuthenticAMD">{text}</cpu>' for i, text in enumerate(cpus)
    )
    return f'<system version="1">{inside}</system>'


def links_of(dump: Dump) -> dict[tuple[int, int | None], int | None]:
    return {(link.a, link.b): link.count for link in dump.links or ()}


@pytest.mark.parametrize("verdict", NCCL_TOPOLOGY, ids=str)
def test_a_real_file_agrees_with_its_verdict(verdict: Verdict) -> None:
    dump = read_dump(DUMPS / verdict.file)
    machine = make_machine(dump)
    reported = machine.to_dict()
    assert (reported["gpus"], reported["nics"]) == (verdict.gpus, verdict.nics)
    assert reported["nvswitch"] == (verdict.to_switch > 0)
    assert machine.gpu_gbps == pytest.approx((verdict.gbps,) * verdict.gpus)
    assert machine.nearest_nics == verdict.nearest
    if verdict.links is not None:
        assert {ends: count for ends, count in links_of(dump).items() if ends[1] is not None} == verdict.links
    at_switch = {ends[0]: count for ends, count in links_of(dump).items() if ends[1] is None}
    assert at_switch == (dict.fromkeys(range(verdict.gpus), verdict.to_switch) if verdict.to_switch else {})
    assert all(any(words in warning for warning in machine.warnings) for words in verdict.warned)
    assert bool(machine.warnings) == bool(verdict.warned)
    if verdict.peak is not None:
        assert make_machine(dump, bandwidth="peak").gpu_gbps == pytest.approx((verdict.peak,) * verdict.gpus)


@pytest.mark.parametrize("verdict", NCCL_TOPOLOGY, ids=str)
def test_the_machine_file_of_a_real_file_is_that_machine(verdict: Verdict) -> None:
    """Degrees and NICs of the machine that comes out of the text are those that went in."""
    dump = read_dump(DUMPS / verdict.file)
    made = make_machine(dump, "there-and-back", nodes=2)
    machine = parse_topology(made.yaml)
    assert machine == made.topology
    assert machine.num_members == 2 * verdict.gpus
    assert machine.nic_count(0) == verdict.nics
    for rank, gbps in enumerate(made.gpu_gbps):
        routes = [
            1048.576 / link.beta_us_per_mb
            for link in machine.links
            if link.src == f"node0.gpu{rank}" and ("gpu" in link.dst or "nvswitch" in link.dst)
        ]
        if dump.links:
            assert sum(routes) == pytest.approx(gbps)
    alongside = range(verdict.gpus, 2 * verdict.gpus)
    assert all(machine.path(rank, rank + verdict.gpus) for rank in range(verdict.gpus))
    assert all(machine.path(rank, 0) for rank in alongside)


def test_a_file_of_bare_bus_ids_is_refused_with_the_reason() -> None:
    with pytest.raises(TopologyError, match="none of its 9 PCI devices has a class") as refused:
        read_dump(DUMPS / "nccl-topo" / "aws-g5.48xl-hint.xml")
    assert refused.value.line == 14


def test_ranks_are_the_jobs_and_devs_the_machines() -> None:
    dump = read_dump(DUMPS / "nccl-topo" / "l20-16-pcie.xml")
    assert [gpu.dev for gpu in dump.gpus] == [0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15]
    assert dump.order == "by rank"


def test_ports_of_one_card_share_what_is_narrower_than_they_are() -> None:
    """Two ports of 100 Gb/s behind 4 lanes of generation 3: 3 GB/s for both."""
    machine = make_machine(read_dump(DUMPS / "nccl-topo" / "amd-mi50-8-pcie.xml"), nodes=2).topology
    path = machine.path(4, 12)
    assert path is not None
    assert path.beta_us_per_mb == pytest.approx(1048.576 / 3)
    assert "card" in " ".join(machine.links[link].dst for link in path.links)


def test_a_link_needs_both_its_ends() -> None:
    one_sided = system(
        gpu("0000:01:00.0", 0, nvlink("0000:02:00.0", 4)) + gpu("0000:02:00.0", 1) + gpu("0000:03:00.0", 2)
    )
    dump = parse_dump(one_sided, "t.xml")
    assert dump.links == ()
    assert "t.xml:1: 4 links between GPUs 0 and 1, GPU 1 states none" in dump.warnings[0]


def test_links_to_several_switches_are_links_to_one() -> None:
    four = [nvlink(f"0000:c{i}:00.0", count, SWITCH) for i, count in enumerate((5, 5, 4, 4))]
    hidden = nvlink("fffffff:ffff:ff", 18, SWITCH)
    dump = parse_dump(system(gpu("0000:01:00.0", 0, *four) + gpu("0000:02:00.0", 1, hidden)))
    assert links_of(dump) == {(0, None): 18, (1, None): 18}
    assert dump.has_switch


def test_a_gpu_whose_links_are_down_is_named() -> None:
    up = [gpu(f"0000:0{i}:00.0", i, nvlink("0000:c0:00.0", 18, SWITCH)) for i in range(3)]
    dump = parse_dump(system("".join(up) + gpu("0000:09:00.0", 3)), "t.xml")
    assert any("GPU 3 has no links, others have 18" in warning for warning in dump.warnings)
    machine = make_machine(dump)
    assert machine.gpu_gbps == (360.0, 360.0, 360.0, 24.0)
    assert machine.topology.path(3, 0) is not None


def test_links_that_lead_nowhere_known_are_left_out() -> None:
    """To a GPU outside of the job, to the CPU of a POWER machine, to nothing, and none at all."""
    elsewhere = nvlink("0000:99:00.0", 4), nvlink("0008:00:00.0", 3, "0x068001"), nvlink("", 2, "")
    dump = parse_dump(system(gpu("0000:01:00.0", 0, *elsewhere, nvlink("0000:02:00.0", 0))), "t.xml")
    assert dump.links == ()
    assert not dump.has_switch
    assert len(dump.warnings) == 3


def test_gpus_that_state_themselves_are_not_paired_where_that_is_no_rule() -> None:
    own = [gpu(f"0000:0{i}:00.0", i, nvlink(f"0000:0{i}:00.0", 12)) for i in range(3)]
    dump = parse_dump(system("".join(own)))
    assert dump.links == ()
    assert sum("to itself are left out" in warning for warning in dump.warnings) == 3


@pytest.mark.parametrize(
    ("ranks", "order", "devs"),
    [((1, 0), "by rank", [7, 3]), ((5, 9), "by dev", [3, 7]), ((None, 0), "by dev", [3, 7])],
)
def test_gpus_are_in_the_order_of_ranks_or_of_devs(ranks, order, devs) -> None:
    dump = parse_dump(system(gpu("0000:01:00.0", 3, rank=ranks[0]) + gpu("0000:02:00.0", 7, rank=ranks[1])))
    assert dump.order.startswith(order)
    assert [gpu.dev for gpu in dump.gpus] == devs


@pytest.mark.parametrize(
    ("speed", "gbps"),
    [
        *(("2.5 GT/s", 3), ("5 GT/s", 6), ("8 GT/s", 12), ("16.0 GT/s PCIe", 24), ("32 GT/s", 48)),
        *(("64.0 GT/s PCIe", 96), ("", 12), ("Unknown speed", 12)),
    ],
)
def test_pcie_is_as_fast_as_nccl_reckons(speed, gbps) -> None:
    assert parse_dump(system(gpu("0000:01:00.0", 0, speed=speed))).gpus[0].pcie_gbps == gbps


def test_a_switch_in_a_switch_of_one_chip_is_one_switch() -> None:
    apart = bridge(
        "a:0:0.0", bridge("b:0:0.0", gpu("1:0:0.0", 0)), bridge("c:0:0.0", nic("2:0:0.0", ("n", 9)))
    )
    assert parse_dump(system(apart)).nic_nearness == ((Nearness.PIX,),)
    other = apart.replace("0xc030", "0x9797")
    assert parse_dump(system(other)).nic_nearness == ((Nearness.PXB,),)


def test_of_ports_on_one_large_switch_the_one_beside_the_gpu_is_nearest() -> None:
    boards = [
        bridge(f"b{k}:0:0.0", gpu(f"{k}:0:0.0", k), nic(f"2{k}:0:0.0", (f"n{k}", 200_000))) for k in (0, 1)
    ]
    machine = make_machine(parse_dump(system(bridge("a:0:0.0", *boards))))
    assert machine.nearest_nics == (("n0",), ("n1",))


def test_ports_that_no_job_uses_are_left_out_and_named() -> None:
    names = (("mlx5_0", 200_000), ("eno1", 10_000), ("docker0", 400_000), ("lo", 1000), ("tunl0", 0))
    dump = parse_dump(system(gpu("1:0:0.0", 0) + nic("2:0:0.0", *names)), "t.xml")
    assert [nic.name for nic in dump.nics or ()] == ["mlx5_0"]
    said = " ".join(dump.warnings)
    assert all(name in said for name in ("eno1", "docker0", "lo", "tunl0"))


def test_a_speed_that_cannot_be_is_told() -> None:
    dump = parse_dump(system(gpu("1:0:0.0", 0) + nic("2:0:0.0", ("cxi0", 200_000_000))), "t.xml")
    assert "t.xml:1: cxi0 states 200000000 Mb/s" in dump.warnings[0]
    assert (dump.nics or ())[0].gbps == 25


def test_a_port_that_each_cpu_names_is_one_port_near_all() -> None:
    """As the socket of a virtual machine is listed."""
    eth0 = '<nic><net name="eth0" speed="10000"/></nic>'
    dump = parse_dump(system(gpu("1:0:0.0", 0) + eth0, gpu("2:0:0.0", 1) + eth0))
    assert [nic.name for nic in dump.nics or ()] == ["eth0"]
    assert make_machine(dump).nearest_nics == (("eth0",), ("eth0",))


def test_halves_of_a_device_share_its_links() -> None:
    link = nvlink("fffffff:ff:ff.0", 36, SWITCH)
    halves = "".join(f'<gpu dev="0" sm="107" mlopart="{i}" rank="{i}">{link}</gpu>' for i in range(2))
    dump = parse_dump(system(f'<pci busid="2:81:0.0" class="0x030200">{halves}</pci>'))
    assert links_of(dump) == {(0, None): 18, (1, None): 18}
    assert "parts of one device" in dump.warnings[0]


def test_gpus_that_should_have_nvlinks_and_have_none_are_told() -> None:
    pair = system(gpu("1:0:0.0", 0) + gpu("2:0:0.0", 1))
    assert "no NVLink is stated for GPUs of sm80" in parse_dump(pair).warnings[0]
    assert not parse_dump(pair.replace('sm="80"', 'sm="89"')).warnings


def test_comments_may_be_frames_of_hyphens() -> None:
    """As in files of RCCL's, which are no XML for it."""
    framed = "<!------\n - Copyright -- somebody\n ------->\n" + system(gpu("1:0:0.0", 0))
    dump = parse_dump(framed, "t.xml")
    assert dump.gpus[0].place.line == 4
    assert dump.warnings == ()


def test_text_around_a_paste_is_left_out_and_lines_stay_right() -> None:
    pasted = "# a page\n```xml\n" + system(gpu("1:0:0.0", 0)) + "\n```\n"
    dump = parse_dump(pasted, "t.xml")
    assert dump.gpus[0].place.line == 3
    assert dump.warnings == ("t.xml:1: text next to <system> is left out",)
    assert parse_dump("<?xml version='1.0'?><!-- c -->\n" + system(gpu("1:0:0.0", 0))).warnings == ()


def test_a_way_up_that_firmware_makes_up_is_no_bottleneck() -> None:
    pairs = [
        bridge(f"b{k}:0:0.0", *(gpu(f"{i}:0:0.0", i) for i in (2 * k, 2 * k + 1)), speed="2.5 GT/s")
        for k in (0, 1)
    ]
    machine = make_machine(parse_dump(system(*pairs).replace('sm="80"', 'sm="89"'))).topology
    path = machine.path(0, 3)
    assert path is not None
    assert path.beta_us_per_mb == pytest.approx(1048.576 / 16)  # what passes between CPUs


def test_more_gpus_than_any_domain_has_are_refused() -> None:
    with pytest.raises(TopologyError, match="more than 1024 GPUs"):
        parse_dump(system("".join(gpu(f"{i:x}:0:0.0", i) for i in range(1025))))


def test_a_link_that_is_down_breaks_the_symmetry() -> None:
    links = [nvlink(f"0000:0{k}:00.0", 2) for k in range(4)]
    ring = [gpu(f"0000:0{k}:00.0", k, links[(k + 1) % 4], links[k - 1]) for k in range(4)]
    whole, broken = (
        make_machine(parse_dump(system("".join(each)))).topology
        for each in (ring, [ring[0].replace('count="2"', 'count="1"', 1), *ring[1:]])
    )
    assert len(automorphisms(whole, limit=20)) == 8
    assert len(automorphisms(broken, limit=20)) == 2


def test_ports_on_a_cpu_without_gpus_are_in_the_machine() -> None:
    ports = bridge("b:0:0.0", nic("c:0:0.0", ("m0", 200_000)), nic("d:0:0.0", ("m1", 200_000)))
    pair = gpu("1:0:0.0", 0) + gpu("2:0:0.0", 1)
    machine = make_machine(parse_dump(system(pair, ports)), nodes=2)
    assert machine.nearest_nics == ((), ())
    assert machine.topology.path(0, 2) is not None


def test_a_width_that_is_not_told_is_that_of_x16() -> None:
    wide = parse_dump(system(gpu("1:0:0.0", 0).replace('link_width="16"', 'link_width="0"')))
    assert wide.gpus[0].pcie_gbps == 24


def test_elements_that_are_not_known_are_skipped_with_what_is_in_them() -> None:
    odd = '<future><gpu dev="9"/></future><pcilink target="x"/>'
    known = gpu("1:0:0.0", 0) + nic("2:0:0.0", ("a", 100_000)).replace("</nic>", '<gin dev="0"/></nic>')
    dump = parse_dump(system(odd + known))
    assert (len(dump.gpus), len(dump.nics or ())) == (1, 1)


def test_a_domain_of_several_hosts_is_told() -> None:
    hidden = nvlink("fffffff:ffff:ff", 18, SWITCH)
    hosts = [f'<cpu host_hash="0x{h}">{gpu("1:0:0.0", 0, hidden, rank=h)}</cpu>' for h in range(2)]
    dump = parse_dump(f'<system version="1">{"".join(hosts)}</system>')
    assert links_of(dump) == {(0, None): 18, (1, None): 18}
    assert any("2 hosts" in warning for warning in dump.warnings)


def test_hosts_of_a_domain_have_no_pcie_between_them() -> None:
    """GPU 3 has lost its links: it reaches the others through its own host only."""
    hidden = nvlink("fffffff:ffff:ff", 18, SWITCH)
    inside = [
        "".join(gpu(f"{i}:0:0.0", i, *([hidden] if h * 2 + i < 3 else []), rank=h * 2 + i) for i in range(2))
        for h in range(2)
    ]
    hosts = [f'<cpu host_hash="0x{h}" numaid="{h}">{text}</cpu>' for h, text in enumerate(inside)]
    machine = make_machine(parse_dump(f'<system version="1">{"".join(hosts)}</system>')).topology
    assert machine.path(0, 2) is not None
    assert machine.path(3, 2) is not None
    assert machine.path(3, 0) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<system version='1'><cpu numaid='0'>\n<gpu dev='0'", "not well-formed"),
        ("<system version='1'>\n</system>", "no <cpu>"),
        ("<system version='1'><cpu numaid='0'/></system>", "no PCI device in it is a GPU"),
        ("<system><cpu numaid='zero'/></system>", "no whole number"),
        (system(gpu("1:0:0.0", 0, nvlink("2:0:0.0", -1))), "count of -1"),
        (system(gpu("1:0:0.0", 0)) * 2, "second element"),
        ("<cpu/><system/>", "first element is <cpu>"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><system/>", "not allowed"),
        ("hello <system>", "not well-formed"),
        (system(gpu("1:0:0.0", 0), "<!-- ... -->"), "elements were left out here"),
        (system(gpu("1:0:0.0", 0), "<!-- 6 more GPUs -->"), "elements were left out here"),
    ],
)
def test_what_is_damaged_is_refused_with_its_line(text, words) -> None:
    with pytest.raises(TopologyError, match=words) as refused:
        parse_dump(text, "t.xml")
    assert refused.value.path == "t.xml"
    assert refused.value.line is not None


FILES = tuple(sorted((DUMPS / "nccl-topo").glob("*.xml")))


@settings(max_examples=60, deadline=None)
@given(dice=st.randoms(use_true_random=False))
def test_a_mutilated_file_is_a_machine_or_an_error_with_its_line(dice: random.Random) -> None:
    """Never a traceback, and never a link that the whole file does not have."""
    file = dice.choice(FILES)
    text = mutilated(file.read_text(encoding="utf-8"), dice)
    try:
        dump = parse_dump(text, "t.xml")
        machine = make_machine(dump)
    except TacclError as error:
        assert error.path == "t.xml"
        return
    assert parse_topology(machine.yaml) == machine.topology


def mutilated(text: str, dice: random.Random) -> str:
    """With lines gone, doubled or swapped, letters changed, or an end missing."""
    lines = text.splitlines(keepends=True)
    for _ in range(dice.randint(1, 4)):
        at, other = dice.randrange(len(lines)), dice.randrange(len(lines))
        what = dice.randrange(5)
        if what == 0 and len(lines) > 1:
            del lines[at]
        elif what == 1:
            lines.insert(at, lines[other % len(lines)])
        elif what == 2:
            lines[at], lines[other % len(lines)] = lines[other % len(lines)], lines[at]
        elif what == 3 and lines[at]:
            letter = dice.randrange(len(lines[at]))
            lines[at] = lines[at][:letter] + dice.choice("0179afx<>\"' -\0\n€") + lines[at][letter + 1 :]
        else:
            number = dice.choice(["0", "-1", "99999999999999999999", "", "x", "1e9", "0x10"])
            head, mark, tail = lines[at].partition('="')
            lines[at] = head + mark + number + ('"' + tail.partition('"')[2] if mark else "")
    return "".join(lines)


def test_a_gpu_reaches_others_no_faster_than_the_bridge_that_it_shares_with_a_nic() -> None:
    """After a box of GPUs of PCIe generation 6 whose switches go up to the CPU by generation 5."""
    fast = [gpu(f"0000:{i}2:00.0", i, speed="64.0 GT/s PCIe") for i in range(2)]
    ports = [nic(f"0000:{i}3:00.0", (f"mlx5_bond_{i}", 400_000), speed="64.0 GT/s PCIe") for i in range(2)]
    boxes = [bridge(f"0000:{i}1:00.0", fast[i], ports[i]) for i in range(2)]
    machine = make_machine(parse_dump(system(*boxes).replace('sm="80"', 'sm="120"')))
    assert machine.gpu_gbps == (48.0, 48.0)

"""Several dumps of one node: each adds what it knows, and two that cannot both be true are an error."""

from __future__ import annotations

from dataclasses import replace

import pytest
from verdicts import DUMPS

from taccl.errors import TopologyError
from taccl.support.tables import FileLine
from taccl.topologies.importers.nodes.facts import Dump, Gpu, GpuLink, Nearness, Nic
from taccl.topologies.importers.nodes.machine import make_machine
from taccl.topologies.importers.nodes.merge import merge
from taccl.topologies.importers.nodes.registry import read_dump

_LOG = "nccl-log/a100-2gpu-nvlink-graph.txt"
PIX, NODE, SYS = Nearness.PIX, Nearness.NODE, Nearness.SYS


def at(line: int, path: str = "a") -> FileLine:
    return FileLine(path, line)


def gpus(*busids: str | None, path: str = "a", model: str | None = None) -> tuple[Gpu, ...]:
    return tuple(Gpu(at(i + 1, path), busid=busid, dev=i, model=model) for i, busid in enumerate(busids))


#: Two GPUs with four links, as a topology file tells them, and a NIC next to GPU 0.
PAIR = Dump(
    "xml",
    gpus("0000:01:00.0", "0000:02:00.0"),
    nics=(Nic(at(9), "mlx5_0", 25.0),),
    links=(GpuLink(at(5), 0, 1, "nvlink", 4),),
    has_switch=False,
    nic_nearness=((PIX,), (SYS,)),
    nearest_nics=((0,), ()),
    order="by rank",
    warnings=("one",),
)


def listed(*counts: int, rate: float = 25.0, path: str = "b") -> Dump:
    """A list of how many links each GPU has, and of what model it is."""
    return Dump(
        "list",
        gpus(*(None for _ in counts), path=path, model="A100-SXM4-80GB"),
        links=tuple(
            GpuLink(at(10 + i, path), i, None, "nvlink", count, rate, is_raw=True)
            for i, count in enumerate(counts)
            if count
        ),
        has_switch=None,
    )


def matrix(near: Nearness = SYS, *, names: tuple[str, ...] = ("mlx5_0",), count: int | None = 4) -> Dump:
    """A matrix of the same two GPUs, without speeds."""
    links = () if count == 0 else (GpuLink(at(2, "b"), 0, 1, "nvlink", count),)
    return Dump(
        "matrix",
        gpus(None, None, path="b"),
        nics=tuple(Nic(at(3, "b"), name) for name in names),
        links=links,
        has_switch=False,
        nic_nearness=((PIX, *[SYS] * (len(names) - 1)), (near, *[SYS] * (len(names) - 1))),
        warnings=("two",),
    )


def test_one_dump_is_itself() -> None:
    assert merge([PAIR]) is PAIR


def test_what_one_does_not_tell_the_other_does() -> None:
    whole = merge([PAIR, listed(4, 4)])
    assert whole.format == "xml+list"
    assert [gpu.model for gpu in whole.gpus] == ["A100-SXM4-80GB"] * 2
    assert [gpu.busid for gpu in whole.gpus] == ["0000:01:00.0", "0000:02:00.0"]
    assert whole.links == (GpuLink(at(5), 0, 1, "nvlink", 4, 25.0, is_raw=True),)
    assert (whole.nics, whole.nearest_nics, whole.has_switch) == (PAIR.nics, PAIR.nearest_nics, False)
    assert make_machine(whole).gpu_gbps == (80.0, 80.0)


@pytest.mark.parametrize("dumps", [[PAIR, listed(4, 4)], [listed(4, 4), PAIR]])
def test_the_order_of_files_changes_nothing_that_they_tell(dumps: list[Dump]) -> None:
    whole = merge(dumps)
    assert {(link.a, link.b, link.count, link.gbps) for link in whole.links or ()} == {(0, 1, 4, 25.0)}
    assert make_machine(whole).nearest_nics == (("mlx5_0",), ())


def test_gpus_are_the_same_by_bus_id_before_all_else() -> None:
    turned = replace(
        listed(3, 4),
        gpus=(Gpu(at(1, "b"), busid="0000:02:00.0", dev=0), Gpu(at(2, "b"), busid="0000:01:00.0", dev=1)),
    )
    with pytest.raises(TopologyError, match="GPU 1 has 3 links, but a:5 says: it has 4"):
        merge([PAIR, turned])


def test_a_fragment_tells_of_the_gpus_that_it_has() -> None:
    one = replace(listed(4), gpus=(Gpu(at(1, "b"), dev=1, model="A100"),))
    assert [gpu.model for gpu in merge([PAIR, one]).gpus] == [None, "A100"]


def test_warnings_of_both_stay() -> None:
    assert merge([PAIR, matrix()]).warnings == ("one", "two")


def test_ports_of_both_are_ports_of_the_node() -> None:
    whole = merge([PAIR, matrix(names=("mlx5_0", "mlx5_1"))])
    assert [(nic.name, nic.gbps) for nic in whole.nics or ()] == [("mlx5_0", 25.0), ("mlx5_1", None)]
    assert whole.nic_nearness == ((PIX, SYS), (SYS, SYS))
    assert whole.warnings[-1] == "b:3: mlx5_1 is in this file only"


def test_ports_without_names_are_none_beside_ports_with_names() -> None:
    for dumps in ([PAIR, matrix(names=("NIC0",))], [matrix(names=("NIC0",)), PAIR]):
        whole = merge(dumps)
        assert [nic.name for nic in whole.nics or ()] == ["mlx5_0"]
        assert any("NICs without names" in warning for warning in whole.warnings)


def test_a_count_that_is_not_told_agrees_with_any() -> None:
    assert merge([PAIR, matrix(count=None)]).links == PAIR.links
    assert (merge([matrix(count=None), PAIR]).links or ())[0].count == 4


def test_a_switch_is_told_by_the_one_that_knows() -> None:
    switched = replace(
        PAIR, links=tuple(GpuLink(at(5), i, None, "nvlink", 12) for i in range(2)), has_switch=True
    )
    whole = merge([listed(12, 12), switched])
    assert whole.has_switch
    assert make_machine(whole).gpu_gbps == (240.0, 240.0)


@pytest.mark.parametrize(
    ("later", "line", "words"),
    [
        (listed(4, 3), 11, "GPU 1 has 3 links, but a:5 says: it has 4"),
        (listed(6, 6), 10, "GPU 0 has 6 links, but a:5 says: it has 4"),
        (listed(4, 0), 2, "GPU 1 has 0 links, but a:5 says: it has 4"),
        (matrix(count=2), 2, "between GPU 0 and GPU 1 are 2 links, but a:5 says: there are 4"),
        (matrix(count=0), None, "between GPU 0 and GPU 1 are 4 links, but b:1 says: there are none"),
        (matrix(PIX), 2, "mlx5_0 is PIX from GPU 1, but a:2 says: it is SYS"),
        (listed(4, 4, 4), 1, "3 GPUs, but a:1 says: these are not among the 2 GPUs"),
        (
            Dump("x", gpus("0000:01:00.0", "0000:77:00.0", path="b")),
            2,
            "GPU 1 has bus id 0000:77:00.0, but a:2 says: it has bus id 0000:02:00.0",
        ),
        (
            replace(matrix(), has_switch=True, links=(GpuLink(at(2, "b"), 0, None, "nvlink", 4),)),
            2,
            "links lead to a switch, but a:5 says: they lead from GPU to GPU",
        ),
        (replace(matrix(), nics=(Nic(at(3, "b"), "mlx5_0", 50.0),)), 3, "mlx5_0 has 50 GB/s, but a:9 says"),
    ],
)
def test_a_contradiction_names_both_lines(later: Dump, line: int | None, words: str) -> None:
    with pytest.raises(TopologyError, match=words) as refused:
        merge([PAIR, later])
    if line is not None:
        assert (refused.value.path, refused.value.line) == ("b", line)


def test_a_gpu_may_have_more_links_than_lead_to_the_gpus_told() -> None:
    """Of a POWER9's GPU, links lead to the CPU too; of four GPUs of a cube mesh, to the other four."""
    for whole in (merge([PAIR, listed(12, 12)]), merge([listed(12, 12), PAIR])):
        assert [(link.a, link.b, link.count) for link in whole.links or ()] == [(0, 1, 4)]
        assert "b:10: GPU 0 has 12 links, and 4 of them lead to these GPUs" in " ".join(whole.warnings)


def test_two_gpus_of_which_only_some_links_lead_to_each_other_have_no_switch_between_them() -> None:
    to_each_other = replace(listed(2, 2, path="a"), gpus=gpus(None, None))
    whole = merge([to_each_other, listed(12, 12)])
    assert [(link.a, link.b, link.count) for link in whole.links or ()] == [(0, 1, 2)]
    assert whole.has_switch is False
    assert "a:10: each GPU has 12 links, and 2 of them" in whole.warnings[-1]


def test_real_files_of_one_machine_agree() -> None:
    """The topology and the log of one job, and of another machine its topology, mask and plan."""
    two = merge([read_dump(DUMPS / name) for name in ("nccl-topo/2gpu-nvlink-up.xml", _LOG)])
    assert make_machine(two).gpu_gbps == (240.0, 240.0)
    assert [nic.name for nic in two.nics or ()] == ["mlx5_0+mlx5_1"]
    names = ("nccl-graph/azure-ncv4-graph.xml", "nccl-topo/azure-ncv4-a100-pcie.xml")
    four = merge([read_dump(DUMPS / name) for name in (*names, "smi-p2p/2pairs-topo-p2p.txt")])
    assert make_machine(four).gpu_gbps == (240.0,) * 4
    of_itself, of_the_mask = four.warnings
    assert "every GPU states links to itself" in of_itself
    assert "4 pairs of GPUs may not reach each other" in of_the_mask


def test_a_link_that_is_down_in_one_of_two_files_is_a_contradiction() -> None:
    with pytest.raises(TopologyError, match=r"2gpu-nvlink-down\.xml:5 says: there are 1") as refused:
        merge([read_dump(DUMPS / name) for name in ("nccl-topo/2gpu-nvlink-down.xml", _LOG)])
    assert refused.value.line is not None


def test_models_and_architectures_must_be_the_same() -> None:
    known = replace(PAIR, gpus=tuple(replace(gpu, arch="sm90") for gpu in PAIR.gpus))
    with pytest.raises(TopologyError, match="architecture sm80, but a:1 says: it has architecture sm90"):
        merge([known, listed(4, 4)])

"""Real output of NVIDIA's tools, alone and together, agrees with what people found in it."""

from __future__ import annotations

import pytest
from verdicts import DUMPS, Verdict, ports

from taccl.topologies.importers.nodes.machine import make_machine
from taccl.topologies.importers.nodes.merge import merge
from taccl.topologies.importers.nodes.registry import parse_dump, read_dump

VERDICTS = (
    Verdict("smi-topo/a100-8-nonic-nolegend.txt", 8, 0, 240.0, ports("-", each=8), to_switch=12, peak=300.0),
    Verdict(
        *("smi-topo/a800-8-4nic.txt", 8, 4, 160.0),
        ports("mlx5_0 mlx5_1", "mlx5_0", "mlx5_0 mlx5_1", "mlx5_1") + ports("mlx5_2 mlx5_3", each=4),
        to_switch=8,
        peak=200.0,
        warned=("8 NVLinks of a GPU are of the A800 or of the H800",),
    ),
    Verdict(
        *("smi-topo/h200-8-10nic-ansi.txt", 8, 10, 370.8),
        ports("mlx5_3", "mlx5_5", "mlx5_4", "mlx5_0 mlx5_1 mlx5_2", "mlx5_7", "mlx5_9", "mlx5_8", "mlx5_6"),
        to_switch=18,
        peak=450.0,
        warned=("18 NVLinks of a GPU are of Hopper or of Blackwell",),
    ),
    Verdict(
        *("smi-topo/rtx6000ada-4-4nic.txt", 4, 4, 12.0),
        ports("mlx5_0 mlx5_1", "mlx5_2 mlx5_3", each=2),
        warned=("no NVLink stands in this table",),
    ),
    Verdict(
        *("smi-nvlink/a100-8.txt", 8, 0, 240.0),
        ports("-", each=8),
        to_switch=12,
        peak=300.0,
        warned=("no board joins this many directly",),
    ),
    Verdict("smi-nvlink/azure-good.txt", 1, 0, 240.0, ports("-"), None, peak=300.0),
    Verdict("smi-p2p/2pairs-topo-p2p.txt", 4, 0, None, ports("-", each=4), warned=("no file tells whether",)),
    Verdict("smi-p2p/8gpu-topo-p2p-r.txt", 8, 0, None, ports("-", each=8), warned=("no file tells whether",)),
    Verdict(
        *("nccl-log/a100-2gpu-nvlink-graph.txt", 2, 1, 240.0),
        ports("mlx5_0+mlx5_1", each=2),
        {(0, 1): 12},
        peak=300.0,
    ),
    Verdict("nccl-log/a100-pcie-2node-sendrecv-small.txt", 1, 1, 24.0, ports("mlx5_2")),
)


@pytest.mark.parametrize("verdict", VERDICTS, ids=str)
def test_a_real_file_agrees_with_its_verdict(verdict: Verdict) -> None:
    machine = make_machine(read_dump(DUMPS / verdict.file))
    reported = machine.to_dict()
    assert (reported["gpus"], reported["nics"]) == (verdict.gpus, verdict.nics)
    assert reported["nvswitch"] == (verdict.to_switch > 0)
    assert machine.gpu_gbps == pytest.approx((verdict.gbps,) * verdict.gpus)
    assert machine.nearest_nics == verdict.nearest
    links = machine.dump.links or ()
    if verdict.links is not None:
        assert {(link.a, link.b): link.count for link in links if link.b is not None} == verdict.links
        at_switch = {link.a: link.count for link in links if link.b is None}
        assert at_switch == (
            dict.fromkeys(range(verdict.gpus), verdict.to_switch) if verdict.to_switch else {}
        )
    assert all(any(words in warning for warning in machine.warnings) for words in verdict.warned)
    assert bool(machine.warnings) == bool(verdict.warned)
    if verdict.peak is not None:
        peak = make_machine(read_dump(DUMPS / verdict.file), bandwidth="peak").gpu_gbps
        assert peak == pytest.approx((verdict.peak,) * verdict.gpus)


def matrix(gpus: int, cell: str) -> str:
    names = [f"GPU{gpu}" for gpu in range(gpus)]
    rows = [f"{a} " + " ".join("X" if a == b else cell for b in names) for a in names]
    return "\n".join([" ".join(names), *rows])


def listed(gpus: int, model: str, links: int) -> str:
    return "\n".join(
        line
        for gpu in range(gpus)
        for line in (
            f"GPU {gpu}: {model} (UUID: GPU-{gpu})",
            *(f"\t Link {link}: 25 GB/s" for link in range(links)),
        )
    )


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("gpus", "cell", "model", "links", "switched"),
    [
        (4, "NV6", "Tesla V100-SXM3-32GB", 6, True),  # a part of a DGX-2
        (4, "NV2", "Tesla V100-SXM2-16GB", 6, False),
        (8, "NV12", "NVIDIA A100-SXM4-80GB", 12, True),
        (4, "NV4", "NVIDIA A100-SXM4-40GB", 12, False),
        (2, "NV4", "NVIDIA RTX A6000", 4, False),
    ],
)
def test_a_matrix_and_a_list_together_settle_where_links_lead(
    gpus: int, cell: str, model: str, links: int, switched: bool, order: int
) -> None:
    dumps = [parse_dump(matrix(gpus, cell), "m.txt"), parse_dump(listed(gpus, model, links), "l.txt")]
    machine = make_machine(merge(dumps[::order]))
    assert machine.dump.has_switch is switched
    assert len(machine.dump.links or ()) == (gpus if switched else gpus * (gpus - 1) // 2)
    assert machine.dump.gpus[0].model == model.removeprefix("NVIDIA ")

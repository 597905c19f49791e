"""Square tables of costs between nodes."""

from pathlib import Path

import pytest

from taccl.errors import TopologyError
from taccl.topologies import load_topology

MACHINE = """\
name: cloud
nodes: 3
node: {gpus: 1, nics: 1, links: [{from: gpus, to: nics, alpha_us: 0, bandwidth_gbps: 10}]}
fabric: {alpha_us: latency.csv, bandwidth_gbps: bandwidth.csv}
"""
LATENCY = "# us\n0, 5, 6\n7, 0, 8\n9, 10, 0\n"
BANDWIDTH = "- 1 2\n3 - 4\n5 2.5 -\n"


def written(folder: Path, latency: str = LATENCY, bandwidth: str = BANDWIDTH, machine: str = MACHINE) -> Path:
    for name, text in (("latency.csv", latency), ("bandwidth.csv", bandwidth), ("cloud.yaml", machine)):
        (folder / name).write_text(text)
    return folder / "cloud.yaml"


def test_each_pair_has_the_costs_of_its_cells(tmp_path: Path) -> None:
    machine = load_topology(written(tmp_path))
    for src, dst, alpha_us, gbps in ((0, 1, 5, 1), (1, 0, 7, 3), (2, 1, 10, 2.5)):
        path = machine.path(src, dst)
        assert path is not None
        assert path.alpha_us == alpha_us
        assert path.beta_us_per_mb == pytest.approx(2**20 / (gbps * 1e3))
    one = load_topology(written(tmp_path, machine=MACHINE.replace("latency.csv", "4")))
    path = one.path(2, 0)
    assert path is not None
    assert path.alpha_us == 4
    two = load_topology(written(tmp_path), 2)
    assert two.num_members == 2


@pytest.mark.parametrize(
    ("latency", "bandwidth", "said"),
    [
        ("0 1 2\n1 0\n2 1 0\n", BANDWIDTH, r"latency.csv:2: .*not square"),
        ("0 1\n1 0\n", BANDWIDTH, "2 rows, and there are 3 nodes"),
        (LATENCY.replace("8", "x"), BANDWIDTH, r"latency.csv:3: 'x' is no number"),
        (LATENCY.replace("8", "-1"), BANDWIDTH, r"latency.csv:3: an alpha of -1"),
        (LATENCY, BANDWIDTH.replace("4", "0"), r"bandwidth.csv:\d: bandwidth_gbps must be positive"),
    ],
)
def test_wrong_tables_are_refused(tmp_path: Path, latency: str, bandwidth: str, said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        load_topology(written(tmp_path, latency, bandwidth))


def test_tables_and_levels_do_not_go_together(tmp_path: Path) -> None:
    levels = MACHINE.replace("bandwidth.csv}", "bandwidth.csv, levels: [{name: spine}]}")
    with pytest.raises(TopologyError, match="costs in files"):
        load_topology(written(tmp_path, machine=levels))

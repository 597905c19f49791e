"""Whether a testbed keeps its rates: what is measured, what is off, and links of a real one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from test_testbed_design import TWO_NODES, can_build

from taccl import load_topology
from taccl.cli.main import main
from taccl.deployment.testbed.checking import check, equal_shares
from taccl.deployment.testbed.design import design_of
from taccl.support.schemas import json_schema


@pytest.fixture
def two_nodes(tmp_path):
    (tmp_path / "two.yaml").write_text(TWO_NODES)
    return load_topology(tmp_path / "two.yaml")


def test_flows_share_the_tightest_link_first():
    paths = [["a", "b"], ["b"], ["b"], ["c"]]
    assert equal_shares(paths, {"a": 1.0, "b": 9.0, "c": 7.0}) == [1.0, 4.0, 4.0, 7.0]
    assert equal_shares([["free"]], {}) == [float("inf")]


def test_every_link_is_measured_and_the_slow_one_is_off(two_nodes):
    design = design_of(two_nodes, 1 / 1000)

    def measure(flows, expected_bits):
        slow = flows[0].source[1] == design.wires[0].ends[0].address
        return [expected_bits / len(flows) * (0.9 if slow else 1)] * len(flows)

    found = check(two_nodes, design, measure=measure)
    assert len(found.links) == 2 * len(design.wires)
    shared = {(link.src, link.dst): link.flows for link in found.links if link.flows}
    assert shared["node0.nic0", "fabric"] == 4
    assert ("node0.gpu0", "node0.gpu1") not in shared
    first = found.links[0]
    assert first.alone_gbps == pytest.approx(0.9 * first.rate_gbps)
    assert not found.ok
    Draft202012Validator(json_schema("taccl.testbed/1")).validate(found.to_dict())


@pytest.mark.parametrize("words", [["ring:3"], ["ring:3", "--check", "--", "true"]])
def test_a_command_or_the_check_but_not_both(words):
    done = CliRunner().invoke(main, ["testbed", *words])
    assert done.exit_code == 2
    assert "--check" in done.stderr


@pytest.mark.skipif(
    not can_build(), reason="no network namespaces here: root and the kernel's veth and tbf are needed"
)
def test_links_of_a_testbed_carry_bytes():
    """How many is looked at with a wide tolerance: who else computes here is not known."""
    command = ["testbed", "ring:2", "--scale", "1/5000", "--check", "--json", "--tolerance", "0.9"]
    ran = subprocess.run(
        [sys.executable, "-m", "taccl", *command],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    shown = json.loads(ran.stdout)
    assert [(link["src"], link["dst"]) for link in shown["links"]] == [("gpu0", "gpu1"), ("gpu1", "gpu0")]

"""`taccl topology import --cluster`: the network of a machine file, on the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Taccl = Callable[..., Result]

CONF = "SwitchName=top Switches=l[1-2]\nSwitchName=l1 Nodes=n[1-2]\nSwitchName=l2 Nodes=n[3-4]\n"
MACHINE = """# a box
name: box
nodes: 1
node:
  gpus: 2
  nics: 2
  links:
    - {from: gpus, to: nics, match: even, alpha_us: 0, bandwidth_gbps: 25}  # a comment
fabric:
  alpha_us: 2
  bandwidth_gbps: 25

# the end
"""


@pytest.fixture
def inputs(taccl: Taccl) -> Taccl:
    Path("t.conf").write_text(CONF)
    Path("box.yaml").write_text(MACHINE)
    return taccl


def test_without_a_machine_the_keys_are_printed(inputs: Taccl) -> None:
    done = inputs("topology", "import", "--cluster", "t.conf")
    assert done.exit_code == 0
    assert "slurm-tree: 4 hosts, switches: 2 leaf, 1 spine" in done.stdout
    assert "  # nodes 0-1: n[1-2]" in done.stdout
    assert "oversubscription: 1  # assumed: the file tells no number of uplinks" in done.stdout


def test_the_network_goes_into_a_machine_and_the_rest_stays(inputs: Taccl) -> None:
    done = inputs("topology", "import", "--cluster", "t.conf", "--into", "box.yaml", "-o", "new.yaml")
    assert done.exit_code == 0, done.stderr
    text = Path("new.yaml").read_text()
    assert text.startswith("# a box\nname: box\nnodes: 4  # read: t.conf\n")
    assert "# a comment" in text
    assert text.endswith("# the end\n")
    assert "alpha_us: 2  # read: box.yaml:10" in text
    shown = json.loads(inputs("topology", "show", "new.yaml", "--json").stdout)
    assert (shown["nodes"], shown["ranks"]) == (4, 8)
    assert {path["alpha_us"] for path in shown["paths"]} == {2.0, 2.5}


def test_the_network_can_be_put_in_twice(inputs: Taccl) -> None:
    inputs("topology", "import", "--cluster", "t.conf", "--into", "box.yaml", "-o", "one.yaml")
    again = inputs("topology", "import", "--cluster", "t.conf", "--into", "one.yaml", "-o", "two.yaml")
    assert again.exit_code == 0, again.stderr
    assert Path("two.yaml").read_text().count("\n") == Path("one.yaml").read_text().count("\n")


def test_a_domain_takes_the_switch_of_the_node(inputs: Taccl) -> None:
    Path("tray.yaml").write_text(
        "name: tray\nnode:\n  gpus: 2\n  nics: 1\n  switches: [nvs]\n  links:\n"
        "    - {from: gpus, to: nvs, alpha_us: 0.3, bandwidth_gbps: 400}\n"
        "    - {from: gpus, to: nics, alpha_us: 0, bandwidth_gbps: 50}\n"
    )
    Path("blocks.conf").write_text("BlockName=b Nodes=n[1-2]\nBlockName=c Nodes=n[3-4]\n")
    done = inputs(
        *("topology", "import", "--cluster", "blocks.conf", "--blocks-are-nvlink"),
        *("--into", "tray.yaml", "-o", "new.yaml"),
    )
    assert done.exit_code == 0, done.stderr
    assert "domain:\n  switch: nvs" in Path("new.yaml").read_text()


def test_trays_of_one_domain_need_no_nic(inputs: Taccl) -> None:
    Path("tray.yaml").write_text(
        "name: tray\nnode:\n  gpus: 2\n  switches: [nvs]\n  links:\n"
        "    - {from: gpus, to: nvs, alpha_us: 0.3, bandwidth_gbps: 400}\n"
    )
    Path("netq.json").write_text(
        '[{"DomainUUID": "u", "Name": "a", "LocationInfo": {"SlotID": 2}}, '
        '{"DomainUUID": "u", "Name": "b", "LocationInfo": {"SlotID": 1}}]'
    )
    done = inputs("topology", "import", "--cluster", "netq.json", "--into", "tray.yaml", "-o", "new.yaml")
    assert done.exit_code == 0, done.stderr
    assert "nodes 0-1: b,a" in Path("new.yaml").read_text()
    shown = json.loads(inputs("topology", "show", "new.yaml", "--json").stdout)
    assert shown["devices"] == "4 gpu, 1 switch"


def test_hosts_and_nodes_choose(inputs: Taccl) -> None:
    done = inputs(
        "topology", "import", "--cluster", "t.conf", "--hosts", "n4,n[1-3]", "--nodes", "3", "--json"
    )
    assert json.loads(done.stdout)["nodes"] == ["n4", "n1", "n2"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--cluster", "none.conf"), "none.conf: there is no such file"),
        (("--cluster", "box.yaml"), "no file of a cluster that is known here"),
        (("--cluster", "t.conf", "--hosts", "n9"), "t.conf: no host 'n9' is in the file"),
        (("--cluster", "t.conf", "--hosts", "n[1-"), "t.conf: 'n[1-' is no list of names"),
        (("--cluster", "t.conf", "--nodes", "5"), "t.conf: the file tells of 4 such hosts, not of 5"),
        (("--cluster", "t.conf", "--choose", "x"), "one topology without a name, not 'x'"),
        (("--cluster", "t.conf", "--nics", "mlx5_0"), "no host of the file has a NIC 'mlx5_0'"),
        (("--cluster", "t.conf", "--into", "t.conf"), "t.conf"),
        (("--cluster", "t.conf", "--into", "flat.yaml"), "a machine without 'node'"),
        (("--cluster", "t.conf", "--into", "bare.yaml"), "the node has no NIC"),
        (("--cluster", "t.conf", "--into", "huge.yaml"), "with this network the machine cannot be"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(inputs: Taccl, words: tuple[str, ...], says: str) -> None:
    Path("flat.yaml").write_text("name: f\ngpus: 2\nlinks: []\n")
    Path("bare.yaml").write_text("name: b\nnode:\n  gpus: 2\n")
    Path("huge.yaml").write_text("name: h\nnode:\n  gpus: 5000\n  nics: 1\n")
    done = inputs("topology", "import", *words, "-o", "out.yaml")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not Path("out.yaml").exists()


DUMP = """<system version="1"><cpu numaid="0">
<pci busid="1:0:0.0" class="0x030200"><gpu dev="0" sm="90">
<nvlink target="2:0:0.0" count="4" tclass="0x030200"/></gpu></pci>
<pci busid="2:0:0.0" class="0x030200"><gpu dev="1" sm="90"/></pci>
<pci busid="3:0:0.0" class="0x020000"><nic><net name="mlx5_1" dev="0" speed="100000" port="1"/></nic></pci>
</cpu></system>
"""
LINES = """
CA 1 1 0xb0 4x EDR - SW 2 1 0xa1 ( 'n1 mlx5_0' - 'leaf1' )
CA 1 1 0xb1 4x EDR - SW 2 1 0xa2 ( 'n1 mlx5_1' - 'leaf2' )
CA 2 1 0xb2 4x EDR - SW 2 2 0xa1 ( 'n2 mlx5_0' - 'leaf1' )
CA 2 1 0xb3 4x EDR - SW 2 2 0xa2 ( 'n2 mlx5_1' - 'leaf2' )
"""


def test_a_node_and_its_cluster_are_one_machine(inputs: Taccl) -> None:
    Path("node.xml").write_text(DUMP)
    Path("net.txt").write_text(LINES)
    done = inputs("topology", "import", "node.xml", "--cluster", "net.txt", "-o", "all.yaml", "--json")
    assert done.exit_code == 0, done.stderr
    reported = json.loads(done.stdout)
    assert reported["gpus"] == 2
    assert reported["cluster"]["nics"] == ["mlx5_1"]  # the node's, by their names
    assert reported["cluster"]["nodes"] == ["n1", "n2"]
    shown = json.loads(inputs("topology", "show", "all.yaml", "--json").stdout)
    assert (shown["nodes"], shown["ranks"]) == (2, 4)


def test_nics_of_other_names_are_those_of_the_node_in_order(inputs: Taccl) -> None:
    Path("node.xml").write_text(DUMP)
    Path("net.txt").write_text(LINES.replace("n2 mlx5_", "n2 HCA-"))
    done = inputs("topology", "import", "node.xml", "--cluster", "net.txt", "--nics", "HCA-1", "--json")
    assert json.loads(done.stdout)["cluster"]["nodes"] == ["n2"]
    both = inputs("topology", "import", "node.xml", "--cluster", "net.txt")
    assert both.exit_code == 2
    assert "the node has 1 NICs, but n1 has 2" in both.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "Missing argument 'FILE...', or --cluster"),
        (("box.yaml", "--hosts", "n1"), "--hosts goes with --cluster"),
        (("box.yaml", "--cluster", "t.conf", "--into", "box.yaml"), "not both"),
    ],
)
def test_options_without_a_meaning_are_refused(inputs: Taccl, words: tuple[str, ...], says: str) -> None:
    done = inputs("topology", "import", *words)
    assert done.exit_code == 2
    assert says in done.stderr

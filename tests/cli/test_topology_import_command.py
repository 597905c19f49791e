"""`taccl topology import`: files in, a machine file that other commands take out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from taccl.topologies import load_topology

Taccl = Callable[..., Result]

GPUS = "".join(
    f'<pci busid="0000:{at}7:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">'
    f'<gpu dev="{at - 1}" sm="90" rank="{at - 1}">'
    '<nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/></gpu></pci>'
    for at in (1, 2, 3, 4)
)
NIC = (
    '<pci busid="0000:99:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">'
    '<nic><net name="mlx5_0" speed="{mbps}"/></nic></pci>'
)
FOUR = f'<system version="1"><cpu numaid="0">{GPUS}{NIC.format(mbps=400000)}</cpu></system>'
NO_NIC = f'<system version="1"><cpu numaid="0">{GPUS}</cpu></system>'


@pytest.fixture
def four(taccl: Taccl) -> Taccl:
    """The command in a folder with a dump of four GPUs behind a switch."""
    Path("four.xml").write_text(FOUR)
    return taccl


def test_json_has_the_keys_that_scripts_read(four: Taccl) -> None:
    reported = json.loads(four("topology", "import", "four.xml", "--json").stdout)
    assert (reported["gpus"], reported["nics"], reported["nvswitch"]) == (4, 1, True)
    assert reported["gpu_gbps"] == [370.8] * 4
    link = {"gpu": 0, "peer": None, "kind": "nvlink", "count": 18, "total_gbps": 370.8}
    assert reported["links"] == [link | {"gpu": gpu} for gpu in range(4)]
    assert reported["nearest_nics"] == [["mlx5_0"]] * 4
    assert {row["how"] for row in reported["values"]} == {"read", "inferred", "assumed"}
    assert all(row["source"] for row in reported["values"])


def test_the_machine_file_is_one_that_commands_take(four: Taccl) -> None:
    made = four("topology", "import", "four.xml", "--nodes", "3", "-o", "machine.yaml")
    assert made.exit_code == 0, made.stderr
    machine = load_topology("machine.yaml")
    assert (machine.num_members, machine.num_helpers) == (12, 6)  # an NVSwitch of Hopper sums, and copies
    assert four("topology", "show", "machine.yaml").exit_code == 0
    bound = four("bound", "--topology", "machine.yaml", "--size", "64MB")
    assert bound.exit_code == 0, bound.stderr


def test_every_number_of_the_machine_file_says_how_it_is_known(four: Taccl) -> None:
    text = four("topology", "import", "four.xml", "-o", "-").stdout
    numbers = [line for line in text.splitlines() if "alpha_us:" in line or "bandwidth_gbps:" in line]
    assert len(numbers) >= 6
    for line in numbers:
        how = line.partition("#")[2].split()[0]
        assert how.strip(":") in ("read", "inferred", "assumed"), line


@pytest.mark.parametrize(
    ("options", "gpu_gbps", "alpha"),
    [
        ((), 370.8, 0.35),
        (("--bandwidth", "peak"), 450.0, 0.35),
        (("--protocol", "Simple"), 370.8, 1.7),
        (("--protocol", "LL"), 370.8, 0.3),
    ],
)
def test_bandwidth_and_protocol_choose_the_constants(
    four: Taccl, options: tuple[str, ...], gpu_gbps: float, alpha: float
) -> None:
    reported = four("topology", "import", "four.xml", "-o", "machine.yaml", "--json", *options)
    assert json.loads(reported.stdout)["gpu_gbps"] == [gpu_gbps] * 4
    link = next(link for link in load_topology("machine.yaml").links if link.dst.endswith("nvswitch"))
    assert link.alpha_us == pytest.approx(alpha)
    assert link.beta_us_per_mb == pytest.approx(1048.576 / gpu_gbps)


def test_names_of_files_and_ports_cannot_break_the_machine_file(taccl: Taccl) -> None:
    text = FOUR.replace("mlx5_0", "no: [x], #&quot;\u2028nic")
    name = Path('a: "b" #c\u2028d.xml')
    name.write_text(text, encoding="utf-8")
    made = taccl("topology", "import", name, "--nodes", "2", "-o", "machine.yaml")
    assert made.exit_code == 0, made.stderr
    assert load_topology("machine.yaml").nic_count(0) == 1


def test_a_contradiction_is_an_error_with_both_lines(four: Taccl) -> None:
    Path("later.xml").write_text("\n\n" + FOUR.replace("400000", "100000"))
    refused = four("topology", "import", "four.xml", "later.xml", "-o", "machine.yaml")
    assert refused.exit_code == 2
    assert "later.xml:3: mlx5_0 has 12.5 GB/s, but four.xml:1 says: it has 50 GB/s" in refused.stderr
    assert not Path("machine.yaml").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.xml",), "no such file"),
        (("notes.txt",), "notes.txt:1: this is no dump of a machine"),
        (("lonely.xml", "--nodes", "2"), "no NIC"),
        (("four.xml", "-o", "four.xml"), "both an output and an input"),
        (("four.xml", "--nodes", "0"), "0"),
        (("four.xml", "--nodes", "5000"), "at most 4096 GPUs"),
        (("four.xml", "-o", "-", "--json"), "both want standard output"),
    ],
)
def test_what_cannot_be_done_is_an_error_of_the_users(four: Taccl, words: tuple[str, ...], said: str) -> None:
    Path("notes.txt").write_text("hello")
    Path("lonely.xml").write_text(NO_NIC)
    refused = four("topology", "import", *words)
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert Path("four.xml").read_text() == FOUR


@pytest.mark.parametrize("option", ["--nodes", "--bandwidth", "--protocol", "-o"])
@pytest.mark.parametrize("value", ["", "-1", "0x10", "nan", "9" * 5000, "\0", ".", "/", "a/b", "٣"])
def test_no_value_of_an_option_ends_in_a_traceback(four: Taccl, option: str, value: str) -> None:
    done = four("topology", "import", "four.xml", option, value)
    assert done.exit_code in (0, 2)
    assert "internal error" not in done.stderr


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"\x00" * 100, b"\x89PNG\r\n\x1a\n\x00", b"<system" * 9])
def test_no_content_of_a_file_ends_in_a_traceback(taccl: Taccl, data: bytes) -> None:
    Path("any").write_bytes(data)
    refused = taccl("topology", "import", "any")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("error: any:1: ")

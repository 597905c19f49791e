"""The drawing of a machine has all its devices and links, and a browser shows them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Driven, driven, needs_driver

from taccl import PhysicalTopology, load_topology
from taccl.topologies.drawing.page import drawing_of, machine_page

MACHINES = ("ndv2", "dgx-h100", "torus:4x4", "fat-tree:8x8", "l40s", "ring-oneway:8")


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> PhysicalTopology:
    return load_topology(request.param)


def test_all_devices_and_links_are_in_it(machine: PhysicalTopology) -> None:
    drawing = drawing_of(machine)
    devices, links = drawing["devices"], drawing["links"]
    names = devices["name"]
    assert names == [device.name for device in machine.devices]
    ends = [(names[src], names[dst]) for src, dst in zip(links["src"], links["dst"], strict=True)]
    assert ends == [(link.src, link.dst) for link in machine.links]
    assert links["beta"] == [link.beta_us_per_mb for link in machine.links]
    assert [name for name, rank in zip(names, devices["rank"], strict=True) if rank >= 0] == [
        gpu.name for gpu in sorted(machine.gpus, key=lambda gpu: names.index(gpu.name))
    ]


def test_gpus_of_a_mesh_have_places_of_their_own() -> None:
    places = drawing_of(load_topology("torus:4x4"))["places"]
    assert len({tuple(place) for place in places.values()}) == 16
    assert all(0 <= part <= 1 for place in places.values() for part in place)
    assert drawing_of(load_topology("full:16"))["places"] == {}


def test_the_page_asks_for_nothing_else_and_has_the_table_of_links() -> None:
    machine = load_topology("dgx2")
    page = machine_page(machine, {"nodes": 2, "source": None, "name": "</script><b>"})
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(|\bsrc=|<link", page)
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    data = json.loads(found[1])
    assert data["facts"] == [["nodes", "2"], ["name", "</script><b>"]]
    assert [row[:3] for row in data["rows"]] == [
        [each.src_kind, each.dst_kind, str(each.count)] for each in machine.link_classes
    ]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    with driven(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@needs_driver
@pytest.mark.parametrize("width", [1400, 400])
def test_a_browser_draws_every_device_and_pair_of_links(
    machine: PhysicalTopology, width: int, browser: Driven, tmp_path: Path
) -> None:
    path = tmp_path / "machine.html"
    path.write_text(machine_page(machine, {"name": machine.name}), encoding="utf-8")
    browser.open(path, width)
    assert browser.run("document.body.dataset.errors ?? null") is None
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    pairs = {frozenset((link.src, link.dst)) for link in machine.links}
    assert browser.run("document.querySelectorAll('svg.machine .link').length") == len(pairs)
    gpus = sum(device.kind == "gpu" for device in machine.devices)
    assert browser.run("document.querySelectorAll('svg.machine .device.gpu').length") == gpus
    inside = "[...document.querySelectorAll('svg.machine .device rect')].every((each) => "
    inside += "each.getBoundingClientRect().left >= 0 && each.getBoundingClientRect().right <= innerWidth)"
    assert browser.run(inside)


def test_a_grid_is_drawn_in_rows_and_columns_whether_its_ends_are_joined_or_not() -> None:
    rows = [[x / 3, y / 3] for y in range(4) for x in range(4)]
    for name in ("mesh:4x4", "torus:4x4"):
        assert list(drawing_of(load_topology(name))["places"].values()) == rows

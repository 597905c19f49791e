"""The page of formats names those that are read, each once and in its place."""

import re

import pytest
from pages import ROOT

from taccl.calibration.benchmarks.registry import FORMATS as MEASUREMENTS
from taccl.topologies.importers.clusters.imported import FORMATS as FABRICS
from taccl.topologies.importers.nodes.registry import FORMATS as DUMPS

PAGE = (ROOT / "docs" / "machines" / "formats.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("title", "formats"), [("About a node", DUMPS), ("About a cluster", FABRICS), ("Measured", MEASUREMENTS)]
)
def test_the_page_names_the_formats_that_are_read(title: str, formats: tuple) -> None:
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    named = re.findall(r"`([^`]+)`", " ".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)))
    assert sorted(named) == sorted(each.name for each in formats)

"""The notebook in examples/ runs, and shows what is kept in it."""

import json
from pathlib import Path

import pytest
from notebook_cells import shown
from pages import ROOT


def test_the_notebook_shows_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    notebook = json.loads((ROOT / "examples" / "explore.ipynb").read_text(encoding="utf-8"))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    for cell, outputs in shown(notebook):
        kept = cell["outputs"]
        if not any("image/png" in output.get("data", ()) for output in kept):
            assert outputs == kept, "".join(cell["source"])
    assert (tmp_path / "job" / "manifest.json").is_file()

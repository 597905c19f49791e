"""What is too large to build says so at once, and what it says would fit does."""

import re
from pathlib import Path

import pytest

import taccl
from taccl.errors import CollectiveError, TopologyError
from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.support.arguments import shown
from taccl.support.size_limits import MAX_CELLS, MAX_PLACES, check_cells


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("ranks", [2, 16, 600])
def test_the_number_of_chunks_that_would_fit_is_the_largest_that_does(name: str, ranks: int) -> None:
    with pytest.raises(CollectiveError, match="too large to build") as refused:
        make_collective(name, ranks, 10**9)
    most = int(re.fullmatch(r"--chunks (\d+) or fewer", refused.value.hint or "")[1])
    for chunks, fits in ((most, True), (most + 1, False)):
        collective = None
        try:
            collective = make_collective(name, ranks, chunks)
            check_cells(name, ranks, chunks, collective.num_chunks)
        except CollectiveError:
            assert not fits
            continue
        assert fits
        assert len(collective.inputs) <= MAX_PLACES
        if name not in ("alltoall", "gather", "scatter"):  # of which nobody has a table
            assert collective.num_chunks * ranks <= MAX_CELLS


@pytest.mark.parametrize(
    ("request_", "words", "hint"),
    [
        ({"topology": "ring:4096", "collective": "alltoall"}, "16777216 chunks", "2048 ranks or fewer"),
        ({"topology": "ring:4096"}, "allgather on 4096 ranks", "2048 ranks or fewer"),
        ({"topology": "ring:4", "chunks": 10**6}, "in 1000000 chunks per rank", "--chunks 262144 or fewer"),
        ({"topology": "ring:4", "chunks": 10**5000}, "more than 60 digits", "--chunks 262144 or fewer"),
        ({"topology": "full:1000"}, "full:1000 has 999000 links", "full:512 or smaller"),
        (
            {"topology": "switch:1000", "size": "1000MB"},
            "999000 links from rank to rank",
            "512 that all reach each other",
        ),
        ({"topology": "torus:1000x1000"}, "2 to 4096 GPUs, not 1000000", None),
        ({"topology": "dgx2", "nodes": 257, "collective": "broadcast"}, "4112 GPUs, and 4096", "fewer nodes"),
        ({"topology": "dgx2", "nodes": 10**9}, "more than 16384 GPUs", None),
    ],
    ids=lambda value: shown(value)[:40],
)
def test_a_request_too_large_to_build_says_what_would_fit(
    request_: dict[str, object], words: str, hint: str | None
) -> None:
    given = {"size": "16384MB"} | request_
    with pytest.raises((CollectiveError, TopologyError), match=re.escape(words)) as refused:
        taccl.make_problem(**given)
    assert hint is None or hint in (refused.value.hint or "")


def test_chunks_of_a_collective_from_a_file_are_counted_too(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("collective: c\nranks: 4\nchunks:\n  - {from: 0, to: all}\n  - {from: 1, to: all}\n")
    with pytest.raises(CollectiveError, match=r"c\.yaml:5: c is too large to build") as refused:
        taccl.make_problem(path, topology="ring:4", size="1MB", chunks=10**6)
    assert refused.value.hint == "fewer --chunks"
    path.write_text("collective: c\nranks: 4\nchunks:\n  - {from: {0: 99999999999999999999}, to: 1}\n")
    with pytest.raises(CollectiveError, match=r"c\.yaml:4: .* must be 2.14748e\+09 or less"):
        taccl.make_problem(path, topology="ring:4", size="1MB")


def test_more_transfers_than_anyone_could_order_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of 8 ranks on a one-way ring each sends 1 + 2 + ... + 7 transfers.
    for name, most in (
        ("taccl.synthesis.formulated.MANY_CHUNKS", 10),
        ("taccl.synthesis.formulated.MAX_TRANSFERS", 223),
    ):
        monkeypatch.setattr(name, most)
    monkeypatch.setattr("taccl.support.size_limits.MAX_TRANSFERS", 223)
    with pytest.raises(CollectiveError, match="more than 223 transfers on this machine") as refused:
        taccl.make_problem("alltoall", topology="ring-oneway:8", size="1MB", chunks=1)
    assert "fewer ranks" in (refused.value.hint or "")
    taccl.make_problem("alltoall", topology="ring:8", size="1MB", chunks=1)  # shorter routes

"""How pages look: prose within 120 characters a line, one title, and a way there from the README."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import PAGES, RESULTS, ROOT, name_of

WIDTH = 120

_ANCHORED = re.compile(r"\]\(([^)#:\s]*)(?:#([^):\s]*))?\)")
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a page with their numbers: no tables, no blocks of code and pictures."""
    in_block = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            in_block = not in_block
        elif not in_block and not line.startswith("|"):
            yield number, line


def too_long(text: str) -> list[int]:
    return [number for number, line in prose(text) if len(line) > WIDTH]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_lines_of_prose_can_be_read_in_a_terminal(page: Path) -> None:
    assert not too_long(page.read_text(encoding="utf-8")), f"lines of more than {WIDTH} characters"


def test_a_long_line_of_prose_is_found_and_one_of_a_table_is_not() -> None:
    long = "x" * (WIDTH + 1)
    assert too_long(f"{long}\n| {long} |\n```text\n{long}\n```\n- {long}") == [1, 6]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_has_one_title_and_begins_with_it(page: Path) -> None:
    lines = list(prose(page.read_text(encoding="utf-8")))
    assert [number for number, line in lines if line.startswith("# ")] == [1]


def test_every_page_is_reached_from_the_readme() -> None:
    reached, ahead = set[Path](), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        links = _LINK.findall(page.read_text(encoding="utf-8"))
        ahead += [(page.parent / link).resolve() for link in links]
    assert not {name_of(page) for page in set(PAGES) - reached}


def anchors(page: Path) -> set[str]:
    """As GitHub and the site of `make docs` make them of headings."""
    titles = (line.lstrip("#").strip().lower() for _, line in prose(page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for link, anchor in _ANCHORED.findall(page.read_text(encoding="utf-8")):
        target = (page.parent / link).resolve() if link else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), f"{link}#{anchor}"


def test_the_index_links_every_page_once() -> None:
    index = ROOT / "docs" / "README.md"
    listed = [
        (index.parent / link).resolve()
        for line in index.read_text(encoding="utf-8").splitlines()
        if line.startswith("| [")
        for link in _LINK.findall(line.split(" | ")[0])
    ]
    pages = {page.resolve() for page in (ROOT / "docs").rglob("*.md")} - {index.resolve()}
    assert sorted(listed) == sorted(pages)


@pytest.mark.parametrize("page", [*PAGES, *RESULTS], ids=name_of)
def test_no_link_is_dead(page: Path) -> None:
    links = _LINK.findall(page.read_text(encoding="utf-8"))
    assert not [link for link in links if not link.startswith("http") and not (page.parent / link).exists()]


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150

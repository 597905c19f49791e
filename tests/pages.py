"""The pages that people read: where they are, and how tests call them."""

from pathlib import Path

ROOT = Path(__file__).parents[1]

#: All pages but those of results, which benchmarks write.
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "results"),
]

#: Those that benchmarks write.
RESULTS = sorted((ROOT / "docs" / "results").glob("*.md"))


def name_of(page: Path) -> str:
    """The page's path from the root of the project."""
    return page.relative_to(ROOT).as_posix()

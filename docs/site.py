"""Hooks of `mkdocs.yml`: the order of the pages, files of the repository that pages name, and versions.

The order is that of the tables in README.md. What pages name outside of docs/ becomes part of the site, below
`repository/`; a link to something that is not there is left as it is, and mkdocs finds it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_DOCS = Path(__file__).resolve().parent
_ROOT = _DOCS.parent
#: Where the site has what lies outside of docs/.
_OUTSIDE = "repository"
_LINK = re.compile(r"\]\(([^)#\s:]+)(#[^)]*)?\)")
#: A section of README.md, and the page at the beginning of a row of its table.
_SECTION, _ROW = re.compile(r"^## (.+)$"), re.compile(r"^\| \[[^\]]*\]\(([^)]+)\) \|")


def on_config(config: Any) -> Any:
    """A folder for the version, and the pages in the order of README.md."""
    parser = ConfigParser()
    parser.read(_ROOT / "setup.cfg")
    version = parser["metadata"]["version"]
    config.extra["taccl_version"] = version
    config.site_dir = str(Path(config.site_dir) / version)
    config.nav = _nav((_DOCS / "README.md").read_text(encoding="utf-8"))
    return config


def on_files(files: Files, config: Any) -> Files:
    """Files of the repository that pages name; Markdown of them becomes a page, with what it names."""
    waiting = [Path(file.abs_src_path) for file in files.documentation_pages()]
    seen: set[Path] = set()
    while waiting:
        page = waiting.pop()
        for target in _named(page):
            if target in seen or target.is_relative_to(_DOCS) or not target.is_file():
                continue
            seen.add(target)
            uri = _uri(target)
            files.append(File.generated(config, uri, abs_src_path=str(target)))
            if target.suffix == ".md":
                waiting.append(target)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links as they are in the site."""
    source, here = Path(page.file.abs_src_path), Path(page.file.src_uri).parent

    def moved(match: re.Match[str]) -> str:
        target = (source.parent / match[1]).resolve()
        if not target.is_file() or not target.is_relative_to(_ROOT):
            return match[0]
        return f"]({os.path.relpath(_uri(target), here)}{match[2] or ''})"

    return _LINK.sub(moved, markdown)


def on_post_build(config: Any) -> None:
    """The versions next to this one, for the theme's menu; the folder above leads to the last one built."""
    above, version = Path(config.site_dir).parent, config.extra["taccl_version"]
    path = above / "versions.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    others = [each for each in known if each["version"] != version]
    row = {"version": version, "title": version, "aliases": ["latest"]}
    path.write_text(json.dumps([row, *({**each, "aliases": []} for each in others)], indent=2) + "\n")
    (above / "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={version}/">\n')


def _nav(text: str) -> list[Any]:
    nav: list[Any] = [{"Documentation": "README.md"}]
    for line in text.splitlines():
        if section := _SECTION.match(line):
            nav.append({section[1]: []})
        elif row := _ROW.match(line):
            next(iter(nav[-1].values())).append(row[1])
    outside = [path.name for path in sorted(_ROOT.glob("*.md"))]
    return [*nav, {"Repository": [f"{_OUTSIDE}/{name}" for name in outside]}]


def _named(page: Path) -> Iterator[Path]:
    for match in _LINK.finditer(page.read_text(encoding="utf-8")):
        target = (page.parent / match[1]).resolve()
        if target.is_relative_to(_ROOT):
            yield target


def _uri(target: Path) -> str:
    if target.is_relative_to(_DOCS):
        return target.relative_to(_DOCS).as_posix()
    return f"{_OUTSIDE}/{target.relative_to(_ROOT).as_posix()}"

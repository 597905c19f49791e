"""A page opened in a real browser without a network, for the tests of `taccl show`."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_BROWSER = next((path for path in map(shutil.which, _NAMES) if path), None)

needs_browser = pytest.mark.skipif(_BROWSER is None, reason="no chromium is installed")

_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--virtual-time-budget=3000",
    "--window-size=1300,900",
    "--enable-logging=stderr",
)
_CONSOLE = re.compile(r"CONSOLE[^\"]*\"(.*)\", source")


@dataclass(frozen=True)
class Opened:
    """The page after its scripts ran: its text, and what they said on the console."""

    dom: str
    console: tuple[str, ...]

    def element(self, tag: str, name: str | None = None) -> dict[str, str]:
        """Attributes of the element with this tag and id."""
        wanted = f'<{tag}(?=[^>]*id="{name}")([^>]*)>' if name else f"<{tag}([^>]*)>"
        found = re.search(wanted, self.dom)
        assert found, f"no {wanted} in the page"
        return {key: html.unescape(value) for key, value in re.findall(r'([\w-]+)="([^"]*)"', found[1])}

    def result(self) -> object:
        """What a script of the test left in `document.body.dataset.result`."""
        return json.loads(self.element("body")["data-result"])


def open_page(page: str, folder: Path, script: str = "") -> Opened:
    """Open the text of a page; `script` runs in it afterwards."""
    assert _BROWSER is not None
    path = folder / "page.html"
    path.write_text(page.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    done = subprocess.run(
        [_BROWSER, *_OPTIONS, f"--user-data-dir={folder / 'profile'}", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Opened(done.stdout, tuple(_CONSOLE.findall(done.stderr)))

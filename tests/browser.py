"""A page opened in a real browser without a network, for the tests of pages."""

from __future__ import annotations

import base64
import html
import json
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


#: The options that the driver of the browser needs as well; it has its own way to wait.
_DRIVEN = [option for option in _OPTIONS if not option.startswith(("--virtual-time", "--enable-logging"))]
_DRIVER = shutil.which("chromedriver")

needs_driver = pytest.mark.skipif(_BROWSER is None or _DRIVER is None, reason="no chromedriver is installed")


class Driven:
    """A browser that a test clicks in, by the WebDriver protocol."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address = address
        options = {"binary": _BROWSER, "args": [*_DRIVEN, f"--user-data-dir={folder / 'driven'}"]}
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        self._session = f"session/{self._post('session', wanted)['sessionId']}"

    def _post(self, path: str, body: object = None, method: str = "POST") -> Any:
        request = urllib.request.Request(
            f"{self._address}/{path}",
            None if method == "DELETE" else json.dumps(body or {}).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as fault:
            raise AssertionError(f"{path}: {json.load(fault)['value']['message']}") from fault

    def open(self, path: Path, width: int, height: int = 900) -> None:
        """A page in a window of this many pixels; narrow ones are those of a telephone."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        for command, values in (
            ("DeviceMetricsOverride", size),
            ("FocusEmulationEnabled", {"enabled": True}),
        ):
            body = {"cmd": f"Emulation.set{command}", "params": values}
            self._post(f"{self._session}/goog/cdp/execute", body)
        self._post(f"{self._session}/url", {"url": path.as_uri()})
        self.wait("document.body.dataset.ready === 'true'")

    def run(self, script: str) -> Any:
        """What an expression is in the page."""
        return self._post(f"{self._session}/execute/sync", {"script": f"return {script}", "args": []})

    def wait(self, condition: str, seconds: float = 30.0) -> None:
        """Until an expression is true."""
        end = time.monotonic() + seconds
        while not self.run(condition):
            assert time.monotonic() < end, f"{condition} is not so after {seconds} s"
            time.sleep(0.05)

    def click(self, selector: str) -> None:
        """Press the mouse in the middle of an element."""
        _, name = self._element(selector)
        self._post(f"{self._session}/element/{name}/click")

    def point(self, selector: str) -> None:
        """Move the mouse to the middle of an element."""
        kind, name = self._element(selector)
        move = {"type": "pointerMove", "x": 0, "y": 0, "origin": {kind: name}}
        self._post(
            f"{self._session}/actions",
            {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]},
        )

    def _element(self, selector: str) -> tuple[str, str]:
        """What the driver calls the first element, which is shown then."""
        known = f"document.querySelector({json.dumps(selector)})"
        self.wait(f"{known} !== null")
        self.run(f"{known}.scrollIntoView({{ block: 'center' }})")
        found = self._post(f"{self._session}/element", {"using": "css selector", "value": selector})
        ((kind, name),) = found.items()
        return kind, name

    def press(self, key: str) -> None:
        """Press and release a key; of what has the focus."""
        strokes = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        body = {"actions": [{"type": "key", "id": "keys", "actions": strokes}]}
        self._post(f"{self._session}/actions", body)

    def picture(self, path: Path) -> None:
        """What the window shows."""
        path.write_bytes(base64.b64decode(self._get("screenshot")))

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self._address}/{self._session}/{path}", timeout=60) as reply:
            return json.load(reply)["value"]

    def close(self) -> None:
        """End the browser."""
        self._post(self._session, method="DELETE")


@contextmanager
def driven(folder: Path) -> Iterator[Driven]:
    """A browser of its own, and the driver next to it, which both end."""
    assert _DRIVER is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen(
        [_DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as driver:
        try:
            _await_port(port)
            browser = Driven(f"http://127.0.0.1:{port}", folder)
            try:
                yield browser
            finally:
                browser.close()
        finally:
            driver.terminate()


def _await_port(port: int) -> None:
    for _ in range(300):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise AssertionError("chromedriver does not answer")

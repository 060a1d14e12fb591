"""Chromium or Chrome without a window, driven over the DevTools protocol through a pair of pipes: no port, no driver, no package.

`with Browser() as browser: page = browser.page(); page.open(url, 1400, "dark");
page.evaluate("document.title")`. Each browser is new, with a profile of its own that is removed
with it. tools/site_check.py looks at the site so.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-proxy-server",
    "--remote-debugging-pipe",
)
# The protocol is spoken over the descriptors 3 (to the browser) and 4 (from it), which a child of
# Python's cannot be given directly.
_START = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4);"
    " os.execvp(sys.argv[3], sys.argv[3:])"
)
SECONDS = 60.0


class NoBrowserError(Exception):
    """There is no browser on this machine, or it does not start."""


class BrowserError(Exception):
    """The browser refused a command, or did not answer in time."""


class Browser:
    """A new browser; a context manager, which ends it and removes its profile."""

    def __init__(self) -> None:
        found = next(
            filter(None, map(shutil.which, (os.environ.get("BROWSER_PATH", ""), *NAMES))), None
        )
        if found is None:
            raise NoBrowserError(
                f"there is no browser to look at pages with: install one of {', '.join(NAMES)}, or"
                " say BROWSER_PATH"
            )
        self.profile = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        theirs, self._out = _pipe()
        self._in, answers = _pipe()
        command = [
            sys.executable,
            "-c",
            _START,
            str(theirs),
            str(answers),
            found,
            *FLAGS,
            f"--user-data-dir={self.profile.name}",
        ]
        self.process = subprocess.Popen(
            [*command, "about:blank"],
            pass_fds=(theirs, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(answers)
        self._rest, self._number = b"", 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.call("Browser.close")
            self.process.wait(10)
        except (BrowserError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self._in)
        os.close(self._out)
        self.profile.cleanup()

    def page(self) -> Page:
        """A new page."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        return Page(
            self, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        )

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """The result of a command; events that arrive before it are kept."""
        self._number += 1
        message = {
            "id": self._number,
            "method": method,
            "params": parameters,
            **({"sessionId": session} if session else {}),
        }
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while (answer := self.receive(deadline, method)).get("id") != self._number:
            self.events.append(answer)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error'].get('message')}")
        return answer.get("result", {})

    def receive(self, deadline: float, waiting_for: str) -> dict[str, Any]:
        """The next message."""
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise BrowserError(
                    f"the browser did not answer within {SECONDS:.0f} seconds: {waiting_for}"
                )
            received = os.read(self._in, 1 << 16)
            if not received:
                raise NoBrowserError(
                    f"the browser ended, with status {self.process.poll()}, before it answered"
                    f" {waiting_for}"
                )
            self._rest += received
        first, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        return message


class Page:
    """One page of a browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self.browser, self.session = browser, session
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command for this page."""
        return self.browser.call(method, self.session, **parameters)

    def open(self, url: str, width: int, theme: str) -> None:
        """Opens an address, in a window of a width and in the `light` or the `dark` theme, and waits until all of it is loaded."""
        self.browser.events.clear()
        self._metrics(width, theme)
        failed = self.call("Page.navigate", url=url).get("errorText")
        if failed:
            raise BrowserError(f"{url}: {failed}")
        deadline = time.monotonic() + SECONDS
        while not any(
            event.get("method") == "Page.loadEventFired" for event in self.browser.events
        ):
            self.browser.events.append(self.browser.receive(deadline, url))
        self._settle()

    def look(self, width: int, theme: str) -> None:
        """The same page in another window or theme."""
        self._metrics(width, theme)
        self._settle()

    def _metrics(self, width: int, theme: str) -> None:
        """Sets the window and the theme that the reader's system asks for."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": theme}],
        )

    def _settle(self) -> None:
        """Waits for a layout, without which sizes are those of before; transitions are ended, since colours would be between two themes."""
        self.evaluate(
            "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => {"
            " document.getAnimations().forEach(a => { try { a.finish(); } catch {} }); r(0); })))"
        )

    def evaluate(self, script: str) -> Any:
        """What an expression gives, or the promise that it gives."""
        answer = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise BrowserError(
                f"{answer['exceptionDetails'].get('exception', {}).get('description')} in"
                f" {script[:60]}"
            )
        return answer["result"].get("value")

    def errors(self, origin: str) -> list[str]:
        """What went wrong since the page was opened: in the console, and with requests; those that go elsewhere are wrong."""
        said = []
        addresses: dict[str, str] = {}
        for event in self.browser.events:
            method, p = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                details = p["exceptionDetails"]
                said.append(
                    "an exception:"
                    f" {details.get('exception', {}).get('description') or details['text']}"
                )
            elif method == "Runtime.consoleAPICalled" and p["type"] in ("error", "assert"):
                said.append(
                    "an error in the console:"
                    f" {' '.join(str(a.get('value', a.get('description'))) for a in p['args'])}"
                )
            elif (
                method == "Log.entryAdded"
                and p["entry"]["level"] == "error"
                and p["entry"]["source"] != "network"
            ):
                said.append(f"an error in the console: {p['entry']['text']}")
            elif method == "Network.requestWillBeSent":
                address = addresses[p["requestId"]] = p["request"]["url"]
                if not address.startswith((origin, "data:", "blob:", "about:")):
                    said.append(f"asks another machine for {address}")
            elif method == "Network.responseReceived" and p["response"]["status"] >= 400:
                said.append(f"{p['response']['url']} is not there: {p['response']['status']}")
            elif method == "Network.loadingFailed" and not p.get("canceled"):
                said.append(f"{addresses.get(p['requestId'], 'a request')} fails: {p['errorText']}")
        return said

    def picture(self) -> bytes:
        """The whole page as a PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {
            "x": 0,
            "y": 0,
            "width": size["width"],
            "height": min(size["height"], 12000),
            "scale": 1,
        }
        return base64.b64decode(
            self.call(
                "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip
            )["data"]
        )


def _pipe() -> tuple[int, int]:
    """The two ends of a pipe, above the numbers that the protocol uses."""
    ends = []
    for end in os.pipe():
        ends.append(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10))
        os.close(end)
    return ends[0], ends[1]

"""A headless Chromium that opens pages as a screen of any size would, over its pipe for debuggers."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import threading
from typing import Any

LIFE_SECONDS = 120  # after which a browser is ended that does not answer
NAMES = "chromium", "chromium-browser", "google-chrome"


def find() -> str | None:
    """The program, None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Chromium:
    """A browser with one tab; a context manager."""

    def __init__(self, program: str) -> None:
        self._program = program

    def __enter__(self) -> Chromium:
        self._folder = tempfile.TemporaryDirectory(prefix="layoutkit-chromium-", ignore_cleanup_errors=True)
        # the browser reads commands from 3 and answers on 4: ends of pipes that are out of the way of both
        (theirs_in, ours_out), (ours_in, theirs_out) = (map(_high, os.pipe()) for _ in range(2))
        wired = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
                   f"--user-data-dir={self._folder.name}")  # fmt: skip
        self._process = subprocess.Popen(
            ["bash", "-c", wired, "bash", self._program, *options, "about:blank"],
            pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._end = threading.Timer(LIFE_SECONDS, self._process.kill)
        self._end.daemon = True
        self._end.start()
        os.close(theirs_in)
        os.close(theirs_out)
        self._commands, self._answers = os.fdopen(ours_out, "wb"), os.fdopen(ours_in, "rb")
        self._count, self._session = 0, ""
        target = self.do("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.do("Page.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self._end.cancel()
        self._process.kill()
        self._process.wait()
        self._commands.close()
        self._answers.close()
        self._folder.cleanup()

    def do(self, method: str, **params: Any) -> dict[str, Any]:
        """What the browser answers to a command of the DevTools protocol."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        found = self._until("id", self._count)
        if "error" in found:
            raise RuntimeError(f"{method}: {found['error']}")
        return found["result"]

    def _until(self, key: str, value: object) -> dict[str, Any]:
        while True:
            text = bytearray()
            while (byte := self._answers.read(1)) != b"\0":
                if not byte:
                    raise RuntimeError(f"{self._program} has ended")
                text += byte
            message = json.loads(text)
            if message.get(key) == value:
                return message

    def open(self, url: str, width: int, height: int, scheme: str) -> None:
        """Show a page on a screen of so many CSS pixels, light or dark."""
        self.do(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        self.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.do("Page.navigate", url=url)
        self._until("method", "Page.loadEventFired")

    def value(self, script: str) -> Any:
        """What an expression of JavaScript is in the page."""
        found = self.do("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def picture(self) -> bytes:
        """The whole page as PNG."""
        return base64.b64decode(self.do("Page.captureScreenshot", captureBeyondViewport=True)["data"])


def _high(fd: int) -> int:
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(fd)
    return moved

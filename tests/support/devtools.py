"""A page in Chromium that a test uses as a person does: types, presses keys, and looks.

Chromium speaks the DevTools Protocol over two pipes. A folder is served on this host alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from tests.support.browser import CHROMIUM, QUIET

#: No file descriptor of a test is as high.
_HIGH: Final = 64


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address under which the folder is served meanwhile."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()


class Tab:
    """One page. ``evaluate`` runs a script in it; ``problems`` are what its console shows as
    errors."""

    def __init__(self, to: int, answers: int) -> None:
        self._to, self._from = to, answers
        self._rest, self._number = b"", 0
        self._session = ""
        self.problems: list[str] = []
        (target,) = [
            one for one in self._told("Target.getTargets")["targetInfos"] if one["type"] == "page"
        ]
        attached = self._told("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._told(f"{domain}.enable")

    def open(self, address: str) -> None:
        """Begin to load an address, also where only its fragment is another."""
        self._told("Page.navigate", url="about:blank")
        self._told("Page.navigate", url=address)

    def evaluate(self, script: str) -> Any:
        """The value of an expression; of a promise, what it comes to."""
        found = self._told(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, script: str, seconds: float = 120) -> Any:
        """The value of an expression as soon as it is true."""
        end = time.monotonic() + seconds
        while not (value := self.evaluate(script)):
            assert time.monotonic() < end, f"not in {seconds} s: {script}; {self.problems}"
            time.sleep(0.02)
        return value

    def press(self, key: str, *, times: int = 1) -> None:
        """Press a key: ``Tab``, ``Enter`` or a blank."""
        codes = {"Tab": 9, "Enter": 13, " ": 32}
        text = {"Enter": "\r", " ": " "}.get(key, "")
        for _ in range(times):
            shared = {"key": key, "windowsVirtualKeyCode": codes[key]}
            self._told("Input.dispatchKeyEvent", type="keyDown", text=text, **shared)
            self._told("Input.dispatchKeyEvent", type="keyUp", **shared)

    def type(self, text: str) -> None:
        """Type a text in place of all that the focused field holds."""
        self.evaluate("document.activeElement.select()")
        self._told("Input.insertText", text=text)

    def resize(self, size: tuple[int, int], *, dark: bool = False) -> None:
        """As a window, or a screen, of this size."""
        width, height = size
        self._told(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 500,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._told("Emulation.setEmulatedMedia", features=[scheme])

    def _told(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to a command; what the page reports meanwhile is kept."""
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        command = {"id": self._number, "method": method, "params": parameters, **session}
        os.write(self._to, json.dumps(command).encode() + b"\0")
        while (found := self._next()).get("id") != self._number:
            self._note(found)
        assert "result" in found, found
        answer: dict[str, Any] = found["result"]
        return answer

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], 120)
            assert ready, "the browser does not answer"
            if not (data := os.read(self._from, 1 << 20)):
                raise BrokenPipeError
            self._rest += data
        first, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(first)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        match event:
            case {"method": "Log.entryAdded", "params": {"entry": {"level": "error", **entry}}}:
                self.problems.append(f"{entry['text']} {entry.get('url', '')}")
            case {"method": "Runtime.exceptionThrown", "params": {"exceptionDetails": details}}:
                self.problems.append(json.dumps(details))


@contextlib.contextmanager
def tab(folder: Path) -> Iterator[Tab]:
    """An empty page of a Chromium that keeps its profile in ``folder``, and ends afterwards.

    One that ends before it answers is started once more: seen once, beside two other workers.
    """
    with contextlib.ExitStack() as ending:
        try:
            page = ending.enter_context(_browser(folder))
        except BrokenPipeError:
            page = ending.enter_context(_browser(folder / "again"))
        yield page


@contextlib.contextmanager
def _browser(folder: Path) -> Iterator[Tab]:
    """A started Chromium; its exit status and what it printed are notes of the error if it ends."""
    folder.mkdir(exist_ok=True)
    printed = folder / "printed"
    theirs, to = _pipe()
    answers, also_theirs = _pipe()

    def numbered() -> None:
        os.dup2(theirs, 3)
        os.dup2(also_theirs, 4)

    with printed.open("wb") as output:
        browser = subprocess.Popen(
            [CHROMIUM, *QUIET, f"--user-data-dir={folder / 'profile'}", "--remote-debugging-pipe"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=numbered,
            pass_fds=(3, 4),
        )
    try:
        os.close(theirs)
        os.close(also_theirs)
        yield Tab(to, answers)
    except BrokenPipeError as ended:
        said = printed.read_text(errors="replace")[-2000:]
        ended.add_note(f"the browser ended with exit status {browser.wait(20)}: {said}")
        raise
    finally:
        os.close(to)  # upon which it ends by itself
        try:
            browser.wait(20)
        except subprocess.TimeoutExpired:
            browser.kill()
            browser.wait()
        os.close(answers)


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _HIGH) for end in ends)
    for end in ends:
        os.close(end)
    return high[0], high[1]

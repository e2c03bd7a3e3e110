"""The page in a real browser: nothing in a stream runs, and the pictures are there."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reports import html

if TYPE_CHECKING:
    from tests.reports.conftest import Fakes

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), "")
#: No window, no GPU, no sandbox (containers forbid it), and not a word to any network.
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
Browse = Callable[..., bytes]

pytestmark = pytest.mark.skipif(
    not CHROMIUM, reason="no chromium: the HTML report was not looked at by a real browser"
)


@pytest.fixture
def browse(tmp_path: Path) -> Browse:
    """Open a file with these options; what the browser prints."""

    def opened(page: Path, *options: str) -> bytes:
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        done = subprocess.run(
            [CHROMIUM, *QUIET, profile, *options, page.as_uri()],
            capture_output=True,
            timeout=120,
            check=True,
        )
        return done.stdout

    return opened


def title(dom: bytes) -> str:
    found = re.search(r"<title>(.*?)</title>", dom.decode(), re.S)
    return found[1] if found else ""


def pixels(png: bytes) -> set[bytes]:
    """The distinct colours of an 8-bit RGB or RGBA picture."""
    width, _height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert (depth, kind in (2, 6)) == (8, True)
    chunks, at = b"", 8
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            chunks += png[at + 8 : at + 8 + size]
        at += size + 12
    step = 3 if kind == 2 else 4
    raw = zlib.decompress(chunks)
    stride = width * step + 1
    above = bytearray(width * step)
    colours: set[bytes] = set()
    for start in range(0, len(raw), stride):
        above = _unfiltered(raw[start], bytearray(raw[start + 1 : start + stride]), above, step)
        colours.update(bytes(above[i : i + 3]) for i in range(0, len(above), step))
    return colours


def _unfiltered(kind: int, line: bytearray, above: bytearray, step: int) -> bytearray:
    for i in range(len(line) if kind else 0):
        left = line[i - step] if i >= step else 0
        corner = above[i - step] if i >= step else 0
        guess = (0, left, above[i], (left + above[i]) // 2, _paeth(left, above[i], corner))[kind]
        line[i] = (line[i] + guess) & 255
    return line


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    return min((left, above, corner), key=lambda near: abs(guess - near))


def test_nothing_in_a_hostile_stream_runs(browse: Browse, fakes: Fakes, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    html.write(fakes.hostile(), page)
    dom = browse(page, "--dump-dom")
    assert title(dom) != "owned"
    assert b"Broken promises" in dom
    assert b"<script" not in dom
    assert b"<img" not in dom


def test_the_browser_would_have_run_it_and_the_policy_alone_would_stop_it(
    browse: Browse, hostile_text: str, fakes: Fakes, tmp_path: Path
) -> None:
    """The control for the test above, and the second wall by itself."""
    policy = re.search(
        r'<meta http-equiv="Content-Security-Policy".*?>', html.document(fakes.run())
    )
    assert policy
    raw = hostile_text.encode("utf-8", "replace").decode()
    bare, walled = tmp_path / "bare.html", tmp_path / "walled.html"
    bare.write_text(f"<meta charset=utf-8><title>safe</title>{raw}")
    walled.write_text(f"<meta charset=utf-8>{policy[0]}<title>safe</title>{raw}")
    assert title(browse(bare, "--dump-dom")) == "owned"
    assert title(browse(walled, "--dump-dom")) == "safe"


def test_pictures_are_in_the_page(browse: Browse, fakes: Fakes, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    html.write(fakes.one_of_each(), page)
    dom = browse(page, "--dump-dom").decode()
    figures = re.findall(r"<figure><figcaption>(\w+)</figcaption>.*?<svg.*?</svg>", dom, re.S)
    assert figures == ["expected", "seen"]
    assert dom.count("<svg") == 4


@pytest.mark.parametrize(("scheme", "background"), [(1, b"\xff\xff\xff"), (0, b"\x0f\x14\x1a")])
def test_the_page_is_painted_light_and_dark(
    scheme: int, background: bytes, browse: Browse, fakes: Fakes, tmp_path: Path
) -> None:
    page, picture = tmp_path / "report.html", tmp_path / "page.png"
    html.write(fakes.one_of_each(), page)
    browse(
        page,
        f"--screenshot={picture}",
        "--window-size=500,600",
        f"--blink-settings=preferredColorScheme={scheme}",
    )
    colours = pixels(picture.read_bytes())
    assert background in colours
    assert len(colours) > 20


@pytest.mark.parametrize(("show", "shown"), [("all", 3), ("fail", 1), ("unknown", 1), ("pass", 2)])
def test_the_filter_works_without_a_script(
    show: str, shown: int, browse: Browse, fakes: Fakes, tmp_path: Path
) -> None:
    """A probe that is added to a copy of the page, without its policy, counts the rows shown."""
    document = html.document(fakes.one_of_each())
    document = re.sub(r'<meta http-equiv="Content-Security-Policy".*?>', "", document)
    probe = (
        f"<script>document.getElementById('show-{show}').checked = true;"
        "document.title = [...document.querySelectorAll('tr.row')]"
        ".filter(row => row.getClientRects().length).length</script>"
    )
    page = tmp_path / "probed.html"
    page.write_text(document.replace("</body>", f"{probe}</body>"))
    assert title(browse(page, "--dump-dom")) == str(shown)

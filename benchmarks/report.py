"""The HTML report of many nodes: how long it takes to read, to write and to open, and its size.

``python -m benchmarks.report 500 230`` makes up the results of as many nodes by as many scenarios,
once with nodes that are alike and once with none like another. Chromium is timed from its start to
the picture of the first screen, beside the same for an empty page. What a page costs of it the
browser says itself: from the start of loading until all is laid out. Minimum of three each.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import reports
from reports import html
from tests.reports.conftest import Fakes
from tests.support.browser import Browser

T = TypeVar("T")
TIMES: Final = 3
#: Says in the title after how many milliseconds all is laid out; stands outside the page's policy.
PROBE: Final = (
    "<script>onload = () => { document.body.offsetHeight;"
    " document.title = Math.round(performance.now()) }</script>"
)


def main(nodes: int, scenarios: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        empty = _open(Browser(folder), folder / "empty.html", "<title>-</title><p>empty")
        print(f"an empty page opens in {empty} ms")
        for alike in (True, False):
            made = Fakes().nodes(nodes, scenarios, alike=alike)
            stream = Fakes().write(made, folder / "result.jsonl")
            read, run = _timed(partial(reports.load, stream))
            written, document = _timed(partial(html.document, run))
            opened = _open(Browser(folder), folder / "report.html", document)
            print(
                f"{nodes} nodes, {'alike' if alike else 'all different'}, {scenarios} scenarios: "
                f"read {read:.1f} s, written {written:.1f} s of processor time, "
                f"{len(document.encode()) / 1e6:.1f} MB, opens in {opened} ms"
            )


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    """Seconds of processor time, and what came of it."""
    best, made = float("inf"), None
    for _ in range(TIMES):
        began = time.process_time()
        made = work()
        best = min(best, time.process_time() - began)
    assert made is not None
    return best, made


def _open(browser: Browser, page: Path, document: str) -> int:
    """Milliseconds from the start of loading until all is laid out."""
    document = re.sub(r"<meta http-equiv.*?>", "", document, count=1)
    page.write_text(document + PROBE, encoding="utf-8")
    found = (browser.open(page, "--dump-dom", "--window-size=1280,800") for _ in range(TIMES))
    titles = (re.search(rb"<title>([0-9]+)</title>", dom) for dom in found)
    return min(int(title[1]) for title in titles if title)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

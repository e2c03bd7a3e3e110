"""A real browser without a window: Chromium opens a page, prints its text or a PDF."""

from __future__ import annotations

import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Final

from tests.support import lacking

CHROMIUM: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), "")
#: No window, no GPU, no sandbox (containers forbid it), and not a word to any network.
QUIET: Final = (
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
DESKTOP: Final = (1280, 800)
PHONE: Final = (390, 844)


class Browser:
    """``folder`` keeps its profile and pages of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, page: Path, *options: str) -> bytes:
        """Open a file with these options; what the browser prints."""
        profile = f"--user-data-dir={self._folder / 'profile'}"
        done = subprocess.run(
            [CHROMIUM, *QUIET, profile, *options, page.as_uri()],
            capture_output=True,
            timeout=120,
            check=True,
        )
        return done.stdout

    def pages(self, page: Path, to: Path) -> int:
        """Print it as a PDF file; how many pages that takes."""
        self.open(page, f"--print-to-pdf={to}", "--no-pdf-header-footer")
        return len(re.findall(rb"/Type\s*/Page\b", to.read_bytes()))

    def texts(self, page: Path, to: Path) -> list[str]:
        """Print it as a PDF file; the text of each of its pages."""
        pypdf = lacking.module("pypdf")
        self.pages(page, to)
        return [one.extract_text() for one in pypdf.PdfReader(to).pages]

    def title(self, page: Path, *options: str) -> str:
        """The title of a page once its scripts have run."""
        dom = self.open(page, "--dump-dom", *options).decode()
        found = re.search(r"<title>(.*?)</title>", dom, re.DOTALL)
        return unescape(found[1]) if found else ""

    def probed(self, document: str, script: str, *options: str) -> str:
        """What a script that is added to a page, without its policy, makes its title."""
        document = re.sub(r'<meta http-equiv="Content-Security-Policy".*?>', "", document)
        page = self._folder / "probed.html"
        page.write_text(document.replace("</body>", f"<script>{script}</script></body>"))
        return self.title(page, *options)

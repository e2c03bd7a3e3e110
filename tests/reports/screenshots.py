"""Keep screenshots of reports for people to look at: ``python -m tests.reports.screenshots DIR``.

A kubelet with one planted bug is judged on three machines. Its report is opened as on a desktop and
on a phone, light and dark, and printed; so is the report of many nodes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import reports
from reports import html
from tests.reports.conftest import Fakes
from tests.support.browser import DESKTOP, PHONE, Browser

#: Bugs that look different in a report: what a kubelet refuses, and which CPUs it gives.
BUGS: Final = ("trusts-its-state", "splits-cores")
MACHINES: Final = ("1s-1n-8c-smt2", "2s-2n-16c-smt2", "2s-4n-64c-smt2")
SIZES: Final = {"desktop": DESKTOP, "phone": PHONE, "long": (DESKTOP[0], 6000)}


def main(folder: Path) -> None:
    """Make the reports, and keep what they look like in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        runs = {bug: reports.load(judged(bug, Path(scratch) / bug)) for bug in BUGS}
        for name, run in {**runs, "nodes": Fakes().nodes()}.items():
            page = folder / f"{name}.html"
            html.write(run, page)
            keep(page, Browser(Path(scratch)))


def judged(bug: str, folder: Path) -> Path:
    """The result stream of a run with this bug on three machines."""
    machines = [word for machine in MACHINES for word in ("--machine", machine)]
    subject = ["--subject", f"miniature:{bug}"]
    command = [sys.executable, "-m", "pinproof", "run", *subject, *machines, "-n", "0"]
    subprocess.run([*command, "--report", str(folder)], check=False, stdout=subprocess.DEVNULL)
    return folder / "result.jsonl"


def keep(page: Path, browser: Browser) -> None:
    """Write the screenshots and the print of a page beside it."""
    for name, size in SIZES.items():
        for shade in ("light", "dark"):
            to = page.with_name(f"{page.stem}-{name}-{shade}.png")
            browser.picture(page, to, size=size, dark=shade == "dark")
    browser.pages(page, page.with_suffix(".pdf"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

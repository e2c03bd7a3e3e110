"""How long the playground takes in Chromium: to its first answer, and for each step.

Run it as ``python -m benchmarks.playground``; it needs chromium and npm. Of each kind of step it
prints the best time and the longest.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from pinproof.playground.build import build
from tests.support.devtools import Tab, served, tab

READY = """document.readyState === "complete" && !document.getElementById("shown")?.hidden
    && !document.body.hasAttribute("aria-busy")"""
STEPS = """(async () => {
    const took = [], free = () => new Promise((go) => setTimeout(go));
    for (let step = 0; step < 6; step++) {
        const start = performance.now();
        document.querySelector(SELECTOR).click();
        while (document.body.hasAttribute("aria-busy")) await free();
        took.push(performance.now() - start);
        const error = document.getElementById("error").textContent;
        if (error) throw new Error(error);
    }
    return took;
})()"""


def main() -> None:
    """Print the figures of one page, which is loaded twice."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "built"
        build(built)
        with served(built) as address, tab(Path(folder)) as page:
            for what in ("first answer, empty cache", "first answer, again"):
                start = time.perf_counter()
                page.open(address)
                page.until(READY)
                print(f"{what:28} {time.perf_counter() - start:6.2f} s")
            for what in ("apply", "restart", "reboot", "undo"):
                _print_steps(page, what)


def _print_steps(page: Tab, what: str) -> None:
    selectors = {"apply": "#pod button.main", "undo": "#undo"}
    selector = selectors.get(what, f"[data-step={what}]")
    took = page.evaluate(STEPS.replace("SELECTOR", repr(selector)))
    print(f"{what:28} {min(took):6.0f} ms, at most {max(took):.0f} ms")


if __name__ == "__main__":
    main()

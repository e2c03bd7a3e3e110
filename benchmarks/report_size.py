"""How large the files of real runs are: the model on one machine and on all, and one with a bug.

``python -m benchmarks.report_size`` takes two minutes. ``tests/reports/test_report_size.py`` holds
the limit on a run that is put together in seconds.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

RUNS: Final = {
    "one machine": ("--machine", "2s-4n-64c-smt2"),
    "all machines": (),
    "all machines, a fifth of the results broken": ("--subject", "miniature:splits-cores"),
}


def main() -> None:
    for title, options in RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "pinproof", "run", *options, "--report", folder]
            subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
            sizes = {one.name: one.stat().st_size / 1e6 for one in sorted(Path(folder).iterdir())}
        told = ", ".join(f"{name} {size:.2f} MB" for name, size in sizes.items())
        print(f"{title}: {told}", flush=True)


if __name__ == "__main__":
    main()

"""Sonobuoy's own code as a program (``sonobuoy.go``), built of its Go module.

    python -m tests.support.sonobuoy     # builds it once, for the tests that need it

A build takes a minute of processor time, so no test builds it.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from conformance.kubelets.golang import Go
from tests.support import lacking
from topologies.user_cache import cache_folder

MODULE: Final = "github.com/vmware-tanzu/sonobuoy"
VERSION: Final = "v0.57.3"
_SOURCE: Final = Path(__file__).with_suffix(".go")
_GO_MOD: Final = f"module pinproof.invalid/sonobuoy\n\ngo 1.25\n\nrequire {MODULE} {VERSION}\n"


def judged(definition: Path, results: Path, kubeconfig: Path | None = None) -> dict[str, Any]:
    """What Sonobuoy makes of a plugin and of its results. ``definition`` is the folder that has the
    plugin's file, ``results`` that of a whole run, and ``kubeconfig`` names an API server where the
    plugin's DaemonSet is created. Without the program, the test skips."""
    program = _kept()
    if not program.is_file():
        lacking.skip("sonobuoy")
    words = [str(one) for one in (definition, results, kubeconfig) if one is not None]
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def _kept() -> Path:
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    return cache_folder("sonobuoy") / f"{VERSION}-{digest}"


def main() -> None:
    """Build it where it is not there."""
    program = _kept()
    if not program.is_file():
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "go.mod").write_text(_GO_MOD)
            (folder / "main.go").write_bytes(_SOURCE.read_bytes())
            Go.find().build(["-o", "judge", "."], folder=folder, each=lambda line: None)
            (folder / "judge").replace(program)
    sys.stdout.write(f"{program}\n")


if __name__ == "__main__":
    main()

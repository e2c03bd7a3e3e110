"""Make the recordings again that judge the model: the whole catalogue on real kubelets.

    python -m conformance.record [-n 2] [--machine NAME ...] [--missing] RELEASE ...

Each release's kubelet runs every scenario on the machines of :data:`MACHINES` (about 20 minutes
with two workers), and what was seen takes the place of ``conformance/recordings/RELEASE.jsonl.xz``.
With ``--machine`` it runs on those machines alone, with ``--missing`` those scenarios alone that
no machine has recorded, where one of them applies, and adds to what is there. A run that did not
end well replaces nothing: the exit status is its own, and its report says why.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import conformance.suite
import topologies
from conformance.catalogue import catalogue
from conformance.discovered import topology_of
from conformance.judge import inapplicable
from conformance.recording import SHIPPED, shipped
from conformance.subjects.reference import ReferenceSubject
from conformance.verdict import ExitStatus
from topologies import Machine

#: Machines of all kinds that the catalogue's scenarios need, none too large to draw and read.
MACHINES: Final = (
    "1s-1n-128c-smt1-l3x16", "1s-1n-2c-smt1", "1s-1n-4c-smt1", "1s-1n-4c-smt2",
    "1s-1n-4c-smt2-near", "1s-1n-4c-smt2-off7", "1s-2n-8c-smt4-near", "1s-4n-32c-smt2",
    "2s-2n-12c-smt2-interleaved", "2s-2n-16c-smt2", "2s-2n-16c-smt2-mem2",
    "2s-2n-16c-smt2-off3,7-8,19", "2s-2n-192c-smt2", "2s-2n-192c-smt2-l3x12",
    "2s-2n-32c-smt2-l3x4", "2s-2n-8c-smt2-cpustep2-pkgstep2-nodestep4",
    "2s-4n-40c-smt2-interleaved", "2s-4n-64c-smt2", "2s-4n-64c-smt2-l3s",
    "2s-8n-128c-smt2-l3x2", "4s-1n-4c-smt1", "4s-1n-8c-smt2-interleaved-xeon7100",
    "4s-2n-16c-smt2", "4s-4n-48c-smt2", "8s-8n-32c-smt4-near", "qemu-1s-1n-4c-smt2-cpustep2",
    "qemu-4s-4n-4c-smt1-s390x-books4-drawers4", "2s-8n-8c-smt1-xeon-e5472-buggynuma",
)  # fmt: skip

_SUITE: Final = Path(conformance.suite.__file__).parent


def arguments(
    release: str, machines: Sequence[str], workers: int, path: Path, scenarios: Sequence[str] = ()
) -> list[str]:
    """The arguments of pytest that record a kubelet of ``release`` into ``path``: these scenarios,
    by id, or all where none is named."""
    return [
        str(_SUITE / "test_scenarios.py"),
        *(f"--rootdir={_SUITE}", "-c", "/dev/null", "-p", "no:cacheprovider", "-q", "--tb=short"),
        *(f"--pin-subject=kubelet:{release}", f"--pin-record={path}", "-n", str(workers)),
        *(f"--pin-machine={name}" for name in machines),
        *(("-k", " or ".join(scenarios)) if scenarios else ()),
    ]


def unrecorded(release: str) -> list[str]:
    """The ids of the scenarios that no machine has recorded for this release."""
    recording = shipped(release)
    known = {scenario for scenario, _ in recording.cases} if recording else set()
    return [one.id for one in catalogue() if one.id not in known]


def applying(machine: Machine, release: str) -> list[str]:
    """The ids of the scenarios that the model of a release runs on this machine."""
    topology, subject = topology_of(machine, release=release), ReferenceSubject()
    return [
        one.id
        for one in catalogue()
        if one.machine in ("", machine.name) and not inapplicable(one, topology, subject, release)
    ]


def missing_on(names: Sequence[str], release: str) -> dict[str, list[str]]:
    """For each machine the scenarios that apply there and that no machine has recorded; machines
    without any are left out."""
    missing = set(unrecorded(release))
    found = {
        name: [one for one in applying(topologies.machine(name), release) if one in missing]
        for name in names
    }
    return {name: ids for name, ids in found.items() if ids}


def record(
    release: str, machines: Sequence[str], workers: int, scenarios: Sequence[str] = ()
) -> int:
    """Record one release; the exit status of its run, 0 also where some machine had nothing to run.
    Wrong usage has the same status for pytest, but records nothing."""
    kept = SHIPPED / f"{release}.jsonl.xz"
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / kept.name
        if (machines or scenarios) and kept.exists():
            shutil.copy(kept, made)
        command = [sys.executable, "-m", "pytest"]
        asked = arguments(release, machines or MACHINES, workers, made, scenarios)
        status = subprocess.run([*command, *asked], check=False).returncode
        if status == ExitStatus.TOO_FEW and made.exists() and not _equal(made, kept):
            status = 0  # a few scenarios need not apply on every machine; none of them failed
        if status == 0:
            shutil.copy(made, kept)
    return status


def _equal(made: Path, kept: Path) -> bool:
    return kept.exists() and made.read_bytes() == kept.read_bytes()


def main(given: Sequence[str] | None = None) -> int:
    """The command of this module's docstring. The first bad exit status, else 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("release", nargs="+", help="a minor: 1.32")
    parser.add_argument("-n", type=int, default=2, dest="workers", help="how many at a time")
    parser.add_argument("--machine", action="append", default=[], help="repeatable")
    parser.add_argument("--missing", action="store_true", help="what no machine has recorded")
    asked = parser.parse_args(given)
    for release in asked.release:
        machines, ids = asked.machine, list[str]()
        if asked.missing:
            found = missing_on(machines or MACHINES, release)
            if not found:
                continue
            machines, ids = list(found), sorted({one for some in found.values() for one in some})
        status = record(release, machines, asked.workers, ids)
        if status:
            sys.stderr.write(f"{release}: not recorded: its run ended with status {status}\n")
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())

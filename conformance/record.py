"""Make the recordings again that judge the model: the whole catalogue on real kubelets.

    python -m conformance.record [-n 2] [--machine NAME ...] [--missing] RELEASE ...

Each release's kubelet runs every scenario on the machines of :data:`MACHINES` (about 20 minutes
with two workers). The new recording replaces ``conformance/recordings/RELEASE.jsonl.xz``. With
``--machine`` only these machines run, with ``--missing`` only scenarios that no machine has
recorded; both add to the recording. A run that failed replaces nothing: the exit status is that of
the run, and its report says why.
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

#: Machines of all kinds that the catalogue's scenarios need; all are small enough to draw and read.
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
    by id, or all if none is named."""
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
    """For each machine the scenarios that apply there and that no machine has recorded. Machines
    without such scenarios are left out."""
    missing = set(unrecorded(release))
    found = {
        name: [one for one in applying(topologies.machine(name), release) if one in missing]
        for name in names
    }
    return {name: ids for name, ids in found.items() if ids}


def record(
    release: str, machines: Sequence[str], workers: int, scenarios: Sequence[str] = ()
) -> int:
    """Record one release; returns the exit status of its run. :attr:`ExitStatus.TOO_FEW` becomes 0
    if something was recorded: pytest has the same status for wrong usage, which records nothing."""
    kept = SHIPPED / f"{release}.jsonl.xz"
    with tempfile.TemporaryDirectory() as folder:
        recording = Path(folder) / kept.name
        if (machines or scenarios) and kept.exists():
            shutil.copy(kept, recording)
        command = [sys.executable, "-m", "pytest"]
        asked = arguments(release, machines or MACHINES, workers, recording, scenarios)
        status = subprocess.run([*command, *asked], check=False).returncode
        if status == ExitStatus.TOO_FEW and recording.exists() and not _equal(recording, kept):
            status = 0  # no scenario failed; a few need not apply on every machine
        if status == 0:
            shutil.copy(recording, kept)
    return status


def _equal(recording: Path, kept: Path) -> bool:
    return kept.exists() and recording.read_bytes() == kept.read_bytes()


def main(given: Sequence[str] | None = None) -> int:
    """The command of this module's docstring; returns the first bad exit status, else 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("release", nargs="+", help="a minor: 1.32")
    parser.add_argument("-n", type=int, default=2, dest="workers", help="how many at a time")
    parser.add_argument("--machine", action="append", default=[], help="repeatable")
    parser.add_argument("--missing", action="store_true", help="what no machine has recorded")
    options = parser.parse_args(given)
    for release in options.release:
        machines, ids = options.machine, list[str]()
        if options.missing:
            missing = missing_on(machines or MACHINES, release)
            if not missing:
                continue
            machines = list(missing)
            ids = sorted({one for some in missing.values() for one in some})
        status = record(release, machines, options.workers, ids)
        if status:
            sys.stderr.write(f"{release}: not recorded: its run ended with status {status}\n")
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Golden results: what a real kubelet found each machine of the catalogue to be.

``topologies/catalogue/NAME.golden.json.xz`` holds what one kubelet said in its log
(:mod:`differential.detected`), which kubelet that was, and the digest of the
machine: a machine that changed has no golden result. They are made by

    python -m differential.machine_golden KUBELET [MACHINE ...]

where KUBELET is a path or a release, and never by the model, which is judged by them.
"""

from __future__ import annotations

import lzma
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec

import topologies
from conformance.discovered import architecture_of
from conformance.subjects.kubelet import KubeletSubject
from differential.detected import detect
from reference import Architecture
from topologies import Machine

_FOLDER: Final = Path(topologies.__file__).parent / "catalogue"


class Golden(msgspec.Struct, frozen=True, kw_only=True):
    """One golden result. ``version``, ``digest`` and ``architecture`` are the kubelet's,
    ``machine`` is the digest of the machine; the rest is as in
    :class:`~differential.detected.Detected`."""

    version: str
    digest: str
    machine: str
    cpu_topology: dict[str, Any]
    machine_info: dict[str, Any]
    architecture: str = Architecture.X86_64.value


def record(subject: KubeletSubject, machine: Machine) -> Golden:
    """Start the kubelet on the machine, and keep what it logs beside the machine."""
    heard = detect(subject, machine)
    made = Golden(
        version=subject.info.version,
        digest=subject.info.digest,
        machine=machine.digest,
        cpu_topology=heard.cpu_topology,
        machine_info=heard.machine_info,
        architecture=architecture_of(subject.info) or Architecture.X86_64.value,
    )
    data = msgspec.json.encode(made, order="deterministic")
    path_of(machine.name).write_bytes(lzma.compress(data, preset=9))
    return made


def path_of(name: str) -> Path:
    """The path of the golden result of this machine of the catalogue."""
    return _FOLDER / f"{name}.golden.json.xz"


def main(arguments: list[str]) -> int:
    if not arguments:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    target, *patterns = arguments
    wanted = [one for pattern in patterns or ["all"] for one in topologies.find(pattern)]
    with closing(KubeletSubject.open(target)) as subject:
        for machine in wanted:
            made = record(subject, machine)
            sys.stderr.write(f"{machine.name}: {made.cpu_topology['NumCPUs']} CPUs\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

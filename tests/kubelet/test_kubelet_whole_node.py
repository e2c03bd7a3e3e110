"""A node's own archive, rehearsed with unmodified kubelets: ``pinproof upgrade --node``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

import topologies
from conformance.kept_files import ALLOCATED, FILES, MEMORY, STATE
from conformance.pods import burstable, exclusive, guaranteed, guaranteed_of
from conformance.subjects.kubelet import KubeletSubject
from reference import CPUSet
from reference.steps import Apply, Delete, Kind, KubeletConfig, Pod, Start, Stop
from tests.cli.running import Done, pinproof
from tests.kubelet.conftest import Script
from tests.support.node_archives import write_archive

MACHINE: Final = "2s-2n-8c-smt2"
SETTINGS: Final = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0,8"}
CONFIG: Final = KubeletConfig(reserved_system_cpus=CPUSet([0, 8]))
#: Ten, of which three hold CPUs.
PODS: Final = (
    guaranteed("db", 4),
    guaranteed_of("queue", [exclusive("prepare", 2, kind=Kind.INIT), exclusive("c", 2)]),
    guaranteed("web", 1),
    *(burstable(f"log{number}", request="50m") for number in range(7)),
)
HELD: Final = {
    "db": {"c": "2-3,10-11"},
    "queue": {"prepare": "5,13", "c": "5,13"},
    "web": {"c": "4"},
}

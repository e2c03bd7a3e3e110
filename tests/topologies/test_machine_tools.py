"""Described machines as lscpu and hwloc see them: readers that know real kernels."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from topologies import machine as load_machine
from topologies import names, offline, write
from topologies.spec import parse

ENVIRONMENT = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"}
SHAPES = [*names(), "2s-2n-8c-smt2-off3,11", "3s-6n-18c-smt2-interleaved-off35"]


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (util-linux, hwloc-nox)")
    return found


def counts(name: str) -> dict[str, int]:
    """What the spec promises of online CPUs."""
    spec = parse(name)
    online = spec.present & ~spec.offline
    cores = sum(1 for core in range(spec.cores) if online & _core(name, core))
    return {
        "pu": online.bit_count(),
        "core": cores,
        "package": spec.sockets,
        "numanode": spec.nodes + spec.memory_nodes,
        "l3": spec.units * spec.caches or spec.sockets,
    }


def _core(name: str, core: int) -> int:
    spec = parse(name)
    first, stride = (core * spec.threads, 1) if spec.near else (core, spec.cores)
    return sum(1 << (first + t * stride) * spec.cpu_step for t in range(spec.threads))


@pytest.mark.parametrize("name", SHAPES)
def test_lscpu_counts_the_same(name: str, tmp_path: Path) -> None:
    lscpu = tool("lscpu")
    write(load_machine(name).tree, tmp_path)
    command = [lscpu, "--sysroot", str(tmp_path), "-J"]
    done = subprocess.run(command, capture_output=True, check=True, env=ENVIRONMENT)
    seen = dict(_fields(json.loads(done.stdout)["lscpu"]))
    promised, spec = counts(name), parse(name)
    assert int(seen["Socket(s):"]) == promised["package"]
    assert int(seen["NUMA node(s):"]) == promised["numanode"]
    assert int(seen["Thread(s) per core:"]) == spec.threads
    nodes = [
        value for field, value in seen.items() if field.endswith("CPU(s):") and "node" in field
    ]
    assert sum(_size(cpus) for cpus in nodes) == promised["pu"]
    if not spec.offline:
        assert int(seen["CPU(s):"]) == promised["pu"]
        assert int(seen["Core(s) per socket:"]) * spec.sockets == promised["core"]


def _fields(entries: list[dict[str, Any]]) -> list[tuple[str, str]]:
    found = []
    for entry in entries:
        found.append((entry["field"], entry["data"] or ""))
        found += _fields(entry.get("children", []))
    return found


def _size(cpus: str) -> int:
    pieces = (piece.partition("-") for piece in cpus.split(",") if piece)
    return sum(int(last or first) - int(first) + 1 for first, _, last in pieces)


@pytest.mark.parametrize("name", SHAPES)
def test_hwloc_counts_the_same(name: str, tmp_path: Path) -> None:
    lstopo = tool("lstopo-no-graphics")
    write(load_machine(name).tree, tmp_path)
    for kind, promised in counts(name).items():
        command = [lstopo, "-i", str(tmp_path), "--of", "console", "--only", kind]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
        assert (kind, len(done.stdout.splitlines())) == (kind, promised)
        assert done.stderr == "", "hwloc finds nothing odd"


def test_hwloc_agrees_after_cpus_went_offline(tmp_path: Path) -> None:
    lstopo = tool("lstopo-no-graphics")
    machine = offline(load_machine("2s-2n-16c-smt2"), range(8, 16))
    write(machine.tree, tmp_path)
    command = [lstopo, "-i", str(tmp_path), "--of", "console", "--only", "core"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert len(done.stdout.splitlines()) == 16
    assert done.stderr == ""

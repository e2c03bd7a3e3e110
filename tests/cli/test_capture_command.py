"""``pinproof capture`` as a user runs it. A node over SSH and QEMU are tried where they are."""

from __future__ import annotations

import tomllib
from pathlib import Path

import topologies
from reference import discover
from tests.cli.running import pinproof


def test_a_folder_is_captured_and_is_the_same_machine(tmp_path: Path) -> None:
    """The archive's path is all that stdout has, and the kubelet finds the same CPUs in it."""
    original = topologies.machine("2s-2n-16c-smt2-off3,7-8,19")
    topologies.write(original.tree, tmp_path / "root")
    target = tmp_path / "taken.tar.xz"
    done = pinproof("capture", str(tmp_path / "root"), "-o", str(target), status=0)
    assert done.stdout == f"{target}\n"
    taken = topologies.machine(str(target))
    before = discover(original.tree, release="1.36").cpu_topology().details
    assert discover(taken.tree, release="1.36").cpu_topology().details == before
    facts = tomllib.loads((tmp_path / "taken.toml").read_text())
    assert facts["digest"] == taken.digest


def test_this_host_is_captured_without_its_name(tmp_path: Path) -> None:
    """As an ordinary user could."""
    target = tmp_path / "host.tar.xz"
    pinproof("capture", "-o", str(target), status=0)
    tree = topologies.machine(str(target)).tree
    assert discover(tree, release="1.36").num_cores > 0
    name = Path("/proc/sys/kernel/hostname").read_text().strip()
    assert len(name) < 4 or not any(name in text for text in tree.values())


def test_what_is_there_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "host.tar.xz"
    target.write_bytes(b"mine")
    pinproof("capture", "-o", str(target), status=2)
    assert target.read_bytes() == b"mine"
    assert list(tmp_path.iterdir()) == [target]

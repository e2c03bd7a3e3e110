"""A booted node whose runner is killed, or on which somebody else works: QEMU, a real kernel,
systemd and kubelet. Minutes under emulation, so only where ``PINPROOF_LAB`` asks for it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from hil.lab import Node, Wish, all_nodes, down, named, up
from hil.transport import NodeAddress
from hil.transport import nodes as read_inventory
from tests.support.deaths import PHASES, UPGRADE, killed, look, undone
from tests.support.meddling import CPUSETS, EXCLUSIVE, meddled, pinproof

pytestmark = pytest.mark.needs("lab")

NAME: Final = "test-deaths"
SPEC: Final = "1s-1n-4c-smt1"
#: In the order in which they are cheapest: a reboot last.
EIGHT: Final = (
    "taking",
    "taking",
    "steps",
    "restore",
    "restore",
    "forgetting",
    "forgetting",
    "reboot",
)


@pytest.fixture(scope="module")
def node(kubelet_path: str) -> Iterator[Node]:
    if NAME in [left.name for left in all_nodes()]:
        down([NAME])
    _, (made,) = up(Wish(specs=[SPEC], kubelet=Path(kubelet_path), name=NAME))
    yield made
    down([NAME])


@pytest.fixture(scope="module")
def inventory(node: Node) -> str:
    return str(node.folder / "lab.toml")


@pytest.fixture(scope="module")
def address(inventory: str) -> NodeAddress:
    return read_inventory(inventory)[0]


@pytest.fixture(scope="module")
def before(address: NodeAddress) -> list[str]:
    return look(address)


@pytest.mark.parametrize("number", range(len(EIGHT)))
def test_a_death_is_undone_without_a_hand(
    number: int, inventory: str, address: NodeAddress, before: list[str]
) -> None:
    """And without a trace: no unit, no timer, no folder, no process."""
    phase = EIGHT[number]
    delay = random.Random(number).uniform(0, PHASES[phase])
    killed(inventory, phase, delay)
    assert undone(address, before).differences == (), f"{phase}, after {delay:.1f} s"


def test_a_death_during_a_cpu_upgrade_is_undone_by_restore(
    inventory: str, address: NodeAddress, before: list[str]
) -> None:
    """No node makes another machine of itself: the lab boots it as the one that it was."""

    def another() -> bool:
        record = named(NAME).record
        return record is not None and record.original == SPEC

    killed(inventory, UPGRADE, 0, reached=another)
    restored = pinproof("restore", inventory, "--force")
    said = restored.communicate(timeout=600)[0]
    assert restored.returncode == 0, said
    assert f"{NAME}: booted as {SPEC}; restored" in said
    assert undone(address, before, within=60).differences == ()


def test_a_cpuset_that_another_hand_resets_is_told(
    inventory: str, address: NodeAddress, before: list[str]
) -> None:
    """The kernel has another cpuset than the kubelet gave: which cgroup, and both."""
    hand = f'for f in {CPUSETS}; do grep -qsE "{EXCLUSIVE}" "$f" && echo 0-3 >"$f"; done; :'
    status, said, _ = meddled(inventory, address, hand)
    assert status == 1, said
    assert "the promise is broken" in said
    assert "0-3" in said
    assert undone(address, before, within=60).differences == ()


def test_a_kubelet_that_another_hand_stops_is_no_verdict(
    inventory: str, address: NodeAddress, before: list[str]
) -> None:
    status, said, seconds = meddled(inventory, address, "systemctl stop kubelet")
    assert status == 3, said
    assert "the kubelet was stopped by another hand" in said
    assert "the promise is broken" not in said
    assert undone(address, before, within=60).differences == ()
    assert seconds < 240

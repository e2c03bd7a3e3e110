"""A booted node whose runner is killed, or on which somebody else works: QEMU, a real kernel,
systemd and kubelet."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Final

import pytest

from hil.lab import named
from hil.transport import NodeAddress, connected
from tests.support.deaths import ROOT, UPGRADE, killed, look, undone
from tests.support.meddling import CPUSETS, EXCLUSIVE, meddled, pinproof
from tests.support.node_snapshot import different, snapshot

pytestmark = pytest.mark.needs("lab")

NAME: Final = "test-deaths"
#: The lab has to boot it as another machine.
OWN_NODE: Final = True
SPEC: Final = "1s-1n-4c-smt1"


@dataclass(frozen=True, slots=True)
class Planted:
    """A script that leaves something on a node, one that takes it away, and the beginning of the
    line by which a snapshot tells it."""

    plant: str
    pull: str
    seen: str


_UNIT: Final = "/run/systemd/system/planted.service"
_CPU_MAX: Final = "/sys/fs/cgroup/system.slice/cpu.max"
_ONLINE: Final = "/sys/devices/system/cpu/cpu3/online"
PLANTED: Final = (
    Planted("touch /etc/planted", "rm /etc/planted", "+ file /etc/planted f"),
    Planted("chmod 600 /etc/hosts", "chmod 644 /etc/hosts", "+ file /etc/hosts f 600"),
    Planted(
        "cp /etc/motd /run/motd; echo planted >>/etc/motd",
        "cat /run/motd >/etc/motd; rm /run/motd",
        "- content ",
    ),
    Planted("touch /var/lib/kubelet/planted", "rm /var/lib/kubelet/planted", "+ file /var/lib/k"),
    Planted("mkdir /var/lib/pinproof", "rmdir /var/lib/pinproof", "+ file /var/lib/pinproof d"),
    Planted(f"printf '[Service]\\nExecStart=/bin/true\\n' >{_UNIT}", f"rm {_UNIT}", "+ unit file "),
    Planted(
        "systemd-run --unit planted-timer --on-active=1h true",
        "systemctl stop planted-timer.timer",
        "+ timer planted-timer.timer",
    ),
    Planted(
        "systemd-run --unit planted-failure false",
        "systemctl reset-failed planted-failure",
        "+ failed planted-failure.service",
    ),
    Planted("mkdir /sys/fs/cgroup/planted", "rmdir /sys/fs/cgroup/planted", "+ cgroup /sys/fs/"),
    Planted(f"echo 90000 100000 >{_CPU_MAX}", f"echo max 100000 >{_CPU_MAX}", "+ setting /sys/fs/"),
    Planted(
        "setsid sh -c 'echo $$ >/run/planted.pid; exec sleep 999' >/dev/null 2>&1 </dev/null &",
        "kill $(cat /run/planted.pid); rm /run/planted.pid",
        "+ process sleep 999",
    ),
    Planted("mount -t tmpfs planted /mnt", "umount /mnt", "+ mount /mnt tmpfs"),
    Planted(f"echo 0 >{_ONLINE}", f"echo 1 >{_ONLINE}", "+ online 0-2"),
)


@pytest.fixture(scope="module")
def before(address: NodeAddress) -> list[str]:
    return look(address)


def test_the_snapshot_sees_what_is_planted(address: NodeAddress) -> None:
    """All of it, and nothing once that is taken away: two snapshots of one node are the same."""
    before = snapshot(address)
    plant = "\n".join(one.plant for one in PLANTED)
    pull = "\n".join(one.pull for one in PLANTED)
    with connected(address) as shell:
        shell.run(f"{plant}\nsystemctl daemon-reload; sleep 1")
    seen = different(before, snapshot(address))
    with connected(address) as shell:
        shell.run(f"{pull}\nsystemctl daemon-reload; sleep 1")
    assert different(before, snapshot(address)) == []
    assert [one.seen for one in PLANTED if not any(one.seen in line for line in seen)] == []


def all_undone(*words: str) -> None:
    """The deaths that these words choose: without a hand, without any trace."""
    command = [sys.executable, "-m", "tests.hil.deaths", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("right, without a hand, without any trace: 1 of 1\n"), done.stdout
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("moments", ["daemon-reload, pods run", "asked to end", "is down"])
def test_a_death_is_undone_without_a_hand_or_a_trace(moments: str, inventory: str) -> None:
    """Three of the twenty of ``python -m tests.hil.deaths``."""
    all_undone(inventory, "--moments", moments)


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
    assert "the kubelet was stopped by another program" in said
    assert "the promise is broken" not in said
    assert undone(address, before, within=60).differences == ()
    assert seconds < 240

"""Somebody else on a booted node in the middle of a scenario: no deed of theirs is the kubelet's.

The node has 4 CPUs."""

from __future__ import annotations

from typing import Final

import pytest

from hil.transport import NodeAddress
from tests.support.deaths import look, undone
from tests.support.meddling import meddled

NAME: Final = "test-hands"

pytestmark = pytest.mark.needs("booted node")


def _later(seconds: int, script: str) -> str:
    """What a script leaves running ends with its connection; what systemd runs stays. A reload of
    systemd spoils a transient unit that has a semicolon in it."""
    return f"systemd-run --quiet --on-active={seconds} /bin/sh -c '{script}'"


#: By what happens: what somebody does, and what the run says that could not tell.
DEEDS: Final = {
    "the state file is removed": (
        "rm /var/lib/kubelet/cpu_manager_state",
        "the state file was removed by another program: the kubelet runs on as process",
    ),
    "a CPU is taken offline": (
        "echo 0 >/sys/devices/system/cpu/cpu3/online\n"
        + _later(10, "echo 1 >/sys/devices/system/cpu/cpu3/online"),
        "CPU 3 was taken offline by another program: 0-2 are online",
    ),
    "the configuration is changed": (
        "cp -p /var/lib/kubelet/config.yaml /run/kept; echo >>/var/lib/kubelet/config.yaml\n"
        + _later(10, "cp -p /run/kept /var/lib/kubelet/config.yaml && rm /run/kept"),
        "/var/lib/kubelet/config.yaml was changed by another program",
    ),
    # A look in between finds the socket gone.
    "containerd is restarted": ("systemctl restart containerd", "the container runtime was"),
    "the runtime has another cgroup driver": (
        "cd /etc/containerd; cp -p config.toml /run/kept\n"
        "sed -i 's/SystemdCgroup = true/SystemdCgroup = false/' config.toml\n"
        "cmp -s config.toml /run/kept && exit 1\n"
        "systemctl restart containerd\n"
        + _later(20, "mv /run/kept /etc/containerd/config.toml && systemctl restart containerd"),
        "the container runtime was",
    ),
    # On a busy host a look comes only after it was started again.
    "the kubelet is stopped": (
        "systemctl stop kubelet\n" + _later(10, "systemctl start kubelet"),
        "the kubelet was",
    ),
    # A look on the way down finds the runtime stopped, or is cut off and made again.
    "the node is booted": (_later(1, "systemctl reboot"), "by another program"),
    "the SSH session is killed": (_later(1, 'pkill -KILL -f "[s]shd: root"'), "the connection"),
}
#: By what happens: what somebody does that no promise depends on.
HARMLESS: Final = {
    "the clock goes an hour on": "date -s '+1 hour'",
    "the clock goes an hour back": "date -s '-1 hour'",
    "the disk is full": (
        "fallocate -l $(($(stat -f -c '%a*%S' /var/lib))) /var/full 2>/dev/null\n"
        "cat /dev/zero >>/var/full 2>/dev/null\n" + _later(20, "rm -f /var/full")
    ),
}


@pytest.mark.parametrize("happens", [*DEEDS, *HARMLESS])
def test_what_another_hand_does_is_no_verdict_on_the_kubelet(
    happens: str, inventory: str, address: NodeAddress
) -> None:
    kept = HARMLESS.get(happens, ""), "Conformant: 1 promise kept"
    hand, said = DEEDS.get(happens, kept)
    before = look(address)
    status, text, _ = meddled(inventory, address, hand)
    assert said in text, text
    assert "the promise is broken" not in text
    assert status == (3 if happens in DEEDS else 0), text
    assert undone(address, before, within=200).differences == ()

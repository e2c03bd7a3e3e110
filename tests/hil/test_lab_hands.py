"""Somebody else on a booted node in the middle of a scenario: no deed of theirs is the kubelet's.

``PINPROOF_LAB_NODE`` names the inventory of a node of 4 CPUs that is booted already.
"""

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


@pytest.mark.parametrize(
    ("hand", "status", "said"),
    [
        pytest.param(
            "rm /var/lib/kubelet/cpu_manager_state",
            3,
            "the state file was removed by another hand: the kubelet runs on as process",
            id="the state file is removed",
        ),
        pytest.param(
            "echo 0 >/sys/devices/system/cpu/cpu3/online\n"
            + _later(10, "echo 1 >/sys/devices/system/cpu/cpu3/online"),
            3,
            "CPU 3 was taken offline by another hand: 0-2 are online",
            id="a CPU is taken offline",
        ),
        pytest.param(
            "cp -p /var/lib/kubelet/config.yaml /run/kept; echo >>/var/lib/kubelet/config.yaml\n"
            + _later(10, "cp -p /run/kept /var/lib/kubelet/config.yaml && rm /run/kept"),
            3,
            "/var/lib/kubelet/config.yaml was changed by another hand",
            id="the configuration is changed",
        ),
        pytest.param(
            "systemctl restart containerd",
            3,
            # A look in between finds the socket gone.
            "the container runtime was",
            id="containerd is restarted",
        ),
        pytest.param(
            "cd /etc/containerd; cp -p config.toml /run/kept\n"
            "sed -i 's/SystemdCgroup = true/SystemdCgroup = false/' config.toml\n"
            "cmp -s config.toml /run/kept && exit 1\n"
            "systemctl restart containerd\n"
            + _later(
                20, "mv /run/kept /etc/containerd/config.toml && systemctl restart containerd"
            ),
            3,
            "the container runtime was",
            id="the runtime has another cgroup driver",
        ),
        pytest.param(
            "systemctl stop kubelet\n" + _later(10, "systemctl start kubelet"),
            3,
            # On a busy host a look comes only after it was started again.
            "the kubelet was",
            id="the kubelet is stopped",
        ),
        pytest.param(
            # A look on the way down finds the runtime stopped, or is cut off and made again.
            _later(1, "systemctl reboot"),
            3,
            "by another hand",
            id="the node is booted",
        ),
        pytest.param(
            _later(1, 'pkill -KILL -f "[s]shd: root"'),
            3,
            "the connection",
            id="the SSH session is killed",
        ),
        pytest.param(
            "date -s '+1 hour'", 0, "Conformant: 1 promise kept", id="the clock goes an hour on"
        ),
        pytest.param(
            "date -s '-1 hour'", 0, "Conformant: 1 promise kept", id="the clock goes an hour back"
        ),
        pytest.param(
            "fallocate -l $(($(stat -f -c '%a*%S' /var/lib))) /var/full 2>/dev/null\n"
            "cat /dev/zero >>/var/full 2>/dev/null\n" + _later(20, "rm -f /var/full"),
            0,
            "Conformant: 1 promise kept",
            id="the disk is full",
        ),
    ],
)
def test_what_another_hand_does_is_no_verdict_on_the_kubelet(
    hand: str, status: int, said: str, inventory: str, address: NodeAddress
) -> None:
    before = look(address)
    ended, text, _ = meddled(inventory, address, hand)
    assert said in text, text
    assert "the promise is broken" not in text
    assert ended == status, text
    assert undone(address, before, within=200).differences == ()

"""Policy none under a parent cgroup that is narrower than the machine, on cgroup v1.

From 1.32 on the kubelet writes every CPU into the cgroup above all pods, which the kernel refuses
there: docs/explanation/cgroup-of-pods.md.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from hil.transport import NodeAddress, connected

NAME: Final = "test-narrow"
WISH: Final[dict[str, Any]] = {"cgroup": "v1"}

pytestmark = pytest.mark.needs("lab")

#: The kubelet starts with this policy below ``/narrow``, which has CPUs 0 and 1 of four.
_START: Final = r"""
cd /sys/fs/cgroup
systemctl stop kubelet
for c in */; do [ -h "${c%/}" ] || mkdir -p "$c/narrow.slice"; done
echo 0-1 >cpuset/narrow.slice/cpuset.cpus; echo 0 >cpuset/narrow.slice/cpuset.mems
[ -e /root/own.yaml ] || cp /var/lib/kubelet/config.yaml /root/own.yaml
sed 's/"cpuManagerPolicy": "static"/"cpuManagerPolicy": "POLICY", "cgroupRoot": "\/narrow"/
  s/ "reservedSystemCPUs": "0",/ RESERVED/' /root/own.yaml >/var/lib/kubelet/config.yaml
rm -f /var/lib/kubelet/cpu_manager_state
since=$(date +%s); systemctl start kubelet
for i in $(seq 120); do
  [ ! -e cpuset/narrow.slice/narrow-kubepods.slice/narrow-kubepods-besteffort.slice ] || break
  journalctl -u kubelet --since="@$since" -o cat --no-pager |
    grep -e 'Failed to start ContainerManager' && break
  sleep 1
done
cat cpuset/narrow.slice/narrow-kubepods.slice/cpuset.cpus
"""


def _started(address: NodeAddress, policy: str) -> str:
    reserved = '"reservedSystemCPUs": "0",' if policy == "static" else ""
    script = _START.replace("POLICY", policy).replace("RESERVED", reserved)
    with connected(address) as shell:
        return shell.run(script, deadline=400).text


def test_a_narrow_parent_ends_a_kubelet_of_policy_none_alone(address: NodeAddress) -> None:
    ended = _started(address, "none")
    assert 'failed to write \\"0-3\\"' in ended
    assert "narrow.slice/narrow-kubepods.slice/cpuset.cpus: permission denied" in ended
    up = _started(address, "static")
    assert "Failed to start ContainerManager" not in up
    assert up.splitlines()[-1] == "0-1"

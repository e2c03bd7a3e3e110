"""A lab node for real: QEMU, Debian's kernel, containerd, a real kubelet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hil.lab import Node, State, Wish, down, named, reboot, up
from hil.lab.kubelet import MANIFESTS, STATE
from hil.lab.recipe import WORKLOAD_IMAGE
from hil.shell import Shell
from hil.transport import connected
from hil.transport import nodes as read_inventory
from tests.support.node_runs import results

pytestmark = pytest.mark.needs("lab")

SMALL = "1s-1n-4c-smt1"
LARGER = "1s-1n-6c-smt1"
NAME = "test-real"
UID = "0d2c7a3e-3c43-4b8e-9f38-0d6a3b2f1c55"
PAUSE = f"/bin/pause {UID}"
MANIFEST = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "pinned", "namespace": "default", "uid": UID},
    "spec": {
        "hostNetwork": True,
        "containers": [
            {
                "name": "c",
                "image": WORKLOAD_IMAGE,
                "imagePullPolicy": "Never",
                "command": PAUSE.split(),
                "resources": {"limits": {"cpu": "2", "memory": "64Mi"}},
            }
        ],
    },
}

#: Waits until the pod's container runs, and tells what its cgroup says.
POD = f"""
cat >{MANIFESTS}/.pod
mv {MANIFESTS}/.pod {MANIFESTS}/pod.json
until pid=$(pgrep -of '^/bin/sh {PAUSE}'); do sleep 0.2; done
cat /sys/fs/cgroup"$(sed -n 's/^0:://p' "/proc/$pid/cgroup")"/cpuset.cpus
"""


@pytest.fixture
def shell(node: Node) -> Iterator[Shell]:
    (address,) = read_inventory(str(node.folder / "lab.toml"))
    with connected(address) as opened:
        yield opened


def _state(shell: Shell) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shell.run(f"cat {STATE}").text)
    return found


def test_a_node_is_reached_with_the_keys_of_its_inventory(node: Node, shell: Shell) -> None:
    assert node.state is State.UP
    assert shell.run("hostname").text.strip() == NAME
    assert _state(shell)["defaultCpuSet"] == "0-3"


def test_what_the_kernel_does_for_itself_stays_with_the_services(shell: Shell) -> None:
    """What is said to it by words and at boot, it did: all CPUs are there, too."""
    script = """
cat /sys/devices/system/cpu/online
for task in /proc/[0-9]*; do
  read -r name <$task/comm
  [ "$name" != rcu_preempt ] || sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' $task/status
done
cat /sys/devices/virtual/workqueue/cpumask /proc/irq/default_smp_affinity
cat /sys/kernel/security/lsm
"""
    online, threads, workers, interrupts, modules = shell.run(script).text.split()
    assert (online, threads) == ("0-3", "0-1")
    assert {int(workers, 16), int(interrupts, 16)} == {3}
    assert "selinux" not in modules


def test_a_node_s_clock_runs_as_the_host_s(shell: Shell) -> None:
    """However busy the host was when the node booted."""

    def moment() -> tuple[float, float]:
        before = time.monotonic()
        theirs = float(shell.run("date +%s.%N").text)
        return theirs, (before + time.monotonic()) / 2

    theirs, ours = moment()
    time.sleep(10)
    later, now = moment()
    assert later - theirs == pytest.approx(now - ours, rel=0.2)


def test_a_pod_gets_exclusive_cpus_in_its_cgroup(shell: Shell) -> None:
    """What the kernel has is what the state file says."""
    done = shell.run(POD, stdin=json.dumps(MANIFEST).encode(), deadline=300)
    assert done.text.strip() == "1-2"
    assert _state(shell)["entries"] == {UID: {"c": "1-2"}}
    assert _state(shell)["defaultCpuSet"] == "0,3"


def test_a_second_node_of_the_kind_comes_from_the_snapshot(node: Node, kubelet_path: str) -> None:
    """Two nodes of one snapshot are two nodes: keys and names of their own."""
    heard: list[str] = []
    wish = Wish(specs=[SMALL], kubelet=Path(kubelet_path), name=f"{NAME}-2")
    path, (second,) = up(wish, lambda _, stage: heard.append(stage))
    try:
        assert "loading the snapshot" in heard
        assert not any(stage.startswith("booting") for stage in heard)
        for name in ("id_ed25519", "host_ed25519"):
            assert (second.folder / name).read_bytes() != (node.folder / name).read_bytes()
        with connected(read_inventory(str(path))[0]) as other:
            assert other.run("hostname").text.strip() == f"{NAME}-2"
    finally:
        down([second.name])


def test_each_of_two_nodes_belongs_to_one_worker(
    node: Node, kubelet_path: str, tmp_path: Path
) -> None:
    """A run of the suite in parallel: both at once, and no scenario finds its node taken."""
    path, made = up(Wish(specs=[SMALL, SMALL], kubelet=Path(kubelet_path)))
    stream = tmp_path / "stream.jsonl"
    command = [sys.executable, "-m", "pytest", "--pyargs", "conformance.suite", "-q", "-n", "auto"]
    command += ["--pin-subject", f"node:{path}", "--pin-stream", str(stream)]
    try:
        ended = subprocess.run(
            [*command, "-k", "config/reservation-by or options/strict-starts-again"],
            cwd=tmp_path,
            env={**os.environ, "PYTEST_XDIST_AUTO_NUM_WORKERS": "2"},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    finally:
        down([one.name for one in made])
    assert ended.returncode == 0, ended.stdout + ended.stderr
    judged = results(stream)
    assert [one.verdict for one in judged] == ["pass"] * 6
    pairs = {(one.machine.name, one.worker) for one in judged}
    assert {name for name, _ in pairs} == {one.name for one in made}
    assert {worker for _, worker in pairs} == {"gw0", "gw1"}
    assert len(pairs) == 2


def test_more_cpus_stop_the_kubelet_until_its_state_file_is_gone(node: Node) -> None:
    """The incident that this project began with, and its recovery in two steps."""
    done = reboot(NAME, spec=LARGER)
    assert 'current set of available CPUs \\"0-5\\" doesn' in done.refusal
    assert 'CPUs in state \\"0-3\\"' in done.refusal
    assert named(NAME).state is State.UP
    (address,) = read_inventory(str(node.folder / "lab.toml"))
    assert address.lab == LARGER
    with connected(address) as shell:
        recovery = f"systemctl stop kubelet; rm {STATE}; systemctl start kubelet; "
        shell.run(f"{recovery}until [ -s {STATE} ]; do sleep 0.2; done", deadline=300)
        pods = f"until grep -q {UID} {STATE}; do sleep 0.2; done"
        assert shell.run(pods, deadline=300).status == 0
        assert _state(shell)["entries"] == {UID: {"c": "1-2"}}
        assert _state(shell)["defaultCpuSet"] == "0,3-5"

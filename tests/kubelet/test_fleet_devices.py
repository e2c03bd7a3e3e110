"""A fleet whose nodes have devices and a memory manager, made by the fixture ``pinproof_fleet``."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from conformance.subject import SubjectSetupError
from pinproof.fleet import _inotify_instances, _require_inotify
from pinproof.fleet_fixture import FleetError, MakesFleet, RunningFleet
from tests.kubelet.fleets import RELEASE, client_of, pod_of
from tests.support.until import until

GPU: Final = "example.com/gpu"
MEMORY: Final = "var/lib/kubelet/memory_manager_state"
CONFIG: Final = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0"
topologyManagerPolicy: single-numa-node
memoryManagerPolicy: Static
reservedMemory:
- numaNode: 0
  limits: {memory: 100Mi}
"""


@pytest.fixture(scope="module")
def fleet(
    pinproof_fleet: MakesFleet, own_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningFleet]:
    """A node of two NUMA nodes, with two devices near the first and two near the other."""
    config = tmp_path_factory.mktemp("settings") / "kubelet.yaml"
    config.write_text(CONFIG)
    words = ("2s-2n-8c-smt2", "--release", RELEASE, "--config", str(config))
    with pinproof_fleet(*words, "--devices", f"{GPU}=4") as made:
        yield made
    assert not made.kubeconfig.exists()
    assert not (own_cache / "pinproof/fleets" / made.name).exists()


@pytest.fixture
def api(fleet: RunningFleet) -> Any:
    """Of a cluster without pods: what other tests left is deleted."""
    client = client_of(fleet.kubeconfig)
    for pod in client.list_namespaced_pod("default").items:
        client.delete_namespaced_pod(pod.metadata.name, "default")
    assert until(lambda: not client.list_namespaced_pod("default").items)
    return client


def _create(api: Any, name: str, devices: str, phase: str) -> None:
    """And wait until it has this phase."""
    pod = pod_of(name, "node1", "2")
    pod["spec"]["containers"][0]["resources"]["limits"][GPU] = devices
    api.create_namespaced_pod("default", pod)
    assert until(lambda: bool(_status(api, name).phase == phase)), name


def _status(api: Any, name: str) -> Any:
    return api.read_namespaced_pod(name, "default").status


def test_devices_of_two_numa_nodes_are_refused(api: Any) -> None:
    """No NUMA node has three."""
    _create(api, "across", "3", "Failed")
    assert _status(api, "across").reason == "TopologyAffinityError"


def test_cpus_memory_and_devices_are_of_one_numa_node(api: Any, fleet: RunningFleet) -> None:
    """After two of the first NUMA node's are held, the CPUs of the next pod are of the other. The
    devices are there again with the next kubelet."""
    for name in ("first", "second"):
        _create(api, name, "2", "Running")
    said = fleet.call("draw", "node1")
    assert "first/c: 1,9 (2)" in said
    assert "second/c: 4,12 (2)" in said
    held = json.loads((fleet.nodes["node1"] / MEMORY).read_text())["entries"]
    near = sorted(block["numaAffinity"] for pod in held.values() for block in pod["c"])
    assert near == [[0], [1]]
    fleet.call("stop", "node1")
    fleet.call("start", "node1")
    assert until(lambda: api.read_node("node1").status.allocatable[GPU] == "4")
    api.delete_namespaced_pod("second", "default")
    assert until(lambda: len(api.list_namespaced_pod("default").items) == 1)
    _create(api, "third", "2", "Running")


def test_too_few_inotify_instances_are_said_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "limit").write_text("5\n")
    monkeypatch.setattr("pinproof.fleet._INSTANCES", tmp_path / "limit")
    monkeypatch.setattr("pinproof.fleet._inotify_instances", lambda: 1)
    with pytest.raises(SubjectSetupError) as said:
        _require_inotify(2)
    assert str(said.value) == (
        "too large a fleet for this host: 2 nodes take 12 inotify instances, and 4 of 5 are left: "
        "sysctl fs.inotify.max_user_instances=1024"
    )


def test_inotify_instances_of_this_user_are_counted() -> None:
    """Shown on this process alone, since others come and go."""
    own = str(os.getpid())
    before = _inotify_instances(own)
    made = ctypes.CDLL(None).inotify_init()
    assert made >= 0
    try:
        assert _inotify_instances(own) == before + 1
    finally:
        os.close(made)
    assert _inotify_instances(own) == before


def test_what_a_fleet_says_is_the_error(pinproof_fleet: MakesFleet, own_cache: Path) -> None:
    before = list((own_cache / "pinproof/fleets").iterdir())
    with (
        pytest.raises(FleetError, match=r"pinproof: .*no-such-machine"),
        pinproof_fleet("no-such-machine"),
    ):
        pass
    assert list((own_cache / "pinproof/fleets").iterdir()) == before


def test_a_command_that_fails_is_the_error(fleet: RunningFleet) -> None:
    with pytest.raises(FleetError, match="node9: the fleet has node1"):
        fleet.call("stop", "node9")

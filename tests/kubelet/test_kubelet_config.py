from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from conformance.kubelets import manifests
from conformance.kubelets.configuration import AREA, arguments, configuration
from conformance.kubelets.manifests import EXIT_IMAGE, PAUSE_IMAGE
from conformance.kubelets.releases import Minor, Version, parse
from conformance.kubelets.settings import settings_of
from conformance.subjects.kubelet import inside
from reference.cpuset import CPUSet
from reference.steps import PRODUCTION_PERIOD, Container, Kind, KubeletConfig, Pod


def of_newest(config: KubeletConfig) -> dict[str, Any]:
    return configuration(Minor(1, 36), config, user_namespace=False)


def test_what_decides_cpus_arrives_unchanged() -> None:
    """An option that a release does not know is given to it too."""
    options, gates = {"full-pcpus-only": "true"}, {"CPUManagerPolicyAlphaOptions": True}
    config = KubeletConfig(
        reserved_system_cpus=CPUSet([0, 16]),
        system_reserved="500m",
        kube_reserved="1",
        policy_options=options,
        feature_gates=gates,
        topology_manager_policy="restricted",
        topology_manager_scope="pod",
        topology_manager_policy_options={"prefer-closest-numa-nodes": "true"},
    )
    given = {
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0,16",
        "systemReserved": {"cpu": "500m"},
        "kubeReserved": {"cpu": "1"},
        "cpuManagerPolicyOptions": options,
        "featureGates": gates,
        "topologyManagerPolicy": "restricted",
        "topologyManagerScope": "pod",
        "topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"},
    }
    assert given.items() <= of_newest(config).items()
    old = configuration(Minor(1, 20), config, user_namespace=False)
    assert old["cpuManagerPolicyOptions"] == options


def test_memory_of_numa_nodes_is_reserved_of_the_whole_node_too() -> None:
    """The kubelet refuses other sums than system reservation and eviction threshold together."""
    config = KubeletConfig(
        system_reserved="1", memory_manager_policy="Static", reserved_memory={0: "96Mi", 1: "1Mi"}
    )
    settings = of_newest(config)
    assert settings["memoryManagerPolicy"] == "Static"
    assert settings["reservedMemory"] == [
        {"numaNode": 0, "limits": {"memory": str(96 << 20)}},
        {"numaNode": 1, "limits": {"memory": str(1 << 20)}},
    ]
    assert settings["systemReserved"] == {"cpu": "1", "memory": str(96 << 20)}
    assert settings["evictionHard"] == {"memory.available": "1Mi"}
    none = of_newest(KubeletConfig(reserved_memory={0: "1Mi"}))
    assert not {"memoryManagerPolicy", "reservedMemory", "systemReserved"} & none.keys()


def test_reservations_are_enforced_where_the_sandbox_has_cgroups() -> None:
    """The kubelet refuses to enforce anything without a cgroup for each pod."""
    config = KubeletConfig(
        enforce_node_allocatable=("pods", "kube-reserved-compressible"),
        kube_reserved_cgroup="/kube.slice",
    )
    newest = partial(configuration, Minor(1, 36), user_namespace=False)
    settings = newest(config, own_cgroups=True)
    assert settings["enforceNodeAllocatable"] == ["pods", "kube-reserved-compressible"]
    assert settings["kubeReservedCgroup"] == "/kube.slice"
    assert "systemReservedCgroup" not in settings
    assert newest(config)["enforceNodeAllocatable"] == []
    assert newest(KubeletConfig(), own_cgroups=True)["enforceNodeAllocatable"] == ["pods"]
    assert str(config) == (
        "policy static, kubeReservedCgroup /kube.slice, "
        "enforceNodeAllocatable pods kube-reserved-compressible"
    )


def test_a_sandbox_has_a_quick_reconcile_loop_unless_another_is_asked_for() -> None:
    """A real node keeps its own. The period that is a kubelet's default is left to the kubelet."""
    name, slow = "cpuManagerReconcilePeriod", KubeletConfig(reconcile_period=PRODUCTION_PERIOD)
    assert of_newest(KubeletConfig())[name] == "100ms"
    assert of_newest(replace(slow, reconcile_period=2_000))[name] == "2000ms"
    assert name not in of_newest(slow)
    assert name not in settings_of(KubeletConfig())
    assert settings_of(slow)[name] == "10000ms"
    assert str(slow) == "policy static, cpuManagerReconcilePeriod 10 s"


def test_what_is_not_set_is_left_out() -> None:
    """An empty set of reserved CPUs is set."""
    settings = of_newest(KubeletConfig(policy="none"))
    absent = {"reservedSystemCPUs", "systemReserved", "kubeReserved", "featureGates"}
    assert not (absent | {"cpuManagerPolicyOptions"}) & settings.keys()
    assert not [name for name in settings if name.startswith("topologyManager")]
    assert of_newest(KubeletConfig(reserved_system_cpus=CPUSet()))["reservedSystemCPUs"] == ""


def test_a_user_namespace_takes_its_gate() -> None:
    config = KubeletConfig(feature_gates={"A": False})
    settings = configuration(Minor(1, 36), config, user_namespace=True)
    assert settings["featureGates"] == {"A": False, "KubeletInUserNamespace": True}


@pytest.mark.parametrize(
    ("release", "fields", "flags"),
    [
        ("1.37", {"failCgroupV1", "podLogsDir", "containerRuntimeEndpoint"}, set()),
        ("1.31", {"failCgroupV1", "podLogsDir", "containerRuntimeEndpoint"}, set()),
        ("1.30", {"podLogsDir", "containerRuntimeEndpoint"}, set()),
        ("1.27", {"containerRuntimeEndpoint"}, set()),
        ("1.26", set(), {"--container-runtime-endpoint"}),
        ("1.23", set(), {"--container-runtime-endpoint", "--container-runtime"}),
        ("1.17", set(), {"--container-runtime-endpoint", "--container-runtime"}),
    ],
)
def test_each_release_gets_what_it_knows(release: str, fields: set[str], flags: set[str]) -> None:
    minor = parse(release)
    assert isinstance(minor, Minor)
    settings = configuration(minor, KubeletConfig(), user_namespace=False)
    given = {word.partition("=")[0] for word in arguments(minor, "/k")}
    assert {"failCgroupV1", "podLogsDir", "containerRuntimeEndpoint"} & settings.keys() == fields
    assert {"--container-runtime-endpoint", "--container-runtime"} & given == flags


@pytest.mark.parametrize("minor", range(17, 38))
def test_docker_is_named_to_those_that_ask_for_it(minor: int) -> None:
    named = [word for word in arguments(Minor(1, minor), "/k") if word.startswith("--docker=")]
    assert named == (["--docker=unix:///pinproof/docker.sock"] if 19 <= minor <= 23 else [])


def test_local_storage_is_a_gate_before_it_is_a_field() -> None:
    old = configuration(Minor(1, 24), KubeletConfig(), user_namespace=False)
    new = configuration(Minor(1, 25), KubeletConfig(), user_namespace=False)
    assert old["featureGates"] == {"LocalStorageCapacityIsolation": False}
    assert "localStorageCapacityIsolation" not in old
    assert new["localStorageCapacityIsolation"] is False
    assert "featureGates" not in new


@pytest.mark.parametrize("text", ["1.36", "v1.36", "1.36.4", "v1.36.4"])
def test_releases_are_read(text: str) -> None:
    assert parse(text) == (Version(1, 36, 4) if text.endswith(".4") else Minor(1, 36))


@pytest.mark.parametrize("text", ["", "1", "1.", "1.36.", "1.36.4.1", "1.036", "1.x", "kubelet"])
def test_what_is_no_release_is_not_read(text: str) -> None:
    assert parse(text) is None


def test_a_manifest_states_the_pod() -> None:
    """A container requests devices as it is limited to them."""
    pod = Pod(
        "web",
        (
            Container("setup", cpu_request="1", cpu_limit="1", kind=Kind.INIT),
            Container("proxy", cpu_limit="2", kind=Kind.SIDECAR),
            Container("app", memory_limit="64Mi", devices=(("pinproof.invalid/nic", 2),)),
            Container("bare"),
        ),
    )
    manifest = json.loads(manifests.text(pod))
    assert manifest["metadata"] == {"name": "web", "uid": pod.uid, "namespace": "default"}
    setup, proxy = manifest["spec"]["initContainers"]
    app, bare = manifest["spec"]["containers"]
    assert setup["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    assert proxy["resources"] == {"limits": {"cpu": "2"}}
    devices = {"pinproof.invalid/nic": "2"}
    assert app["resources"] == {"requests": devices, "limits": {"memory": "64Mi"} | devices}
    assert "resources" not in bare
    assert [each["image"] for each in (setup, proxy, app)] == [EXIT_IMAGE, *[PAUSE_IMAGE] * 2]
    assert "restartPolicy" not in setup
    assert proxy["restartPolicy"] == "Always"


def test_a_kubelet_and_its_sandbox_agree_on_their_folder() -> None:
    """The sandbox's first process imports nothing of the project, so it has the path itself."""
    assert AREA == inside.AREA

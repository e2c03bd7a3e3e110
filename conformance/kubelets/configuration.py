"""A kubelet's command line and configuration file, in the form of its release.

What belongs here: settings that every kubelet gets which pinproof starts, and further ones for a
kubelet in a sandbox. These let a kubelet start quickly, without other services, and do little on
its own. What never does: what decides CPUs (``settings``).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from conformance.kubelets import releases
from conformance.kubelets.releases import Minor
from conformance.kubelets.settings import settings_of
from reference.pods.quantity import quantity, value
from reference.steps import PRODUCTION_PERIOD, KubeletConfig
from reference.steps import RECONCILE_PERIOD as DEFAULT_PERIOD

#: The folder of a sandboxed kubelet's files, as the kubelet sees it.
AREA: Final = "/pinproof"
CONFIG_FILE: Final = f"{AREA}/kubelet.yaml"
MANIFESTS: Final = f"{AREA}/manifests"
CRI_SOCKET: Final = f"{AREA}/cri.sock"
DOCKER_SOCKET: Final = f"{AREA}/docker.sock"
TEMPORARY: Final = f"{AREA}/tmp"  # noqa: S108  - inside the sandbox
CERTIFICATES: Final = f"{AREA}/certificates"
KUBECONFIG: Final = f"{AREA}/kubeconfig"
NODE_NAME: Final = "pinproof"
#: ``readOnlyPort``, without TLS, on the sandbox's own loopback.
PORT: Final = 10255
#: ``cpuManagerReconcilePeriod`` by default, in seconds.
RECONCILE_PERIOD: Final = DEFAULT_PERIOD / 1000


#: What makes a file a KubeletConfiguration.
KIND: Final = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


def configuration(
    release: Minor, config: KubeletConfig, *, user_namespace: bool, own_cgroups: bool = False
) -> dict[str, Any]:
    """The KubeletConfiguration that this release understands, in a sandbox of this kind."""
    settings = basis(
        manifests=MANIFESTS,
        endpoint=f"unix://{CRI_SOCKET}",
        reconcile_period=f"{round(RECONCILE_PERIOD * 1000)}ms",
    )
    settings |= _of_sandbox() | settings_of(config)
    if config.reconcile_period == PRODUCTION_PERIOD:
        del settings["cpuManagerReconcilePeriod"]  # so it is also seen to be the default
    _reserve_memory(settings, config)
    settings["cgroupsPerQOS"] = own_cgroups
    settings["enforceNodeAllocatable"] = list(config.enforce_node_allocatable) * own_cgroups
    settings |= _cgroups_of_reservations(config)
    if config.api_server:
        # The API server knows devices from the kubelet's node status, by default every 10 s.
        settings |= {"nodeStatusUpdateFrequency": "1s", "nodeStatusReportFrequency": "5m"}
    if user_namespace:
        settings["featureGates"] = {**config.feature_gates, "KubeletInUserNamespace": True}
    return in_form_of(release, settings, asked={"cpuManagerPolicyOptions"})


def basis(*, manifests: str, endpoint: str, reconcile_period: str) -> dict[str, Any]:
    """The settings of every kubelet that pinproof starts. It reads static pods from the folder
    ``manifests``, finds its runtime at ``endpoint``, and answers every client at :data:`PORT` of
    its own loopback."""
    return {
        **KIND,
        "staticPodPath": manifests,
        "containerRuntimeEndpoint": endpoint,
        "imageServiceEndpoint": endpoint,
        "cpuManagerReconcilePeriod": reconcile_period,
        "address": "127.0.0.1",
        "readOnlyPort": PORT,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "resolvConf": "",
        "failCgroupV1": False,
        "failSwapOn": False,
        # An image that was removed could not be pulled again.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    }


def _of_sandbox() -> dict[str, Any]:
    return {
        "podLogsDir": "/var/log/pods",
        "volumePluginDir": f"{AREA}/volume-plugins",
        # The port with TLS would need a key at the first start.
        "enableServer": False,
        "healthzPort": 0,
        "cgroupDriver": "cgroupfs",
        "localStorageCapacityIsolation": False,
        "evictionHard": {"memory.available": "1Mi"},
        # The process's own value: a kubelet without the right to lower it retries for 0.2 s.
        "oomScoreAdj": int(Path("/proc/self/oom_score_adj").read_text()),
        "fileCheckFrequency": "1s",
        "syncFrequency": "1s",
    }


def _reserve_memory(settings: dict[str, Any], config: KubeletConfig) -> None:
    """Add the memory manager's settings. The reservations of all NUMA nodes must add up to what the
    kubelet reserves of the node: the system's reservation and the eviction threshold."""
    if config.memory_manager_policy == "None":
        return
    reserved = {node: value(quantity(text)) for node, text in config.reserved_memory.items()}
    threshold = value(quantity(settings["evictionHard"]["memory.available"]))
    settings["memoryManagerPolicy"] = config.memory_manager_policy
    settings["reservedMemory"] = [
        {"numaNode": node, "limits": {"memory": str(size)}} for node, size in reserved.items()
    ]
    whole = config.memory_reservation
    total = sum(reserved.values()) if whole is None else value(quantity(whole))
    amounts = settings.get("systemReserved", {})
    settings["systemReserved"] = {**amounts, "memory": str(total - threshold)}


def _cgroups_of_reservations(config: KubeletConfig) -> dict[str, Any]:
    named = {
        "kubeReservedCgroup": config.kube_reserved_cgroup,
        "systemReservedCgroup": config.system_reserved_cgroup,
    }
    return {name: cgroup for name, cgroup in named.items() if cgroup is not None}


def in_form_of(
    release: Minor, settings: Mapping[str, Any], *, asked: Collection[str]
) -> dict[str, Any]:
    """``settings`` without the fields that this release does not know. If the release had a feature
    gate in place of a field, the gate is set. The fields in ``asked`` stay, so that an old kubelet
    refuses them."""
    known = dict(settings)
    gates = dict(known.pop("featureGates", None) or {})
    for name, since in releases.FIELD_SINCE.items():
        if release < since and name in known and name not in asked:
            value = known.pop(name)
            if name in releases.GATE_BEFORE:
                gates[releases.GATE_BEFORE[name]] = value
    return known | ({"featureGates": gates} if gates else {})


def merged(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with a JSON merge patch (RFC 7386), as a drop-in is; ``null`` removes a field."""
    result = dict(base)
    for key, wanted in patch.items():
        if wanted is None:
            result.pop(key, None)
        elif isinstance(wanted, Mapping):
            earlier = result.get(key)
            result[key] = merged(earlier if isinstance(earlier, Mapping) else {}, wanted)
        else:
            result[key] = wanted
    return result


def file_text(settings: Mapping[str, Any]) -> str:
    """The configuration file (JSON, which is YAML)."""
    return json.dumps(settings, indent=1) + "\n"


def arguments(release: Minor, binary: str, *, node_in_cluster: str = "") -> list[str]:
    """The kubelet's command line, which names the configuration file. ``node_in_cluster``: the name
    of the kubelet's node in a cluster, whose kubeconfig is at :data:`KUBECONFIG`."""
    argv = [
        binary,
        f"--config={CONFIG_FILE}",
        f"--hostname-override={node_in_cluster or NODE_NAME}",
        f"--cert-dir={CERTIFICATES}",
        "--v=2",
    ]
    argv += releases.runtime_flags(release, f"unix://{CRI_SOCKET}")
    if node_in_cluster:
        argv.append(f"--kubeconfig={KUBECONFIG}")
    if releases.asks_for_docker(release):
        argv.append(f"--docker=unix://{DOCKER_SOCKET}")
    return argv

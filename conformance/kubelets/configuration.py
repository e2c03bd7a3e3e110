"""A kubelet's command line and configuration file, in the form of its release.

What belongs here: what every kubelet is given that is started from here, and the rest for one in a
sandbox. That is chosen so that a kubelet starts beside nothing else, quickly, and does little on
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
from reference.steps import RECONCILE_PERIOD as DEFAULT_PERIOD
from reference.steps import KubeletConfig

#: Where the files of a kubelet in a sandbox lie, as it sees them.
AREA: Final = "/pinproof"
CONFIG_FILE: Final = f"{AREA}/kubelet.yaml"
MANIFESTS: Final = f"{AREA}/manifests"
CRI_SOCKET: Final = f"{AREA}/cri.sock"
DOCKER_SOCKET: Final = f"{AREA}/docker.sock"
TEMPORARY: Final = f"{AREA}/tmp"  # noqa: S108  - inside the sandbox
CERTIFICATES: Final = f"{AREA}/certificates"
KUBECONFIG: Final = f"{AREA}/kubeconfig"
NODE_NAME: Final = "pinproof"
#: The port without TLS; the address is the sandbox's own loopback.
PORT: Final = 10255
#: ``cpuManagerReconcilePeriod``, in seconds, where nothing else is configured.
RECONCILE_PERIOD: Final = DEFAULT_PERIOD / 1000


#: What makes a file a KubeletConfiguration.
KIND: Final = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


def configuration(
    release: Minor, config: KubeletConfig, *, user_namespace: bool, own_cgroups: bool = False
) -> dict[str, Any]:
    """The KubeletConfiguration that this release understands, in a sandbox of this kind."""
    made = basis(
        manifests=MANIFESTS,
        endpoint=f"unix://{CRI_SOCKET}",
        reconcile_period=f"{round(RECONCILE_PERIOD * 1000)}ms",
    )
    made |= _of_sandbox() | settings_of(config)
    _reserve_memory(made, config)
    made["cgroupsPerQOS"] = own_cgroups
    made["enforceNodeAllocatable"] = ["pods"] if own_cgroups else []
    if config.api_server:
        # The server has devices once the kubelet tells it of its node, by default every 10 s.
        made |= {"nodeStatusUpdateFrequency": "1s", "nodeStatusReportFrequency": "5m"}
    if user_namespace:
        made["featureGates"] = {**config.feature_gates, "KubeletInUserNamespace": True}
    return in_form_of(release, made, asked={"cpuManagerPolicyOptions"})


def basis(*, manifests: str, endpoint: str, reconcile_period: str) -> dict[str, Any]:
    """What every kubelet that is started from here has set: it reads static pods from the folder
    ``manifests``, finds its runtime at ``endpoint``, and answers every client at :data:`PORT`
    of its own loopback."""
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
        # No image can be had a second time.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    }


def _of_sandbox() -> dict[str, Any]:
    return {
        "podLogsDir": "/var/log/pods",
        "volumePluginDir": f"{AREA}/volume-plugins",
        # The port with TLS would need a key of its own at the first start.
        "enableServer": False,
        "healthzPort": 0,
        "cgroupDriver": "cgroupfs",
        "localStorageCapacityIsolation": False,
        "evictionHard": {"memory.available": "1Mi"},
        # What the process has anyway: a kubelet that may not lower it tries for 0.2 s.
        "oomScoreAdj": int(Path("/proc/self/oom_score_adj").read_text()),
        "fileCheckFrequency": "1s",
        "syncFrequency": "1s",
    }


def _reserve_memory(made: dict[str, Any], config: KubeletConfig) -> None:
    """Add the memory manager's settings. The reservations of all NUMA nodes are to be just what the
    kubelet reserves of the whole node: the system's reservation and the eviction threshold."""
    if config.memory_manager_policy == "None":
        return
    reserved = {node: value(quantity(text)) for node, text in config.reserved_memory.items()}
    threshold = value(quantity(made["evictionHard"]["memory.available"]))
    made["memoryManagerPolicy"] = config.memory_manager_policy
    made["reservedMemory"] = [
        {"numaNode": node, "limits": {"memory": str(size)}} for node, size in reserved.items()
    ]
    whole = config.memory_reservation
    total = sum(reserved.values()) if whole is None else value(quantity(whole))
    amounts = made.get("systemReserved", {})
    made["systemReserved"] = {**amounts, "memory": str(total - threshold)}


def in_form_of(
    release: Minor, settings: Mapping[str, Any], *, asked: Collection[str]
) -> dict[str, Any]:
    """``settings`` without the fields that this release refuses to know. Where a feature gate stood
    for the field, it is set instead. What was ``asked`` for stays: that an old kubelet refuses it
    is an answer."""
    made = dict(settings)
    gates = dict(made.pop("featureGates", None) or {})
    for name, since in releases.FIELD_SINCE.items():
        if release < since and name in made and name not in asked:
            value = made.pop(name)
            if name in releases.GATE_BEFORE:
                gates[releases.GATE_BEFORE[name]] = value
    return made | ({"featureGates": gates} if gates else {})


def merged(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON merge patch (RFC 7386), which a drop-in is: ``null`` takes away."""
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
    """The command line that goes with the configuration file. ``node_in_cluster``: the kubelet is
    this node of a cluster, whose kubeconfig is at :data:`KUBECONFIG`."""
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

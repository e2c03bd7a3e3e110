"""A kubelet's command line and configuration file, for one release and one sandbox.

What belongs here: the form of what a kubelet is given. Everything that does not decide CPUs is
chosen so that a kubelet starts beside nothing else, quickly, and does little on its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from conformance.kubelets import releases
from conformance.kubelets.releases import Minor
from reference.steps import KubeletConfig

#: Where the files lie that a kubelet gets from us, as it sees them.
AREA: Final = "/pinproof"
CONFIG_FILE: Final = f"{AREA}/kubelet.yaml"
MANIFESTS: Final = f"{AREA}/manifests"
CRI_SOCKET: Final = f"{AREA}/cri.sock"
DOCKER_SOCKET: Final = f"{AREA}/docker.sock"
TEMPORARY: Final = f"{AREA}/tmp"  # noqa: S108  - inside the sandbox
CERTIFICATES: Final = f"{AREA}/certificates"
NODE_NAME: Final = "pinproof"
#: The port without TLS; the address is the sandbox's own loopback.
PORT: Final = 10255
#: ``cpuManagerReconcilePeriod``, in seconds.
RECONCILE_PERIOD: Final = 0.1


def configuration(
    release: Minor, config: KubeletConfig, *, user_namespace: bool, own_cgroups: bool = False
) -> dict[str, Any]:
    """The KubeletConfiguration that this release understands, in a sandbox of this kind."""
    gates = dict(config.feature_gates)
    if user_namespace:
        gates["KubeletInUserNamespace"] = True
    settings = _common() | settings_of_cpus(config)
    for name, gate in releases.GATE_BEFORE.items():
        if release < releases.FIELD_SINCE[name]:
            gates[gate] = settings[name]
    settings["cgroupsPerQOS"] = own_cgroups
    if gates:
        settings["featureGates"] = gates
    for name, since in releases.FIELD_SINCE.items():
        # An option that the scenario asked for stays: that an old kubelet refuses it is an answer.
        if release < since and name != "cpuManagerPolicyOptions":
            settings.pop(name, None)
    return settings


def _common() -> dict[str, Any]:
    endpoint = f"unix://{CRI_SOCKET}"
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "staticPodPath": MANIFESTS,
        "containerRuntimeEndpoint": endpoint,
        "imageServiceEndpoint": endpoint,
        "podLogsDir": "/var/log/pods",
        "volumePluginDir": f"{AREA}/volume-plugins",
        "resolvConf": "",
        # The port with TLS would need a key of its own at the first start.
        "enableServer": False,
        "address": "127.0.0.1",
        "readOnlyPort": PORT,
        "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "evictionHard": {"memory.available": "1Mi"},
        # What the process has anyway: a kubelet that may not lower it tries for 0.2 s.
        "oomScoreAdj": int(Path("/proc/self/oom_score_adj").read_text()),
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "fileCheckFrequency": "1s",
        "syncFrequency": "1s",
        "cpuManagerReconcilePeriod": f"{round(RECONCILE_PERIOD * 1000)}ms",
    }


def settings_of_cpus(config: KubeletConfig) -> dict[str, Any]:
    """The settings that decide CPUs, under their names in KubeletConfiguration."""
    settings: dict[str, Any] = {"cpuManagerPolicy": config.policy}
    if config.reserved_system_cpus is not None:
        settings["reservedSystemCPUs"] = str(config.reserved_system_cpus)
    if config.system_reserved is not None:
        settings["systemReserved"] = {"cpu": config.system_reserved}
    if config.kube_reserved is not None:
        settings["kubeReserved"] = {"cpu": config.kube_reserved}
    if config.policy_options:
        settings["cpuManagerPolicyOptions"] = dict(config.policy_options)
    return settings | _of_topology_manager(config)


def _of_topology_manager(config: KubeletConfig) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if config.topology_manager_policy != "none":
        settings["topologyManagerPolicy"] = config.topology_manager_policy
    if config.topology_manager_scope != "container":
        settings["topologyManagerScope"] = config.topology_manager_scope
    if config.topology_manager_policy_options:
        settings["topologyManagerPolicyOptions"] = dict(config.topology_manager_policy_options)
    return settings


def file_text(settings: dict[str, Any]) -> str:
    """The configuration file (JSON, which is YAML)."""
    return json.dumps(settings, indent=1) + "\n"


def arguments(release: Minor, binary: str) -> list[str]:
    """The command line that goes with the configuration file."""
    argv = [
        binary,
        f"--config={CONFIG_FILE}",
        f"--hostname-override={NODE_NAME}",
        f"--cert-dir={CERTIFICATES}",
        "--v=2",
    ]
    argv += releases.runtime_flags(release, f"unix://{CRI_SOCKET}")
    if releases.asks_for_docker(release):
        argv.append(f"--docker=unix://{DOCKER_SOCKET}")
    return argv

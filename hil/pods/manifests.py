"""The manifest of a pod of a run.

A pod is named ``pinproof-NAME``; a static one has the beginning of its uid after that. It has a uid
of its own, so that its entry in the state file and its cgroup are known (an API server gives
another one). It has no network of its own. Its programs sleep until a signal makes them spin.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from conformance.kubelets.manifests import marks, pod_spec
from conformance.subject import SubjectUnable
from hil.apiserver.space import LABELS, bound
from hil.observation.places import OURS
from reference.steps import Container, Kind, Pod

#: Sleeps; a USR1 makes it spin for about a second on one CPU.
_SLEEPER: Final = (
    "trap 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done' USR1; "
    "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"
)


#: Seconds from SIGTERM to SIGKILL. With 0, an API server takes every deletion for a forced one.
GRACE: Final = 2


@dataclass(frozen=True, slots=True)
class Image:
    """What containers are made of: an image that is on the node already, or that it may pull, with
    a POSIX shell in it at ``shell``."""

    name: str = "docker.io/library/busybox:latest"
    shell: str = "/bin/sh"


def file_name(pod: str) -> str:
    """The name of its file in the folder of static pods."""
    return f"{OURS}{pod}.yaml"


def text(pod: Pod, image: Image) -> str:
    """The manifest (JSON, which is YAML)."""
    return json.dumps(manifest(pod, image), indent=1) + "\n"


def manifest(
    pod: Pod, image: Image, *, node_name: str = "", namespace: str = "default"
) -> dict[str, Any]:
    """The manifest as an object of the API. ``node_name``: bound to this node, without the
    scheduler and in spite of taints; the API server then gives the uid. Raises
    :class:`SubjectUnable` for a critical pod, which may evict pods of others."""
    if pod.critical:
        raise SubjectUnable(f"pod {pod.name} is critical: it may put out pods of others")
    spec = pod_spec(pod, lambda container: _program(container, image))
    name = f"{OURS}{pod.name}"
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, **marks(pod)}
    if node_name:
        spec |= bound(node_name, GRACE)
        metadata["labels"] = {**dict(pod.labels), **LABELS}
    else:
        # A kubelet lets a static pod wait for 10 to 15 s while one of its name is still ending
        # (``allowStaticPodStart``, ``pkg/kubelet/pod_workers.go``, 1.22 on).
        metadata |= {"name": f"{name}-{pod.uid[:8]}", "uid": pod.uid}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _program(container: Container, image: Image) -> dict[str, Any]:
    script = "exit 0" if container.kind is Kind.INIT else _SLEEPER
    return {"image": image.name, "command": [image.shell, "-c", script]}

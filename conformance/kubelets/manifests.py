"""The manifest of a static pod."""

from __future__ import annotations

import json
from typing import Any, Final

from reference.steps import Container, Kind, Pod, PodResources

#: Containers of this image exit at once; those of any other run for ever.
EXIT_IMAGE: Final = "pinproof.invalid/exit:1"
PAUSE_IMAGE: Final = "pinproof.invalid/pause:1"


def file_name(pod: str) -> str:
    """The name of its file in the folder that the kubelet watches."""
    return f"{pod}.yaml"


def text(pod: Pod) -> str:
    """The manifest (JSON, which is YAML), with the pod's own uid."""
    return json.dumps(manifest(pod), indent=1) + "\n"


def manifest(pod: Pod) -> dict[str, Any]:
    """The manifest as an object of the API."""
    before = [_container(each) for each in pod.containers if each.kind is not Kind.APP]
    apps = [_container(each) for each in pod.containers if each.kind is Kind.APP]
    spec: dict[str, Any] = {
        "hostNetwork": True,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 0,
        "containers": apps,
    }
    if before:
        spec["initContainers"] = before
    if pod.resources is not None:
        spec["resources"] = _resources(pod.resources)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod.name, "uid": pod.uid, "namespace": "default"},
        "spec": spec,
    }


def _container(container: Container) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "name": container.name,
        "image": EXIT_IMAGE if container.kind is Kind.INIT else PAUSE_IMAGE,
        "imagePullPolicy": "IfNotPresent",
    }
    requests = _quantities(container.cpu_request, container.memory_request)
    limits = _quantities(container.cpu_limit, container.memory_limit)
    resources = {"requests": requests, "limits": limits}
    if any(resources.values()):
        shape["resources"] = {name: each for name, each in resources.items() if each}
    if container.kind is Kind.SIDECAR:
        shape["restartPolicy"] = "Always"
    return shape


def _resources(owner: Container | PodResources) -> dict[str, dict[str, str]]:
    requests = _quantities(owner.cpu_request, owner.memory_request)
    limits = _quantities(owner.cpu_limit, owner.memory_limit)
    both = {"requests": requests, "limits": limits}
    return {name: each for name, each in both.items() if each}


def _quantities(cpu: str | None, memory: str | None) -> dict[str, str]:
    quantities = {"cpu": cpu, "memory": memory}
    return {name: each for name, each in quantities.items() if each is not None}

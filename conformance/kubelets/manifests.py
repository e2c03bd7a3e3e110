"""The manifest of a static pod."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from reference.pods.qos import PRIORITY_CLASSES
from reference.steps import Container, Kind, Pod, PodResources

#: Containers of this image exit at once; those of any other run for ever.
EXIT_IMAGE: Final = "pinproof.invalid/exit:1"
PAUSE_IMAGE: Final = "pinproof.invalid/pause:1"

#: The priority class of pods that are neither critical nor of priority 0, on an API server.
HIGH_CLASS: Final = "pinproof-high"


def file_name(pod: str) -> str:
    """The name of a pod's file in the folder that the kubelet watches."""
    return f"{pod}.yaml"


def text(pod: Pod) -> str:
    """The manifest (JSON, which is YAML), with the pod's own uid."""
    return json.dumps(manifest(pod), indent=1) + "\n"


def manifest(pod: Pod) -> dict[str, Any]:
    """The manifest as an object of the API."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod.name, "uid": pod.uid, "namespace": "default", **marks(pod)},
        "spec": pod_spec(pod, _program),
    }


def marks(pod: Pod) -> dict[str, dict[str, str]]:
    """The pod's labels and annotations, without an empty map."""
    both = {"labels": dict(pod.labels), "annotations": dict(pod.annotations)}
    return {name: values for name, values in both.items() if values}


def pod_spec(pod: Pod, program: Callable[[Container], Mapping[str, Any]]) -> dict[str, Any]:
    """``spec`` of a pod on the host's network. ``program`` gives a container's image, and its
    command if it has one."""
    before = [_container(each, program) for each in pod.containers if each.kind is not Kind.APP]
    apps = [_container(each, program) for each in pod.containers if each.kind is Kind.APP]
    spec: dict[str, Any] = {
        "hostNetwork": True,
        "restartPolicy": pod.restart_policy.value,
        "terminationGracePeriodSeconds": 0,
        "containers": apps,
    }
    if before:
        spec["initContainers"] = before
    if pod.critical:
        spec["priorityClassName"] = PRIORITY_CLASSES.get(pod.priority, "system-node-critical")
    elif pod.priority:
        spec |= {"priority": pod.priority, "priorityClassName": HIGH_CLASS}
    if pod.resources is not None:
        spec["resources"] = _resources(pod.resources)
    return spec


def _program(container: Container) -> dict[str, Any]:
    return {"image": EXIT_IMAGE if container.kind is Kind.INIT else PAUSE_IMAGE}


def _container(
    container: Container, program: Callable[[Container], Mapping[str, Any]]
) -> dict[str, Any]:
    shape: dict[str, Any] = {"name": container.name, "image": "", "imagePullPolicy": "IfNotPresent"}
    shape |= program(container)
    resources = _with_devices(_resources(container), container)
    if resources:
        shape["resources"] = resources
    if container.own_restart_policy is not None:
        shape["restartPolicy"] = container.own_restart_policy.value
    if container.resize_restarts:
        shape["resizePolicy"] = [
            {"resourceName": what, "restartPolicy": "RestartContainer"}
            for what in container.resize_restarts
        ]
    if container.restarts_all_on:
        codes = {"operator": "In", "values": list(container.restarts_all_on)}
        shape["restartPolicyRules"] = [{"action": "RestartAllContainers", "exitCodes": codes}]
    return shape


def _with_devices(resources: dict[str, dict[str, str]], container: Container) -> dict[str, Any]:
    """The resources with devices and huge pages, whose requests and limits are equal."""
    counts = {resource: str(count) for resource, count in container.devices}
    counts |= {f"hugepages-{size}": amount for size, amount in container.huge_pages}
    if not counts:
        return resources
    return {what: resources.get(what, {}) | counts for what in ("requests", "limits")}


def _resources(owner: Container | PodResources) -> dict[str, dict[str, str]]:
    both = {
        "requests": {"cpu": owner.cpu_request, "memory": owner.memory_request},
        "limits": {"cpu": owner.cpu_limit, "memory": owner.memory_limit},
    }
    given = {
        what: {name: each for name, each in quantities.items() if each is not None}
        for what, quantities in both.items()
    }
    return {what: quantities for what, quantities in given.items() if quantities}
